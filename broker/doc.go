// Package broker is the data plane: it dispatches requests to their handlers and
// serves produce, fetch and offset lookups from the partitions of the log store. The
// packages below it serve what needs none of that: describe the metadata,
// coordinators the groups and transactions. One API key is one file, NN_name.go;
// what is left out on purpose stands in internal/docs/ledger.go.
//
// It is not the control plane: topics, users and settings change through
// resources (admin writes them, the reconcilers act on them). The observer
// (observer.go) only watches topic resources and makes this broker serve what
// they say. The data path never waits for a resource.
//
// Goroutines. The event loops of netio call OnOpen, OnFrame and OnClose; an
// inline or two-phase handler runs there and never blocks. Pool handlers run on
// the worker pool that is handed in. The room starts: the observer, which owns all
// changes of the view (observer.go); the timers and workers of produce and fetch
// (dataPart); the shards of the group coordinators, by coord (package coordinators). All end
// with Close.
//
// What is shared. The view (topic name or id to partitions) is immutable and is
// replaced as a whole through one atomic pointer, by the observer only. A
// partitionState lives as long as its partition is served and is the same object
// in every view.
//
// Lock order: fetchSessions.mu, fetchSession.mu, partitionPurgatory.mu,
// parkedFetches.mu and gather.mu are leaves: none is taken under another, and none
// is held while another room is called.
package broker
