package broker

// LeftOut is one thing that Apache Kafka does and this broker leaves out on
// purpose, with what a client sees instead. The list is the ledger that the
// support table in docs/ ends with.
type LeftOut struct {
	What string
	Sees string
	Why  string
}

// Ledger is what this room leaves out. It shrinks as things are built; nothing is
// missing without a line here.
var Ledger = []LeftOut{
	{
		What: "transactions (InitProducerId with a transactional id, keys 24 to 28, 65, 66)",
		Sees: "the keys are not advertised; InitProducerId answers UNSUPPORTED_VERSION (35), which ends the producer with an error",
		Why:  "not built yet; an error that clients retry would keep them waiting for ever",
	},
	{
		What: "the consumer group protocol of KIP-848 (keys 68, 69), share groups (76 to 79, 90 to 92), streams groups (88, 89)",
		Sees: "the keys are not advertised and group.version is 0; FindCoordinator answers INVALID_REQUEST (42) to share keys",
		Why:  "not built yet; clients fall back to the classic protocol",
	},
	{
		What: "replicas: each partition has one, the volume is the copy",
		Sees: "replicas and in-sync replicas list the leader alone; a replication factor is accepted and has no effect",
		Why:  "by design",
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
