// Package group is Kafka's group coordinator as a state machine on coord: the
// classic rebalance protocol, the consumer protocol (KIP-848) and committed offsets.
// It matches Kafka's GroupMetadataManager, ClassicGroup, ConsumerGroup and
// OffsetMetadataManager.
//
// What it is not: it opens no socket and no file and asks no authorizer. Of topics it
// knows what the image that it is given says, for the plans of consumer groups only.
// Handlers (package broker) decode, authorise, resolve topics and
// route to the shard; coord brings the time and carries records to the log.
//
// # Durable and volatile
//
// A [Machine] holds all groups of one shard. What is durable is changed by Replay
// only: committed offsets, and for each group whether a metadata record exists.
// The course of a rebalance (who joins, who waits, deadlines) is volatile, as in
// Kafka: it is made anew from the metadata record when the shard is loaded, and
// members that the record does not know join again.
//
// A record of the group is written when a leader's assignment arrives, when a
// static member is replaced, and when the last member has gone. Heartbeats and
// joins write nothing.
//
// # Replies
//
// What a client may act upon after a crash (offsets committed or read, an
// assignment, a listing) is sent after the commit of everything that it was
// made from. Heartbeats, join answers and errors hold nothing durable and are
// sent at once. Requests that wait for a rebalance stand in the member that they
// belong to, at most one of each kind; a second one answers the first.
//
// # Goroutines
//
// None. A Machine belongs to the shard's goroutine of coord; every method takes
// that shard's [kaas/coord.Turn]. No locks.
package group
