package config

import "math"

const (
	whyLoops = "requests run on the network loops and on the admin workers"
	// What Kafka does without a plug-in, which is what kaas does.
	defaultPrincipalBuilder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
	whyCleaner              = "the cleaner sizes its buffers by log.cleaner.dedupe.buffer.size"
)

func words(low int64) check { return between(low, math.MaxInt32) }

// brokerKeys are the broker keys with a meaning of their own: those that kaas
// honours, will honour, or refuses. The keys of Kafka that need no row stand in
// inert_keys.go. Defaults are Kafka's unless KafkaDefault says otherwise.
var brokerKeys = []Key{
	// Who it is and where it listens.
	{Name: "node.id", Type: Int, Default: "1", KafkaDefault: "none, required", check: words(0), Synonyms: []Synonym{{Name: "broker.id"}},
		Doc: "Id of this broker in metadata."},
	{Name: "broker.id", Type: Int, Default: "1", KafkaDefault: "-1", check: words(-1),
		Doc: "Older name of node.id, which wins; -1 counts as not set."},
	{Name: "broker.rack", Type: String, NullDefault: true,
		Doc: "Rack of this broker, shown in metadata."},
	{Name: "listeners", Type: List, Default: "PLAINTEXT://:9092", Dynamic: true, AtStart: true,
		Doc: "Where the broker listens: NAME://host:port, separated by commas. An empty host is every address, port 0 any free port. Listeners named in controller.listener.names are left out."},
	{Name: "advertised.listeners", Type: List, NullDefault: true,
		Doc: "What clients are told, NAME://host:port. Without it a client is told the address that it connected to."},
	{Name: "listener.security.protocol.map", Type: String, Default: "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL", Dynamic: true, AtStart: true,
		Doc: "Security protocol of each listener name, NAME:PROTOCOL. PLAINTEXT and SASL_PLAINTEXT are built."},
	{Name: "controller.listener.names", Type: List, Default: "", KafkaDefault: "none, required",
		Doc: "Listener names that a KRaft controller would use. kaas has no KRaft controller and leaves these listeners out."},
	{Name: "http.address", Type: String, Default: "127.0.0.1:8080", OwnKey: true, check: check{validHTTPAddress, "host:port, or nothing to switch it off"},
		Doc: "Where /healthz, /readyz and /metrics are served. Empty switches it off. If the address was not set and is in use, the broker runs without it and says so; if it was set, that is an error."},

	// Connections.
	{Name: "num.network.threads", Type: Int, Default: "3", check: words(1), Dynamic: true, AtStart: true,
		Doc: "Event loops that serve connections."},
	{Name: "socket.send.buffer.bytes", Type: Int, Default: "102400", check: words(-1),
		Doc: "SO_SNDBUF of a connection, in bytes; -1 is the system's default."},
	{Name: "socket.receive.buffer.bytes", Type: Int, Default: "102400", check: words(-1),
		Doc: "SO_RCVBUF of a connection, in bytes; -1 is the system's default."},
	{Name: "socket.request.max.bytes", Type: Int, Default: "104857600", check: words(1),
		Doc: "Largest request, in bytes. A larger one closes its connection before memory is taken for it."},
	{Name: "max.connections", Type: Int, Default: "2147483647", check: words(0), Dynamic: true,
		Doc: "Connections that the broker takes at a time."},
	{Name: "max.connections.per.ip", Type: Int, Default: "2147483647", check: words(0), Dynamic: true,
		Doc: "Connections that one client address may have at a time."},
	{Name: "connections.max.idle.ms", Type: Long, Default: "600000",
		Doc: "A connection without a request for this long is closed, in milliseconds."},
	{Name: "unstable.api.versions.enable", Type: Boolean, Default: "false", Internal: true,
		Doc: "Whether API versions that are not final are advertised."},

	// Topics.
	{Name: "num.partitions", Type: Int, Default: "1", check: words(1),
		Doc: "Partitions of a topic that is created without a count."},
	{Name: "default.replication.factor", Type: Int, Default: "1",
		Doc: "Replication factor that is reported for a topic created without one. No value makes copies."},
	{Name: "auto.create.topics.enable", Type: Boolean, Default: "true",
		Doc: "Whether a metadata request may create the topic that it names."},
	{Name: "delete.topic.enable", Type: Boolean, Default: "true",
		Doc: "Whether topics can be deleted through the admin API."},
	{Name: "controller.unstable.allow.internal.coordinator.partition.increase", Type: Boolean, Default: "false", OwnKey: true, Internal: true,
		Doc: "Whether CreatePartitions may touch internal topics. Growing one moves groups to other coordinators and loses their offsets."},

	// Defaults of topic keys.
	{Name: "log.cleanup.policy", Type: List, Default: "delete", check: someOf("compact", "delete"), Dynamic: true, Doc: docFor("cleanup.policy")},
	{Name: "compression.type", Type: String, Default: "producer", check: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), Dynamic: true, Standing: Fixed, Only: []string{"producer"}, Why: whyRecompress, Doc: docFor("compression.type")},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", check: check{func(p any) bool { n := p.(int64); return n == -1 || n >= 1 && n <= 9 }, "-1 or 1 to 9"}, Dynamic: true, Standing: Later, Why: whyRecompress, Doc: docFor("compression.gzip.level")},
	{Name: "compression.lz4.level", Type: Int, Default: "9", check: between(1, 17), Dynamic: true, Standing: Later, Why: whyRecompress, Doc: docFor("compression.lz4.level")},
	{Name: "compression.zstd.level", Type: Int, Default: "3", check: between(-131072, 22), Dynamic: true, Standing: Later, Why: whyRecompress, Doc: docFor("compression.zstd.level")},
	{Name: "log.cleaner.delete.retention.ms", Type: Long, Default: "86400000", check: atLeast(0), Dynamic: true, Standing: Later, Why: whyCompaction, Doc: docFor("delete.retention.ms")},
	{Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", check: atLeast(0), Dynamic: true, Doc: docFor("file.delete.delay.ms")},
	{Name: "log.flush.interval.messages", Type: Long, Default: "1", KafkaDefault: "9223372036854775807", check: atLeast(1), Dynamic: true, Doc: docFor("flush.messages")},
	{Name: "log.flush.interval.ms", Type: Long, NullDefault: true, Dynamic: true, Doc: docFor("flush.ms"), Synonyms: []Synonym{{Name: "log.flush.scheduler.interval.ms"}}},
	{Name: "log.index.interval.bytes", Type: Int, Default: "4096", check: words(0), Dynamic: true, Doc: docFor("index.interval.bytes")},
	{Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", check: words(4), Dynamic: true, Doc: docFor("segment.index.bytes")},
	{Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", check: atLeast(1), Dynamic: true, Standing: Later, Why: whyCompaction, Doc: docFor("max.compaction.lag.ms")},
	{Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0", check: atLeast(0), Dynamic: true, Standing: Later, Why: whyCompaction, Doc: docFor("min.compaction.lag.ms")},
	{Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5", check: ratio(0, 1), Dynamic: true, Standing: Later, Why: whyCompaction, Doc: docFor("min.cleanable.dirty.ratio")},
	{Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", check: between(1, 2147483639), Dynamic: true, Standing: Later, Why: "where the broker decompresses, it has a bound of its own", Doc: docFor("max.decompressed.message.bytes")},
	{Name: "message.max.bytes", Type: Int, Default: "1048588", check: words(0), Dynamic: true, Doc: docFor("max.message.bytes")},
	{Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000", check: atLeast(0), Dynamic: true, Doc: docFor("message.timestamp.after.max.ms")},
	{Name: "log.message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", check: atLeast(0), Dynamic: true, Doc: docFor("message.timestamp.before.max.ms")},
	{Name: "log.message.timestamp.type", Type: String, Default: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"), Dynamic: true, Doc: docFor("message.timestamp.type")},
	{Name: "log.retention.bytes", Type: Long, Default: "-1", Dynamic: true, Doc: docFor("retention.bytes")},
	{Name: "log.retention.ms", Type: Long, NullDefault: true, Dynamic: true, Doc: docFor("retention.ms"), Synonyms: []Synonym{{Name: "log.retention.minutes", UnitMs: 60_000}, {Name: "log.retention.hours", UnitMs: 3_600_000}}},
	{Name: "log.retention.minutes", Type: Int, NullDefault: true, Doc: "As log.retention.ms, which wins, in minutes."},
	{Name: "log.retention.hours", Type: Int, Default: "168", Doc: "As log.retention.ms and log.retention.minutes, which win, in hours."},
	{Name: "log.segment.bytes", Type: Int, Default: "1073741824", check: words(1 << 20), Dynamic: true, Doc: docFor("segment.bytes")},
	{Name: "log.roll.ms", Type: Long, NullDefault: true, Dynamic: true, Doc: docFor("segment.ms"), Synonyms: []Synonym{{Name: "log.roll.hours", UnitMs: 3_600_000}}},
	{Name: "log.roll.hours", Type: Int, Default: "168", check: words(1), Doc: "As log.roll.ms, which wins, in hours."},
	{Name: "log.roll.jitter.ms", Type: Long, NullDefault: true, Dynamic: true, Doc: docFor("segment.jitter.ms"), Synonyms: []Synonym{{Name: "log.roll.jitter.hours", UnitMs: 3_600_000}}},
	{Name: "log.roll.jitter.hours", Type: Int, Default: "0", check: words(0), Doc: "As log.roll.jitter.ms, which wins, in hours."},

	// Fetch.
	{Name: "fetch.max.bytes", Type: Int, Default: "57671680", check: words(1024),
		Doc: "Largest fetch response, in bytes. The first batch comes whole even above it."},
	{Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", check: words(0),
		Doc: "Incremental fetch sessions that are kept."},
	{Name: "max.request.partition.size.limit", Type: Int, Default: "2000", check: words(1),
		Doc: "Partitions that one DescribeTopicPartitions response holds."},

	// Log store.
	{Name: "log.dirs", Type: List, NullDefault: true, Synonyms: []Synonym{{Name: "log.dir"}},
		Doc: "Data directories, separated by commas. The first one also holds the resource files."},
	{Name: "log.dir", Type: List, Default: "./kaas-data", KafkaDefault: "/tmp/kafka-logs",
		Doc: "Data directory where log.dirs is not set."},
	{Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2", check: words(1), Dynamic: true, AtStart: true,
		Doc: "Partitions that are opened and recovered at a time, for each data directory."},
	{Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", check: atLeast(1),
		Doc: "How often retention looks for segments to delete, in milliseconds."},
	{Name: "log.flush.scheduler.interval.ms", Type: Long, Default: "9223372036854775807",
		Doc: "Stands in for log.flush.interval.ms where that is not set, in milliseconds."},
	{Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", check: words(1), Dynamic: true, AtStart: true,
		Doc: "How long an idle producer's sequence numbers are remembered, in milliseconds."},

	// Cleaner.
	{Name: "log.cleaner.enable", Type: Boolean, Default: "true", Standing: Later, Why: whyCompaction,
		Doc: "Whether topics with cleanup.policy=compact are compacted."},
	{Name: "log.cleaner.threads", Type: Int, Default: "1", check: words(0), Dynamic: true, Standing: Later, Why: whyCompaction,
		Doc: "Logs that are compacted at a time."},
	{Name: "log.cleaner.backoff.ms", Type: Long, Default: "15000", check: atLeast(0), Dynamic: true, Standing: Later, Why: whyCompaction,
		Doc: "How long the cleaner rests when there is nothing to compact, in milliseconds."},
	{Name: "log.cleaner.dedupe.buffer.size", Type: Long, Default: "134217728", Dynamic: true, Standing: Later, Why: whyCompaction,
		Doc: "Memory for the keys of the logs under compaction, in bytes."},
	{Name: "log.cleaner.io.max.bytes.per.second", Type: Double, Default: "1.7976931348623157E308", Dynamic: true, Standing: Later, Why: whyCompaction,
		Doc: "Bytes that compaction reads and writes in a second."},
	{Name: "log.cleaner.io.buffer.size", Type: Int, Default: "524288", check: words(0), Dynamic: true, Standing: NoEffect, Why: whyCleaner,
		Doc: "Copy buffer of the cleaner, in bytes."},
	{Name: "log.cleaner.io.buffer.load.factor", Type: Double, Default: "0.9", Dynamic: true, Standing: NoEffect, Why: whyCleaner,
		Doc: "How full the cleaner's key buffer may get."},

	// Groups.
	{Name: "offsets.topic.num.partitions", Type: Int, Default: "50", check: words(1),
		Doc: "Partitions of __consumer_offsets when it is made. Must not change afterwards."},
	{Name: "offsets.topic.replication.factor", Type: Short, Default: "3", check: between(1, math.MaxInt16), Standing: NoEffect, Why: whyNoReplicas,
		Doc: "Copies of __consumer_offsets."},
	{Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", check: words(1),
		Doc: "segment.bytes of __consumer_offsets when it is made."},
	{Name: "offsets.topic.compression.codec", Type: Int, Default: "0", Standing: Fixed, Only: []string{"0"}, Why: "offset commits are written uncompressed",
		Doc: "Codec of the batches in __consumer_offsets; 0 is none."},
	{Name: "offsets.commit.timeout.ms", Type: Int, Default: "5000", check: words(1), Standing: NoEffect, Why: "a commit is answered when it is stored or has failed",
		Doc: "How long an offset commit waits until it is stored, in milliseconds."},
	{Name: "offset.metadata.max.bytes", Type: Int, Default: "4096",
		Doc: "Largest metadata string of a committed offset, in bytes."},
	{Name: "offsets.retention.minutes", Type: Int, Default: "10080", check: words(1),
		Doc: "How long committed offsets outlive their group, in minutes."},
	{Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000", check: atLeast(1),
		Doc: "How often expired offsets are looked for, in milliseconds."},
	{Name: "group.min.session.timeout.ms", Type: Int, Default: "6000",
		Doc: "Smallest session timeout that a member may ask for, in milliseconds."},
	{Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000",
		Doc: "Largest session timeout that a member may ask for, in milliseconds."},
	{Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000",
		Doc: "How long the first rebalance of an empty group waits for more members, in milliseconds."},
	{Name: "group.max.size", Type: Int, Default: "2147483647", check: words(1),
		Doc: "Members that a group may have."},

	// Transactions.
	{Name: "transaction.state.log.num.partitions", Type: Int, Default: "50", check: words(1),
		Doc: "Partitions of __transaction_state when it is made. Must not change afterwards."},
	{Name: "transaction.state.log.segment.bytes", Type: Int, Default: "104857600", check: words(1),
		Doc: "segment.bytes of __transaction_state when it is made."},
	{Name: "transaction.max.timeout.ms", Type: Int, Default: "900000", check: words(1),
		Doc: "Longest transaction timeout that a producer may ask for, in milliseconds."},
	{Name: "transactional.id.expiration.ms", Type: Int, Default: "604800000", check: words(1),
		Doc: "How long an idle transactional id is remembered, in milliseconds."},
	{Name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type: Int, Default: "10000", check: words(1),
		Doc: "How often timed-out transactions are looked for, in milliseconds."},
	{Name: "transaction.remove.expired.transaction.cleanup.interval.ms", Type: Int, Default: "3600000", check: words(1),
		Doc: "How often expired transactional ids are looked for, in milliseconds."},
	{Name: "transaction.partition.verification.enable", Type: Boolean, Default: "true", Dynamic: true,
		Doc: "Whether the first batch of a transaction in a partition is checked with the transaction's coordinator. Batches of producers that add partitions by writing to them always are."},
	{Name: "transaction.state.log.replication.factor", Type: Short, Default: "3", check: between(1, math.MaxInt16), Standing: NoEffect, Why: whyNoReplicas,
		Doc: "Copies of __transaction_state."},
	{Name: "transaction.state.log.min.isr", Type: Int, Default: "2", check: words(1), Standing: NoEffect, Why: whyNoReplicas,
		Doc: "min.insync.replicas of __transaction_state."},

	// Admin.
	{Name: "admin.workers", Type: Int, Default: "4", check: between(1, 1024), OwnKey: true,
		Doc: "Admin requests that run at a time."},
	{Name: "admin.queue.size", Type: Int, Default: "256", check: between(1, 1<<20), OwnKey: true,
		Doc: "Admin requests that may wait for a worker; above it they are answered with a retriable error."},
	{Name: "create.topic.policy", Type: String, Default: "", OwnKey: true,
		Doc: "CEL expression that vets CreateTopics and auto-creation: true or an empty text lets the topic pass, a text is the message of the denial."},
	{Name: "alter.config.policy", Type: String, Default: "", OwnKey: true,
		Doc: "CEL expression that vets changes of topic and broker configuration."},
	{Name: "delete.topic.policy", Type: String, Default: "", OwnKey: true,
		Doc: "CEL expression that vets DeleteTopics."},

	// Security.
	{Name: "sasl.enabled.mechanisms", Type: List, Default: "SCRAM-SHA-512", KafkaDefault: "GSSAPI", check: check{mechanismsBuilt, "SCRAM-SHA-512; other mechanisms (PLAIN, SCRAM-SHA-256, OAUTHBEARER, GSSAPI) are not built yet"}, Dynamic: true, AtStart: true,
		Doc: "SASL mechanisms of the listeners with the security protocol SASL_PLAINTEXT."},
	{Name: "sasl.server.max.receive.size", Type: Int, Default: "524288",
		Doc: "Largest request before a connection is authenticated, in bytes. A larger one closes its connection."},
	{Name: "connections.max.reauth.ms", Type: Long, Default: "0",
		Doc: "How long an authenticated connection may go on without authenticating again (KIP-368), in milliseconds; 0 is for ever."},
	{Name: "connection.failed.authentication.delay.ms", Type: Int, Default: "100", check: words(0),
		Doc: "How long a failed authentication waits for its answer, in milliseconds."},
	{Name: "authorizer.class.name", Type: String, Default: "", check: check{authorizerBuilt, "nothing or " + StandardAuthorizer + "; Java plug-ins cannot run in kaas, and a broker that ignores one would let everybody in"},
		Doc: "Set to org.apache.kafka.metadata.authorizer.StandardAuthorizer, the broker enforces the ACLs of KafkaUser resources as Kafka's authorizer of that name; empty, everybody may do everything."},
	{Name: "super.users", Type: String, Default: "", OwnKey: true, Internal: true, check: check{principalsWellFormed, "User:name, separated by semicolons"},
		Doc: "Principals that may do everything, User:name, separated by semicolons. A setting of Kafka's StandardAuthorizer."},
	{Name: "allow.everyone.if.no.acl.found", Type: Boolean, Default: "false", OwnKey: true, Internal: true,
		Doc: "Whether everybody may do everything with a resource that no ACL is about. A setting of Kafka's StandardAuthorizer."},

	// Whoever sets one of these expects protection that is not there.
	{Name: "create.topic.policy.class.name", Type: Class, NullDefault: true, Standing: Refused, Why: "Java plug-ins cannot run in kaas, and a broker that ignores the policy would let everything pass",
		Doc: "Kafka's plug-in that vets CreateTopics."},
	{Name: "alter.config.policy.class.name", Type: Class, NullDefault: true, Standing: Refused, Why: "Java plug-ins cannot run in kaas, and a broker that ignores the policy would let everything pass",
		Doc: "Kafka's plug-in that vets AlterConfigs."},
	{Name: "client.quota.callback.class", Type: Class, NullDefault: true, Standing: Refused, Why: "Java plug-ins cannot run in kaas, and a broker that ignores it would enforce other quotas",
		Doc: "Kafka's plug-in that computes quotas."},
	{Name: "principal.builder.class", Type: Class, Default: defaultPrincipalBuilder, Only: []string{defaultPrincipalBuilder}, Dynamic: true, AtStart: true, Standing: Refused, Why: "Java plug-ins cannot run in kaas, and a broker that ignores it would name other principals",
		Doc: "Kafka's plug-in that names the principal of a connection."},
	{Name: "remote.log.storage.system.enable", Type: Boolean, Default: "false", Standing: Fixed, Only: []string{"false"}, Why: whyNoTiering,
		Doc: "Whether tiered storage is on."},

	// Replication and threads: asked for often, steer nothing.
	{Name: "min.insync.replicas", Type: Int, Default: "1", check: words(1), Dynamic: true, Standing: NoEffect, Why: whyNoReplicas, Doc: docFor("min.insync.replicas")},
	{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Dynamic: true, Standing: NoEffect, Why: whyNoReplicas, Doc: docFor("unclean.leader.election.enable")},
	{Name: "log.preallocate", Type: Boolean, Default: "false", Dynamic: true, Standing: NoEffect, Why: "the log store decides by itself how it lays out segments", Doc: docFor("preallocate")},
	{Name: "log.local.retention.bytes", Type: Long, Default: "-2", check: atLeast(-2), Dynamic: true, Standing: NoEffect, Why: whyNoTiering, Doc: docFor("local.retention.bytes")},
	{Name: "log.local.retention.ms", Type: Long, Default: "-2", check: atLeast(-2), Dynamic: true, Standing: NoEffect, Why: whyNoTiering, Doc: docFor("local.retention.ms")},
	{Name: "log.remote.copy.lag.bytes", Type: Long, Default: "-1", check: atLeast(-1), Dynamic: true, Standing: NoEffect, Why: whyNoTiering, Doc: docFor("remote.copy.lag.bytes")},
	{Name: "log.remote.copy.lag.ms", Type: Long, Default: "0", check: atLeast(-1), Dynamic: true, Standing: NoEffect, Why: whyNoTiering, Doc: docFor("remote.copy.lag.ms")},
	{Name: "num.io.threads", Type: Int, Default: "8", check: words(1), Dynamic: true, Standing: NoEffect, Why: whyLoops, Doc: "Threads that run requests."},
	{Name: "background.threads", Type: Int, Default: "10", check: words(1), Dynamic: true, Standing: NoEffect, Why: whyLoops, Doc: "Threads for background work."},
	{Name: "queued.max.requests", Type: Int, Default: "500", check: words(1), Standing: NoEffect, Why: "each connection and the admin queue have a bound of their own", Doc: "Requests that wait for a thread before the network stops reading."},
}

// docFor is the text of a topic key whose default a broker key is.
func docFor(topicKey string) string { return "Default of the topic key " + topicKey + "." }
