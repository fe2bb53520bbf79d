package config

// Broker is the configuration of one broker: a typed field for every key that
// kaas honours. Names are the key's words, the unit is the last word. It is
// immutable once LoadBroker has returned it, but for the layers that SetDynamic
// replaces.
type Broker struct {
	// ClusterID comes from the environment variable CLUSTER_ID, as in Kafka's
	// container image. "" means: the one of the data directory, or a new one.
	ClusterID string
	// Dev is the in-memory mode (--dev); no key sets it.
	Dev bool

	NodeID     int32  `key:"node.id"`
	BrokerRack string `key:"broker.rack"`

	// Listeners are parsed from listeners, advertised.listeners,
	// listener.security.protocol.map and controller.listener.names.
	Listeners []Listener
	LogDirs   []string // log.dirs, else log.dir; none empty

	HTTPAddress string `key:"http.address"` // "" is off

	// profiling
	ProfilingPyroscopeServerAddress     string   `key:"profiling.pyroscope.server.address"` // "" is off
	ProfilingPyroscopeApplicationName   string   `key:"profiling.pyroscope.application.name"`
	ProfilingPyroscopeTenantID          string   `key:"profiling.pyroscope.tenant.id"`
	ProfilingPyroscopeBasicAuthUser     string   `key:"profiling.pyroscope.basic.auth.user"`
	ProfilingPyroscopeBasicAuthPassword string   `key:"profiling.pyroscope.basic.auth.password"`
	ProfilingPyroscopeLabels            []string `key:"profiling.pyroscope.labels"` // name=value
	ProfilingPyroscopeProfileTypes      []string `key:"profiling.pyroscope.profile.types"`
	ProfilingPyroscopeUploadIntervalMs  int64    `key:"profiling.pyroscope.upload.interval.ms"`
	ProfilingMutexProfileFraction       int32    `key:"profiling.mutex.profile.fraction"`
	ProfilingBlockProfileRateNs         int32    `key:"profiling.block.profile.rate.ns"`
	ProfilingAPILabelsEnable            bool     `key:"profiling.api.labels.enable"`
	ProfilingPprofEnable                bool     `key:"profiling.pprof.enable"`

	// netio
	NumNetworkThreads         int32 `key:"num.network.threads"`
	SocketSendBufferBytes     int32 `key:"socket.send.buffer.bytes"`    // -1: the system's
	SocketReceiveBufferBytes  int32 `key:"socket.receive.buffer.bytes"` // -1: the system's
	SocketRequestMaxBytes     int32 `key:"socket.request.max.bytes"`
	MaxConnections            int32 `key:"max.connections"`
	MaxConnectionsPerIP       int32 `key:"max.connections.per.ip"`
	ConnectionsMaxIdleMs      int64 `key:"connections.max.idle.ms"`
	UnstableAPIVersionsEnable bool  `key:"unstable.api.versions.enable"`

	// topics
	NumPartitions                                               int32 `key:"num.partitions"`
	DefaultReplicationFactor                                    int32 `key:"default.replication.factor"`
	AutoCreateTopicsEnable                                      bool  `key:"auto.create.topics.enable"`
	DeleteTopicEnable                                           bool  `key:"delete.topic.enable"`
	ControllerUnstableAllowInternalCoordinatorPartitionIncrease bool  `key:"controller.unstable.allow.internal.coordinator.partition.increase"`
	// TopicDefaults is what a topic without overrides gets by file, environment and
	// overrides; CurrentTopicDefaults has what is in force.
	TopicDefaults Topic

	// fetch
	FetchMaxBytes                        int32 `key:"fetch.max.bytes"`
	MaxIncrementalFetchSessionCacheSlots int32 `key:"max.incremental.fetch.session.cache.slots"`
	MaxRequestPartitionSizeLimit         int32 `key:"max.request.partition.size.limit"`

	// log store
	NumRecoveryThreadsPerDataDir  int32   `key:"num.recovery.threads.per.data.dir"`
	LogRetentionCheckIntervalMs   int64   `key:"log.retention.check.interval.ms"`
	LogCleanerEnable              bool    `key:"log.cleaner.enable"`
	LogCleanerThreads             int32   `key:"log.cleaner.threads"`
	LogCleanerBackoffMs           int64   `key:"log.cleaner.backoff.ms"`
	LogCleanerDedupeBufferSize    int64   `key:"log.cleaner.dedupe.buffer.size"`
	LogCleanerIOMaxBytesPerSecond float64 `key:"log.cleaner.io.max.bytes.per.second"`
	LogCleanerIOBufferSize        int32   `key:"log.cleaner.io.buffer.size"`
	LogCleanerIOBufferLoadFactor  float64 `key:"log.cleaner.io.buffer.load.factor"`
	ProducerIDExpirationMs        int32   `key:"producer.id.expiration.ms"`

	// groups
	OffsetsTopicNumPartitions       int32 `key:"offsets.topic.num.partitions"`
	OffsetsTopicSegmentBytes        int32 `key:"offsets.topic.segment.bytes"`
	OffsetMetadataMaxBytes          int32 `key:"offset.metadata.max.bytes"`
	OffsetsRetentionMinutes         int32 `key:"offsets.retention.minutes"`
	OffsetsRetentionCheckIntervalMs int64 `key:"offsets.retention.check.interval.ms"`
	GroupMinSessionTimeoutMs        int32 `key:"group.min.session.timeout.ms"`
	GroupMaxSessionTimeoutMs        int32 `key:"group.max.session.timeout.ms"`
	GroupInitialRebalanceDelayMs    int32 `key:"group.initial.rebalance.delay.ms"`
	GroupMaxSize                    int32 `key:"group.max.size"`

	GroupConsumerSessionTimeoutMs       int32    `key:"group.consumer.session.timeout.ms"`
	GroupConsumerHeartbeatIntervalMs    int32    `key:"group.consumer.heartbeat.interval.ms"`
	GroupConsumerMaxSize                int32    `key:"group.consumer.max.size"`
	GroupConsumerAssignors              []string `key:"group.consumer.assignors"`
	GroupConsumerMigrationPolicy        string   `key:"group.consumer.migration.policy"`
	GroupConsumerAssignmentIntervalMs   int32    `key:"group.consumer.assignment.interval.ms"`
	GroupConsumerRegexRefreshIntervalMs int32    `key:"group.consumer.regex.refresh.interval.ms"`
	// Bounds of what the configuration of a group may say.
	GroupConsumerMinSessionTimeoutMs     int32 `key:"group.consumer.min.session.timeout.ms"`
	GroupConsumerMaxSessionTimeoutMs     int32 `key:"group.consumer.max.session.timeout.ms"`
	GroupConsumerMinHeartbeatIntervalMs  int32 `key:"group.consumer.min.heartbeat.interval.ms"`
	GroupConsumerMaxHeartbeatIntervalMs  int32 `key:"group.consumer.max.heartbeat.interval.ms"`
	GroupConsumerMinAssignmentIntervalMs int32 `key:"group.consumer.min.assignment.interval.ms"`
	GroupConsumerMaxAssignmentIntervalMs int32 `key:"group.consumer.max.assignment.interval.ms"`

	// transactions
	TransactionStateLogNumPartitions                     int32 `key:"transaction.state.log.num.partitions"`
	TransactionStateLogSegmentBytes                      int32 `key:"transaction.state.log.segment.bytes"`
	TransactionMaxTimeoutMs                              int32 `key:"transaction.max.timeout.ms"`
	TransactionalIDExpirationMs                          int32 `key:"transactional.id.expiration.ms"`
	TransactionAbortTimedOutTransactionCleanupIntervalMs int32 `key:"transaction.abort.timed.out.transaction.cleanup.interval.ms"`
	TransactionPartitionVerificationEnable               bool  `key:"transaction.partition.verification.enable"`
	TransactionRemoveExpiredTransactionCleanupIntervalMs int32 `key:"transaction.remove.expired.transaction.cleanup.interval.ms"`

	// security
	SaslEnabledMechanisms                 []string `key:"sasl.enabled.mechanisms"`
	SaslServerMaxReceiveSize              int32    `key:"sasl.server.max.receive.size"`
	ConnectionsMaxReauthMs                int64    `key:"connections.max.reauth.ms"`
	ConnectionFailedAuthenticationDelayMs int32    `key:"connection.failed.authentication.delay.ms"`
	AuthorizerClassName                   string   `key:"authorizer.class.name"`
	SuperUsers                            string   `key:"super.users"` // see SuperUserList
	AllowEveryoneIfNoACLFound             bool     `key:"allow.everyone.if.no.acl.found"`

	// admin
	AdminWorkers           int32  `key:"admin.workers"`
	AdminQueueSize         int32  `key:"admin.queue.size"`
	AdminArgoCDEnabled     bool   `key:"admin.argocd.enabled"`
	AdminArgoCDApplication string `key:"admin.argocd.application"`
	AdminArgoCDNamespace   string `key:"admin.argocd.namespace"`
	// CEL expressions; "" is none.
	CreateTopicPolicy string `key:"create.topic.policy"`
	AlterConfigPolicy string `key:"alter.config.policy"`
	DeleteTopicPolicy string `key:"delete.topic.policy"`

	// set holds the raw value of every known key that was set, for Describe.
	set map[string]string
	// dynamic lies over set; nil in a zero Broker, which has no dynamic configuration.
	dynamic *dynamicState
}

// Listener is one entry of listeners with its advertised counterpart.
type Listener struct {
	Name     string // Kafka's listener name, upper case
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	Host     string // "" binds every address
	Port     int32  // 0 takes any free port
	// AdvertisedHost "" means that a client is told the address that it
	// connected to.
	AdvertisedHost string
	AdvertisedPort int32
}
