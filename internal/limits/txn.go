package limits

// One shard of the transaction coordinator (txn).
const (
	// TxnRecordBytes of one transactional id: a transaction that adds more partitions than fit is refused, and the
	// record that ends it, which is some bytes larger, still fits into max.message.bytes (1 MiB by default).
	TxnRecordBytes = 900 << 10
	// TxnMapKept: the table of a shard's ids is made smaller when it once held more than this and is three quarters empty.
	TxnMapKept = 1_024
	// TxnWaiting requests of one id wait for the end of its last transaction; a producer has at most five under way.
	TxnWaiting = 16
	// TxnPatienceMs: how long they wait before they are told CONCURRENT_TRANSACTIONS
	// (add.partitions.to.txn.retry.backoff.max.ms).
	TxnPatienceMs = 100
	// TxnMarkerRetryFirstMs and TxnMarkerRetryMaxMs: the wait before markers that could not be written are tried again,
	// doubling in between.
	TxnMarkerRetryFirstMs = 50
	TxnMarkerRetryMaxMs   = 10_000
	// TxnExpirationsPerTurn tombstones, so that a look over a million ids neither holds the shard nor fills the memory.
	TxnExpirationsPerTurn = 2_000
)
