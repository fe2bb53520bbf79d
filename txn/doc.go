// Package txn is Kafka's transaction coordinator as a state machine on coord:
// transactional ids, their producer ids and epochs, and the course of their
// transactions. It matches Kafka's TransactionCoordinator, TransactionMetadata and
// TransactionStateManager. docs/design/txn.md argues why it is sound.
//
// What it is not: it writes no marker, opens no file, asks no authorizer and makes
// no producer id. Handlers (package broker/coordinators) decode, authorise, route
// to the shard and hand in fresh producer ids; what shall be written to the
// partitions of a transaction leaves through [Config].WriteMarkers and comes back
// as the event [Machine.MarkersWritten].
//
// # Durable and volatile
//
// A [Machine] holds all transactional ids of one shard, a partition of
// __transaction_state. What its records say is changed by Replay only. Volatile are
// the last epoch of an id (Kafka does not write it either), which markers are still
// out, and requests that wait for the end of a transaction.
//
// # Replies
//
// Every answer that says something of a transaction is sent after the commit of all
// that it was made from, so no partition ever gets a record of a transaction that a
// crash makes unknown, and no marker is written before its PrepareCommit or
// PrepareAbort is on stable storage.
//
// # Goroutines
//
// None. A Machine belongs to the shard's goroutine of coord; every method takes
// that shard's [kaas/coord.Turn]. No locks.
package txn
