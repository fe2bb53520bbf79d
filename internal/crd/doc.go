// Package crd writes the CustomResourceDefinitions of kaas' kinds: what a Kubernetes
// API server is told of them. The shape comes from the Go types in meta by
// reflection, so a field that is added there must be described here before anything
// passes; what the reconcilers refuse and a schema can say is said here once, and
// what only a look at other resources or at the configuration tells (a name that is
// taken, a config key's value) stays with them.
//
// It is not used by the program: make generate writes deploy/crds with it, a root
// test fails when they are not current, and `make kubernetes` gives them to a real
// API server and shows it and kaas the same good and bad manifests.
//
// Goroutines and locks: none. Nothing here does I/O.
package crd
