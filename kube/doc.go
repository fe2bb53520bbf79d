// Package kube reconciles resources: it makes the status of topics, users and
// broker configurations follow their spec, through the port meta.ResourceStore
// only, so that standalone and cluster mode share it. The store of dev mode, which
// refuses every write, lives here too; the store over files is kube/filestore.
//
// It is not the place where partitions are made: a reconciler decides what is
// true (topic id, partition count, effective configuration) and writes that to
// status; the broker's observer acts on it. It links no Kubernetes client: a store
// over client-go, which is not there yet, would be a room of its own below this
// one, so that a standalone start never pays for it.
//
// # Goroutines and locks
//
// StartReconciler, StartUsers and StartBrokerConfig start one goroutine each
// (Close ends it), which owns all of the reconciler's state; there are no locks.
package kube
