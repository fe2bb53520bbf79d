package limits

import "time"

// Bounds of the resource store and its reconcilers.
const (
	// ResourceFileBytes is the largest resource file that is read. A KafkaUser
	// with 100,000 ACLs of 80 bytes fits.
	ResourceFileBytes = 10 << 20
	// ResourceFiles bounds how many files one store looks at.
	ResourceFiles = 100_000
	// ResourceDirDepth bounds how deep below the directory files are found.
	ResourceDirDepth = 16
	// RetiredTopicIDs bounds how many ids of deleted topics are remembered.
	RetiredTopicIDs = 100_000
	// ResourceWatchHistory is how many changes a watcher may be behind.
	ResourceWatchHistory = 8192
	// ResourceWatchBuffer is the capacity of a watcher's channel; the history
	// is the real queue.
	ResourceWatchBuffer = 256
	// ResourceJournalSlack: the journal is rewritten at a start when it has
	// more than twice the live lines and this many more.
	ResourceJournalSlack = 256
	// ResourceJournalSpecBytes bounds the copy of a spec that a journal line has.
	ResourceJournalSpecBytes = 64 << 10

	// ResourceDebounce is how long a file rests before an edit is read.
	ResourceDebounce = 150 * time.Millisecond
	// ResourceWriterPoll is how soon a file is looked at again that somebody has open
	// for writing. (When it is closed there is a notification, on most volumes.)
	ResourceWriterPoll = time.Second
	// ResourceDeleteGrace is how long a file is gone before it counts as deleted.
	ResourceDeleteGrace = time.Second
	// ResourceRescanInterval is the period of the look at all files.
	ResourceRescanInterval = 10 * time.Second
	// ResourceLostRetention is how long the journal remembers a resource whose
	// file vanished while no broker ran.
	ResourceLostRetention = 7 * 24 * time.Hour
)

// ResourceNameAttempts is how many numbered file names are tried when a user's
// files stand where a new resource's would.
const ResourceNameAttempts = 100

// ReconcileRetry is how long the reconciler waits before it tries again what the
// store refused for the moment.
const ReconcileRetry = time.Second

const (
	// ResourceBatch is how many writes of resource files share their syncs. A larger
	// request is done in several batches, and who waits behind it gets in between.
	ResourceBatch = 512
	// ResourceBatchWorkers write and sync files of one batch at a time; the reason for
	// so few is that of ObserverEnsureWorkers.
	ResourceBatchWorkers = 2
)

// GoneUsersKept is how many removed users are remembered, for a request that changed
// one of them and waits until the change is in force.
const GoneUsersKept = 256
