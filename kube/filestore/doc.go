// Package filestore is the ResourceStore of standalone mode: resources are YAML
// files below one directory, the same manifests that kubectl apply takes.
//
// It is not the place where a resource is judged: what a spec means, and what
// status says of it, is the reconcilers' business, one floor up.
//
// # Files
//
// Store keeps one file per resource that the broker made, below its directory;
// files of any *.yaml or *.yml name, at any depth and with several documents,
// written by hand are resources too. Names that begin with a dot are skipped
// (editors, .git). A user's text is kept: a write replaces the top-level blocks
// that change (status; spec and metadata when an admin request changes them),
// nothing else. What a hand edit may lose (uid, first seen, status with the topic
// id) is also kept in <dir>/.kaas/journal.
//
// # Goroutines
//
// Open starts one goroutine that looks for edits by hand (Close ends it) and, per
// Watch, one that ends with the watch's context.
//
// # Lock order
//
// Store.writeMu, held through file I/O by one writer or scan at a time, comes
// before Store.queueMu and Store.mu. queueMu guards what waits to be written (see
// batch.go); mu guards the maps and is held for memory operations only. Readers
// take mu alone, so they never wait for a disk.
package filestore
