// Package kube keeps resources and reconciles them: the ResourceStore over YAML
// files (standalone), the store that refuses every write (dev mode), and the
// reconcilers that both modes share, which work through the port
// meta.ResourceStore only.
//
// It is not the place where partitions are made: a reconciler decides what is
// true (topic id, partition count, effective configuration) and writes that to
// status; the broker's observer acts on it. It links no Kubernetes client: a store
// over client-go, which is not there yet, would be a room of its own below this
// one, so that a standalone start never pays for it.
//
// # Files
//
// FileStore keeps one file per resource that the broker made, below its
// directory; files of any *.yaml or *.yml name, at any depth and with several
// documents, written by hand are resources too. Names that begin with a dot
// are skipped (editors, .git). A user's text is kept: a write replaces the
// top-level blocks that change (status; spec and metadata when an admin request
// changes them), nothing else. What a hand edit may lose (uid, first seen,
// status with the topic id) is also kept in <dir>/.kaas/journal.
//
// # Goroutines
//
// OpenFileStore starts one goroutine that looks for edits by hand (Close ends
// it) and, per Watch, one that ends with the watch's context. StartReconciler
// starts one (Close ends it).
//
// # Lock order
//
// FileStore.writeMu, held through file I/O by one writer or scan at a time,
// comes before FileStore.queueMu and FileStore.mu. queueMu guards what waits to be
// written (see filebatch.go); mu guards the maps and is held for memory
// operations only. Readers take mu alone, so they never wait for a disk.
package kube
