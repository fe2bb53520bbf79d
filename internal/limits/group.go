package limits

// One group shard (group).
const (
	// GroupPendingMembers of one group were handed a member id and have not come back with it (KIP-394). Each goes after
	// its session timeout, so this is what one group costs under a flood of first joins: some 200 bytes each.
	GroupPendingMembers = 10_000
	// GroupMapKept: the table of a shard's groups is made smaller when it once held more than this and is three quarters empty.
	GroupMapKept = 1_024
	// GroupSweepRecords a turn: tombstones of expired offsets, deleted topics and groups are written in turns of this
	// size, so that a sweep over a million offsets neither holds the shard nor fills the memory.
	GroupSweepRecords = 5_000
	// GroupSweepGroups visited a turn.
	GroupSweepGroups = 2_000
	// GroupSweeps that wait for one another (one per retention check and per change of the image that deletes topics).
	GroupSweeps = 16
	// GroupTombstonesPerBatch when a whole group is deleted; not atomic, and need not be: the group's own tombstone
	// comes last.
	GroupTombstonesPerBatch = 1_000
	// GroupNewMemberJoinMs: a member that joins for the first time has no member id to heartbeat with, so its request
	// may wait only this long (GroupMetadataManager's CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT).
	GroupNewMemberJoinMs = 300_000
	// GroupVerificationMs: the transaction coordinator's answer about a commit comes within milliseconds or, when a shard
	// refuses it, never.
	GroupVerificationMs = 60_000
)

// The broker's side of the group coordinators.
const (
	// GroupStopMs: how long a stopping broker waits for the commit of what its coordinators have appended.
	GroupStopMs = 10_000
	// GroupLoadReadBytes of the log are read at once while a shard loads.
	GroupLoadReadBytes = 1 << 20
)

// Consumer groups (KIP-848).
const (
	// GroupRegexRefreshMs: the regular expressions of a group are matched against changed topics at most this often
	// (GroupMetadataManager's batched refresh).
	GroupRegexRefreshMs = 10_000
	// GroupRegexSize is the parts of a regular expression with its repetitions written out; a match takes that many
	// steps of some 10 ns for each character of a name at the worst: 160 ms for the longest name. Plain text within
	// GroupRegexBytes is never above it.
	GroupRegexSize = 64 << 10
	// GroupRegexTurnSteps of matching end a turn: 50 ms at the worst, milliseconds usually.
	GroupRegexTurnSteps = 5_000_000
	// GroupPlanInTurn members and partitions: a larger plan is made outside the shard, and the member that asked for it has
	// its part by its next heartbeat only. 5,000 take the shard 10 to 25 ms at the worst, 11,000 up to 60.
	GroupPlanInTurn = 5_000
	// GroupRegexBytes is the longest regular expression that a member may subscribe by: it is compiled by the shard.
	GroupRegexBytes = 64 << 10
)
