package limits

// One coordinator shard (coord). A shard holds at most the queue, plus what its machine parks itself (requests that
// wait for a rebalance: one per member), plus the replies that wait for a commit: each of those was an event of the
// queue, and a shard takes no new turn while CoordParkedReplies wait.
const (
	// CoordQueueEvents is the requests that wait for a shard's owner. Beyond it Submit refuses, and the client is told
	// to come again. 16,384 heartbeats are 5 s of 10,000 members, some milliseconds of work.
	CoordQueueEvents = 16_384
	// CoordPosted messages of the broker (a topic was deleted) wait for a shard that is loading. One that does not fit
	// leaves offsets of a deleted topic behind until their retention.
	CoordPosted = 4_096
	// CoordTurnEvents bounds a turn, so that the replies of its first event do not wait for an endless queue.
	CoordTurnEvents = 1_024
	// CoordTurnBytes of records end a turn early: a write of 1 MiB is already efficient.
	CoordTurnBytes = 1 << 20
	// CoordBufferKept is what a shard keeps of its batch buffer, and of its append buffer, from turn to turn. Two buffers
	// of 50 shards: 6.4 MiB when all were busy once.
	CoordBufferKept = 64 << 10
	// CoordParkedReplies wait for a commit; a storage that stalls stops the intake of the shard there.
	CoordParkedReplies = 65_536
	// CoordLoaders replay logs at the same time; more only make the disk seek.
	CoordLoaders = 2
	// CoordLoadBatchBytes is what decompressing one batch of a coordinator's log may make. A batch is at most
	// max.message.bytes (1 MiB by default); compressed, group metadata of 10,000 members reaches some tens of MiB.
	CoordLoadBatchBytes = 256 << 20
	// CoordReloadFirstMs and CoordReloadMaxMs: how long a shard whose log failed waits before it is loaded again,
	// doubling in between.
	CoordReloadFirstMs = 100
	CoordReloadMaxMs   = 30_000
	// CoordSkippedRecordLines of log about records that a load can't read; the rest is only counted.
	CoordSkippedRecordLines = 5
	// CoordCensusMs is how long a count of all groups and transactions serves the metrics, and CoordCensusWaitMs how
	// long a scrape waits for shards that load or are busy.
	CoordCensusMs     = 1_000
	CoordCensusWaitMs = 250
)
