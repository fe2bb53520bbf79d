package obs

// Kind is the type of a family in Prometheus' text format.
type Kind string

// Kinds of families.
const (
	KindCounter   Kind = "counter"
	KindGauge     Kind = "gauge"
	KindHistogram Kind = "histogram"
)

// Family is what all series of one name share. docs/running.md is written from this table.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	Kafka  string // the MBean and, after a blank, the attribute that says the same of Apache Kafka; empty: it has none
}

// Families are all that a Registry knows, in the order in which they are documented. A series of another name is a bug.
var Families = []Family{
	{"kaas_build_info", KindGauge, []string{"version", "go"}, "Always 1.", ""},
	{"kaas_ready", KindGauge, nil, "1 while /readyz says ready.", ""},

	{"kaas_requests_total", KindCounter, []string{"api"}, "Requests that were answered.", "kafka.network:type=RequestMetrics,name=RequestsPerSec"},
	{"kaas_request_bytes_total", KindCounter, []string{"api"}, "Bytes of requests that were answered.", "kafka.network:type=RequestMetrics,name=RequestBytes"},
	{"kaas_request_seconds", KindHistogram, []string{"api"}, "From a request's arrival to its answer. For Fetch that includes waiting for records, for Produce with acks=all for the commit.", "kafka.network:type=RequestMetrics,name=TotalTimeMs"},
	{"kaas_requests_refused_total", KindCounter, []string{"reason"}, "Requests that were not served.", "kafka.network:type=RequestMetrics,name=ErrorsPerSec"},
	{"kaas_authorization_denied_total", KindCounter, []string{"operation", "resource_type"}, "Questions of requests to the ACLs that were denied; the log says who asked for what. Only where ACLs are enforced.", ""},
	{"kaas_requests_in_flight", KindGauge, nil, "Requests that were read and whose answer has not left.", ""},
	{"kaas_pool_requests", KindGauge, []string{"pool"}, "Requests that run on or wait for a worker: admin (topics, ACLs, configurations) and data (what may wait for a disk).", ""},
	{"kaas_pool_workers", KindGauge, []string{"pool"}, "Workers of a pool; more requests than these wait for their turn.", ""},
	{"kaas_throttled_total", KindCounter, []string{"quota"}, "Answers that told a client to wait because of a user's quota.", ""},
	{"kaas_throttled_seconds_total", KindCounter, []string{"quota"}, "For how long those told the clients to wait.", "kafka.server:type=Produce throttle-time"},

	{"kaas_connections", KindGauge, nil, "Connections of the Kafka listeners.", "kafka.server:type=socket-server-metrics connection-count"},
	{"kaas_connections_accepted_total", KindCounter, nil, "Connections that were opened.", "kafka.server:type=socket-server-metrics connection-creation-total"},
	{"kaas_connections_refused_total", KindCounter, nil, "Connections closed at once because of max.connections.per.ip.", ""},
	{"kaas_connections_delayed_total", KindCounter, nil, "Connections that had to wait for others to close because of max.connections.", ""},
	{"kaas_received_bytes_total", KindCounter, nil, "Bytes from clients.", "kafka.server:type=socket-server-metrics incoming-byte-total"},
	{"kaas_sent_bytes_total", KindCounter, nil, "Bytes to clients.", "kafka.server:type=socket-server-metrics outgoing-byte-total"},
	{"kaas_outbound_bytes", KindGauge, nil, "Bytes of answers that are ready and that clients have not taken.", ""},
	{"kaas_network_wakes_total", KindCounter, nil, "Times that another part of the broker woke an event loop of the network.", ""},

	{"kaas_resources", KindGauge, []string{"kind", "ready"}, "Resources by what their condition Ready says: True, False (the spec is refused; what was in force stays) or Unknown (nobody has looked at it yet).", ""},
	{"kaas_resource_files_unreadable", KindGauge, nil, "Files of resources that can't be read at present; what they said before stays in force. The log names them.", ""},

	{"kaas_topics", KindGauge, nil, "Topics with data here, internal ones included.", "kafka.controller:type=KafkaController,name=GlobalTopicCount"},
	{"kaas_topic_partitions", KindGauge, []string{"topic"}, "Partitions of a topic. Series by topic are those of the first 1,000 topics by name.", ""},
	{"kaas_topic_records_total", KindCounter, []string{"topic"}, "Offsets given in a topic, its log end offsets together: its rate is records in a second.", "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"},
	{"kaas_topic_size_bytes", KindGauge, []string{"topic"}, "Bytes of a topic's segments.", "kafka.log:type=Log,name=Size"},

	{"kaas_partitions", KindGauge, nil, "Partitions that are served or would be if their disk did.", "kafka.server:type=ReplicaManager,name=PartitionCount"},
	{"kaas_partitions_offline", KindGauge, nil, "Partitions that are not served: a disk failed, or they could not be recovered. /readyz names them.", "kafka.server:type=ReplicaManager,name=OfflineReplicaCount"},
	{"kaas_partitions_stalled", KindGauge, nil, "Partitions whose disk does not answer.", ""},
	{"kaas_partitions_moving", KindGauge, nil, "Partitions on their way to another log directory.", ""},
	{"kaas_partitions_reopened_total", KindCounter, nil, "Partitions that came back after their disk failed.", ""},
	{"kaas_log_dir_partitions", KindGauge, []string{"dir"}, "Partitions in a log directory.", ""},
	{"kaas_log_dir_missing", KindGauge, []string{"dir"}, "1 for a log directory that partitions may lie in and that is not there, 0 for the others.", "kafka.log:type=LogManager,name=LogDirectoryOffline"},
	{"kaas_log_dir_size_bytes", KindGauge, []string{"dir"}, "Bytes of the segments in a log directory.", ""},
	{"kaas_log_dir_volume_bytes", KindGauge, []string{"dir"}, "Size of the volume that a log directory lies on. With --dev there is one directory, memory, and this is the machine's memory.", ""},
	{"kaas_log_dir_usable_bytes", KindGauge, []string{"dir"}, "What is left of that volume for the broker.", ""},

	{"kaas_commit_round_seconds", KindHistogram, nil, "Rounds of the group commit: one write and sync of a log directory's journal for all partitions that were appended to meanwhile. Its count is rounds.", "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"},
	{"kaas_commit_round_partitions_total", KindCounter, nil, "Partitions that took part in those rounds: by rounds, how many one sync serves.", ""},
	{"kaas_commit_files_seconds", KindHistogram, nil, "Commits of one partition by a sync of its own files: what is too large for the journal, or where there is none.", "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"},
	{"kaas_commit_journal_bytes_total", KindCounter, nil, "Bytes written to the commit journals of log directories, padding included.", ""},
	{"kaas_commit_journal_turns_total", KindCounter, nil, "Halves of those journals that were full; the logs that they held records of were then synced.", ""},
	{"kaas_log_window_asks_total", KindCounter, nil, "Writes of no bytes that ask whether a volume is frozen, before small batches are copied into mapped memory: one serves the whole volume for a moment.", ""},
	{"kaas_cleaner_rounds_total", KindCounter, nil, "Compactions of one log that came to their end.", ""},
	{"kaas_cleaner_read_bytes_total", KindCounter, nil, "Bytes of batches that compactions read; those that are new since the last one twice.", ""},
	{"kaas_cleaner_written_bytes_total", KindCounter, nil, "Bytes of batches that compactions kept and wrote.", ""},
	{"kaas_cleaner_uncleanable_partitions", KindGauge, []string{"dir"}, "Partitions in a log directory that are not compacted any more until the next start, because their log can't be read; the log names them.", "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count"},
	{"kaas_recovery_read_bytes_total", KindCounter, nil, "Bytes of logs that a start, or a disk that came back, had to read.", ""},
	{"kaas_recovery_cut_bytes_total", KindCounter, nil, "Bytes cut off the ends of logs by that: torn writes that nobody was told of as done.", ""},

	{"kaas_coordinator_shards", KindGauge, []string{"coordinator"}, "Internal partitions that this broker coordinates from.", ""},
	{"kaas_coordinator_load_seconds", KindHistogram, []string{"coordinator"}, "Replays of one internal partition.", "kafka.server:type=group-coordinator-metrics partition-load-time-max"},
	{"kaas_coordinator_loaded_records_total", KindCounter, nil, "Records of those replays.", ""},
	{"kaas_groups", KindGauge, []string{"protocol", "state"}, "Groups that this broker coordinates; counted when asked for.", "kafka.server:type=group-coordinator-metrics group-count"},
	{"kaas_group_members", KindGauge, []string{"protocol"}, "Members of those groups.", ""},
	{"kaas_group_offsets", KindGauge, nil, "Offsets that those groups have committed, one for each partition.", "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets"},
	{"kaas_group_offset_commits_total", KindCounter, nil, "Offsets that were committed, also in transactions.", "kafka.server:type=group-coordinator-metrics offset-commit-count"},
	{"kaas_group_offset_expirations_total", KindCounter, nil, "Offsets that expired.", "kafka.server:type=group-coordinator-metrics offset-expiration-count"},
	{"kaas_group_rebalances_total", KindCounter, []string{"protocol"}, "New generations (classic) and new plans (consumer).", "kafka.server:type=group-coordinator-metrics consumer-group-rebalance-count"},
	{"kaas_group_members_dropped_total", KindCounter, nil, "Members that missed a deadline.", ""},
	{"kaas_transactions", KindGauge, []string{"state"}, "Transactional ids by the state of their transaction.", ""},
	{"kaas_transactions_ended_total", KindCounter, []string{"result"}, "Decisions, those by time-out included.", ""},
	{"kaas_transactions_timed_out_total", KindCounter, nil, "Transactions that were aborted because their time was up.", ""},
}
