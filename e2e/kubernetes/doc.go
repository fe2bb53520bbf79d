// Package kubernetes shows the resource files of the built broker to a real Kubernetes
// API server, and what that server says of them to the broker: both must mean the same
// by one manifest. Run it with `make kubernetes`; it builds kube-apiserver, etcd and
// kubectl first (see build), once for a machine.
//
// It is not a test of an operator: nothing here reconciles what is in the API server.
// As e2e it imports no room of kaas, so it can't agree with a bug of one.
//
// Goroutines and locks: each process under test has one goroutine that waits for its
// end; its output belongs to a tail with a lock of its own.
package kubernetes
