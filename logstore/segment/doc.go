// Package segment is one .log file of a partition with its indexes: when it is open and mapped and who closes it, lookups by
// offset and by time, reads that hand out its bytes, and what is written beside it. docs/format has the bytes.
//
// It is not a log: which segments there are, what may be seen of them and what is appended is the partition's (logstore), and it
// decides neither when a segment is sealed nor when it is deleted.
//
// Env.StartAhead starts its one goroutine, which allocates space behind segments that grow fast. A segment whose last reference went away waits in its Env until Bury, which blocks.
//
// A segment that gets many small batches is longer than its log, by zeros that are mapped and written to (window.go), and one that grows fast
// by large ones by zeros that the next one is written over. Window and file
// are those of whoever holds Partition.mu, or of whoever has the segment when nobody appends any more.
//
// # Locks
//
// Partition.mu in the comments is the lock of the logstore.Partition that the segment belongs to: whoever calls a method that
// names it holds it, and it comes before Segment.mu, which is held while files are opened, mapped and read. graveyard.mu and
// Segment.aheadMu are leaves; the latter is held while the file system allocates, and nobody who appends or reads takes it. Read takes Segment.mu only for what is not open or mapped yet.
package segment
