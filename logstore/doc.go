// Package logstore keeps partitions on disk in Apache Kafka's own layout: segments (.log), sparse offset and time
// indexes (.index, .timeindex), aborted-transaction index (.txnindex), producer snapshots (.snapshot), checkpoints.
// The bytes that a client sent are the bytes on disk and the bytes that a consumer receives; the store patches base
// offset and leader epoch (and, for LogAppendTime, the time stamps) in place and never re-encodes. The formats, the
// crash procedure of each operation and what is assumed of disks stand in docs/format.
//
// It is not a protocol layer: it knows no API key, no request, no client quota, and it does not decide who leads a
// partition. It is not a resource store: topics are given to it by Ensure and Delete.
//
// # Goroutines
//
// A Store owns them all: the cleaner threads (log.cleaner.threads), one for each partition that a failing disk took down, one
// for each that is being moved to another directory, one committer (group
// commit) with a goroutine for each log directory and a bounded set of flush workers, at most one for each directory that makes its
// journal or writes back what it holds, one that allocates space behind segments that grow fast (segment.Env.StartAhead), one background janitor
// (retention, index write-out, checkpoints, deletion of files), one for each log directory that asks it now and then whether it takes
// writes (package probe) and, during Open only, the recovery workers. Append,
// Read and WhenCommitted run on the caller's goroutine and start none.
//
// # Lock order
//
// Partition.headMu → Partition.writeOutMu, logDir.checkpointMu → Store.mu → Partition.mu → segment.Segment.mu. compactor.mu is a leaf. Committer.mu and Janitor.mu are leaves: they may be taken under Partition.mu and nothing is taken
// under them. commitJournal.turn comes after Partition.writeOutMu and before Partition.syncMu, which comes before Partition.mu; both
// are held across syncs, and nothing of a produce, fetch or watermark waits for them. No lock that Append, Read or a watermark needs is held across fsync, fdatasync or a rename.
// Store.lettingGo comes before Partition.mu; who holds it tries for headMu and does not wait.
// A log directory's own locks (volume.Dir.Sync) come after Partition.headMu.
// Listener and Waiter callbacks run with no lock held.
package logstore
