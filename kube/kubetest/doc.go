// Package kubetest is the harness that the tests of kube and of kube/filestore share:
// manifests, a reconciler with simple rules, and waiting for what it says.
//
// It opens no store, since it must know none: the file store's own tests use it.
//
// Goroutines and locks: none of its own.
package kubetest
