package limits

// Bounds of the control plane.
const (
	// AdminMaxWaitMs bounds how long an admin request waits for its effect,
	// whatever timeout its client names: each waiting one holds a place in the
	// pool.
	AdminMaxWaitMs = 120_000
	// AdminRefusalPollMs is the first wait before a request that sees no effect
	// looks whether its resource was refused; it doubles up to
	// AdminRefusalPollMaxMs.
	AdminRefusalPollMs    = 50
	AdminRefusalPollMaxMs = 1_000
	// PartitionsPerRequest is Kafka's
	// ReplicationControlManager.MAX_PARTITIONS_PER_BATCH.
	PartitionsPerRequest = 10_000
	// ACLsPerRequest is Kafka's QuorumController.MAX_RECORDS_PER_USER_OP, as far as it
	// bounds CreateAcls.
	ACLsPerRequest = 10_000
	// ACLsPerUser bounds the entries of a KafkaUser that admin requests make: about a
	// megabyte of manifest, which is as much as Kubernetes keeps in one resource, and
	// each change costs as much time and memory as all of them.
	ACLsPerUser = 10_000
	// AdminConflictRetries is how often a read-modify-write of a resource is
	// repeated when someone else changed it in between.
	AdminConflictRetries = 10
)

// AdminConfigWaitMs is how long the reply to a change of configs waits until the
// broker acts on it: these requests name no timeout.
const AdminConfigWaitMs = 5_000
