package limits

import "time"

// Bounds of logstore.
const (
	// FlushWorkers is how many fdatasync calls of a group commit run at once. Each holds one OS thread while it waits
	// for the disk; a journalling file system folds parallel calls into one journal commit, so more is better up to
	// the number of partitions that are written at the same time.
	FlushWorkers = 64
	// A half of the commit journal of a log directory is CommitJournalMinBytes long at first and grows up to
	// CommitJournalMaxBytes while it is filled within CommitJournalGrowMs: the partitions' files are synced each time, by up to
	// CommitJournalWriters at once.
	CommitJournalWriters  = 8
	CommitJournalMinBytes = 1 << 20
	CommitJournalMaxBytes = 64 << 20
	CommitJournalGrowMs   = 10_000
	// CommitJournalMaxRest bounds how long the worker rests after the sync of a file.
	CommitJournalMaxRest = 10 * time.Millisecond
	// CommitJournalBlockBytes bounds what one sync of the journal makes durable. What a partition appended since its last commit
	// goes there up to CommitJournalEntryBytes; beyond it a sync of its own file costs less than a second writing of its bytes
	// (docs/design/commit.md).
	CommitJournalBlockBytes = 2 << 20
	CommitJournalEntryBytes = 256 << 10
	// CommitJournalMarkBytes is the end of a half that only marks may use: a compaction must not wait for its write-back.
	CommitJournalMarkBytes = 8 << 10
	// CommitJournalDiskShare: a half grows by no more than this part of what is free on the volume.
	CommitJournalDiskShare = 16
	// CommitStalledMs is how long one commit may take before appends to its partition fail fast with a retriable error.
	CommitStalledMs = 30_000
	// ProbeIntervalMs is how often a log directory is asked whether it takes writes, ProbeAgainMs how often while its answers are
	// errors, of which ProbeFailures in a row count.
	ProbeIntervalMs = 10_000
	ProbeAgainMs    = 1_000
	ProbeFailures   = 3
	// ReopenIntervalMs is how often a partition that a failing disk took down is tried again, at first; the pause doubles
	// up to ReopenMaxMs.
	ReopenIntervalMs = 1_000
	ReopenMaxMs      = 30_000
	// MoveFinalBytes is how much of a log may be left to copy when a move to another directory stops appends for its last
	// step: what a slow disk writes in a few tens of milliseconds.
	MoveFinalBytes = 1 << 20
	// MoveJournalWait is the pause before such a step is tried again, when the commit journal had no room for what it notes.
	MoveJournalWait = 20 * time.Millisecond
	// ColdReaderMs is how long reads of a segment leave the event loops after one that met bytes that were not in memory.
	ColdReaderMs = 10_000
	// ResidentSeconds and ResidentTailBytes bound what a reader takes for being in memory because it was appended just now.
	ResidentSeconds   = 2
	ResidentTailBytes = 64 << 20
	// LookIntoBytes bounds how far a read asks whether a map is in memory before it looks for batches there, and
	// LookBehindBytes is what it asks for beyond the bytes of the answer: the way from an index entry to the batch.
	LookIntoBytes   = 4 << 20
	LookBehindBytes = 64 << 10
	// FileMaps bounds the mmaps of the log store: vm.max_map_count is 65,530 for the whole process, and the Go heap,
	// thread stacks and libraries need a few thousand. Above it segments are read by descriptor only and indexes are
	// read into memory.
	FileMaps = 48_000
	// ProducersPerPartition bounds the idempotence state of one partition (about 250 bytes each); above it the
	// producers that were silent for longest and have no open transaction are forgotten.
	ProducersPerPartition = 100_000
	// ProducersSampled is how many producers are looked at to find one that may be forgotten above that bound.
	ProducersSampled = 64
	// SnapshotProducersAtOnce is how many producers are looked at under the lock of their partition before appends have their
	// turn: some 30 µs.
	SnapshotProducersAtOnce = 256
	// DecompressedBatchBytes bounds what one batch may become when records have to be looked at.
	DecompressedBatchBytes = 256 << 20
	// CleanerSyncBytes is how much a cleaner writes between two syncs: commits of producers wait for what is not synced.
	// A disk takes what one sync writes as one request, and the block of a commit behind it: 4 MiB took 2.5 to 2.8 ms.
	CleanerSyncBytes = 512 << 10
	// CleanerTurn is how long a cleaner computes before it offers the processor to whoever waits for it: less than what an
	// acknowledgement takes, much more than the offer (1 µs).
	CleanerTurn = 100 * time.Microsecond
	// CleanerTurnBytes is what it works on before it looks at the clock: some 10 µs.
	CleanerTurnBytes = 16 << 10
	// CleanerRecordWorkBytes stands for the work on a record that does not depend on its length, in bytes.
	CleanerRecordWorkBytes = 256
	// AllocateBytes is how much space a segment that grows fast gets behind its end at most, and AllocateLeastBytes at least;
	// fast is AllocateBytesPerSecond. AllocatedBytes of such space are held by all segments of a store together, and none is
	// taken when less than one part in AllocateFreeShare of the volume, and less than AllocateFreeBytes, is free.
	// AllocateQueue segments wait for theirs.
	AllocateBytes          = 16 << 20
	AllocateLeastBytes     = 1 << 20
	AllocateBytesPerSecond = 4 << 20
	AllocatedBytes         = 1 << 30
	AllocateFreeShare      = 20
	AllocateFreeBytes      = 4 << 30
	AllocateQueue          = 64
	// WindowBytes of zeros are written behind the end of a log that gets many small batches, mapped, and written to by the
	// batches. WindowBatchBytes is what counts as small. A log gets its first window after WindowAfterBatches of them within
	// WindowAfterMs; where each commit syncs, and so writes all of a window that was touched, after WindowBytes of them within
	// WindowDurableMs. One that fills a window within WindowQuickMs is mapped WindowMapBytes at a time. A segment with less
	// than WindowLeastBytes to go gets none, and a log that grew by less than WindowRestBytes between two checkpoints gives
	// it back. All windows together are bounded as space ahead is, and by one part in WindowMemoryShare of the memory that
	// the process may take: they are dirty pages. A batch each WindowStaleMs is written by a system call all the
	// same. The file of a log that grows fast by batches of more than WindowBatchBytes ends at a multiple of WindowBytes.
	WindowBytes        = 64 << 10
	WindowMapBytes     = 1 << 20
	WindowBatchBytes   = 16 << 10
	WindowAfterBatches = 8
	WindowAfterMs      = 10_000
	WindowDurableMs    = 2_000
	WindowQuickMs      = 2_000
	WindowLeastBytes   = 16 << 10
	WindowRestBytes    = 8 << 10
	WindowMemoryShare  = 16
	WindowStaleMs      = 1_000
	// UnlinkStepBytes: a deleted segment shrinks by so much at a time before its name goes, because a disk that discards what a file
	// system frees does nothing else meanwhile: 16 MB took 2.8 ms, in which every commit waited.
	UnlinkStepBytes = 1 << 20
	// CountCheckBytes bounds how much of a produced batch is decompressed to count its records, which an event loop may do.
	CountCheckBytes = 32 << 20
	// StoreFileBytes bounds the small files that are read whole: checkpoints, meta.properties, snapshots.
	StoreFileBytes = 64 << 20
	// RecoveryFiles is how many files of a partition its recovery has open at a time, of those that may have 20,000.
	RecoveryFiles = 8
	// OpenFilesShare of the limit of open files (ulimit -n), and OpenFiles at most, are for logs. Above it the files of sealed
	// segments that nobody reads are closed; those of active segments, one a partition that was written, stay open.
	OpenFilesShare = 2
	OpenFiles      = 65_536
	// LetGoSegments of a partition are looked at while its appends wait: 20 µs.
	LetGoSegments = 256

	// RecoveryChunkBytes is the read size of a recovery worker; a batch that is larger takes its own size, at most
	// RecoveryBatchBytes: a length beyond it is corruption.
	RecoveryChunkBytes = 1 << 20
	RecoveryBatchBytes = 1 << 30
	// ProducerIDBlock is how many producer ids are reserved durably at a time (Kafka's ProducerIdsBlock).
	ProducerIDBlock = 1000
)
