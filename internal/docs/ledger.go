package docs

// Ledger is what the broker leaves out of what Apache Kafka does, on purpose, with
// what a client sees instead. It shrinks as things are built; nothing is
// missing without a line here.
var Ledger = []LeftOut{
	{
		What: "prepared transactions (KIP-939: InitProducerId v6, two-phase commit)",
		Sees: "the version is not advertised, transaction.two.phase.commit.enable has no effect",
		Why:  "Kafka does not serve them by default either",
	},
	{
		What: "share groups (76 to 79, 90 to 92), streams groups (88, 89)",
		Sees: "the keys are not advertised; FindCoordinator answers INVALID_REQUEST (42) to share keys",
		Why:  "not built yet",
	},
	{
		What: "replicas: each partition has one, the volume is the copy",
		Sees: "replicas and in-sync replicas list the leader alone; a replication factor is accepted and has no effect",
		Why:  "by design",
	},
	{
		What: "followers' Fetch: there are no followers",
		Sees: "a request with a replica id is answered NOT_LEADER_OR_FOLLOWER (6) for each partition",
		Why:  "by design; the rest of the protocol (epochs, diverging epoch) is there",
	},
	{
		What: "a look into the records of a produced batch: Kafka decompresses each batch to validate it",
		Sees: "a batch with a right CRC whose records are not what its header says is stored; first and largest timestamp are taken from the header. Compacted topics are checked for keys",
		Why:  "records stay opaque; that is where most of a broker's CPU would go",
	},
	{
		What: "Produce v0 to v2, which are advertised for librdkafka as in Kafka",
		Sees: "UNSUPPORTED_VERSION (35) for each partition, where Kafka closes the connection; records that are null are INVALID_RECORD (87), where Kafka never answers",
		Why:  "an answer that can be read is better than none",
	},
	{
		What: "client telemetry (71, 72), delegation tokens (38 to 41)",
		Sees: "the keys are not advertised",
		Why:  "later",
	},
	{
		What: "KRaft quorum and inter-broker keys",
		Sees: "the keys are not advertised",
		Why:  "never: there is no quorum of brokers",
	},
}
