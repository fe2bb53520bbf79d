// Package index is the byte formats and lookups of a segment's indexes: offset index, time index and aborted-transaction
// index, as docs/format/index.md and docs/format/snapshot.md describe them.
//
// It is not a store: it opens a file only to read it whole, and does not know which segment an index belongs to, when it
// is written or who may still read it; logstore does.
//
// It owns no goroutines and has no locks. List is lock-free for readers; its proof stands beside it.
package index
