// Package kubernetes pins the Kubernetes API server, its etcd and kubectl in a module
// of its own: the tests in e2e/kubernetes need them as programs, and kaas must not
// depend on any of it. e2e/kubernetes/build builds them.
//
// The replace list is that of k8s.io/kubernetes itself, which can't be built outside
// of its own tree without it; all of its lines have the version that belongs to that
// of k8s.io/kubernetes.
//
// Goroutines and locks: none; there is no code here.
package kubernetes
