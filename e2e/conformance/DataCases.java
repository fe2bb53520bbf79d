import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiVersionsRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.DescribeClusterRequestData;
import org.apache.kafka.common.message.DescribeClusterResponseData;
import org.apache.kafka.common.message.DescribeTopicPartitionsRequestData;
import org.apache.kafka.common.message.DescribeTopicPartitionsResponseData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.MetadataRequestData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, and how a client learns of the cluster. */
final class DataCases {
    private static final long FIRST_TIMESTAMP = 1_600_000_000_000L;

    private final Cases cases;

    DataCases(Cases cases) {
        this.cases = cases;
    }

    void register(Map<ApiKeys, Cases.Case> into) {
        into.put(ApiKeys.API_VERSIONS, this::apiVersions);
        into.put(ApiKeys.METADATA, this::metadata);
        into.put(ApiKeys.PRODUCE, this::produce);
        into.put(ApiKeys.FETCH, this::fetch);
        into.put(ApiKeys.LIST_OFFSETS, this::listOffsets);
        into.put(ApiKeys.OFFSET_FOR_LEADER_EPOCH, this::offsetForLeaderEpoch);
        into.put(ApiKeys.DESCRIBE_CLUSTER, this::describeCluster);
        into.put(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, this::describeTopicPartitions);
        into.put(ApiKeys.SASL_HANDSHAKE, this::saslHandshake);
        into.put(ApiKeys.SASL_AUTHENTICATE, this::saslAuthenticate);
    }

    /** Two records, the first of which has the given timestamp beyond FIRST_TIMESTAMP. */
    static MemoryRecords plainRecords(long at) {
        return MemoryRecords.withRecords(Compression.NONE,
            new SimpleRecord(FIRST_TIMESTAMP + at, "k".getBytes(), ("value " + at).getBytes()),
            new SimpleRecord(FIRST_TIMESTAMP + at + 10, null, "second".getBytes()));
    }

    static ProduceRequestData produceRequest(short version, String topic, Uuid id, int partition, MemoryRecords records) {
        ProduceRequestData.TopicProduceData data = new ProduceRequestData.TopicProduceData();
        if (version >= 13) {
            data.setTopicId(id);
        } else {
            data.setName(topic);
        }
        data.setPartitionData(List.of(new ProduceRequestData.PartitionProduceData().setIndex(partition).setRecords(records)));
        ProduceRequestData request = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(Cases.TIMEOUT_MS);
        request.topicData().add(data);
        return request;
    }

    static Wire.Reply produce(Cases cases, Wire wire, short version, String topic, Uuid id, int partition, MemoryRecords records)
        throws IOException {
        return wire.exchange(ApiKeys.PRODUCE, version, produceRequest(version, topic, id, partition, records));
    }

    private void apiVersions(Wire wire, short version) throws IOException {
        ApiVersionsRequestData request = new ApiVersionsRequestData();
        if (version >= 3) {
            request.setClientSoftwareName("kaas-conformance").setClientSoftwareVersion("1.0");
        }
        ApiVersionsResponseData answer = wire.exchange(ApiKeys.API_VERSIONS, version, request).ok().as();
        Cases.check(answer.apiKeys().size() > 5, "a broker serves more", answer);
        // A version that nobody has is answered in version 0, with the range of ApiVersions, and the connection lives on.
        java.nio.ByteBuffer unknown = wire.exchangeRaw(ApiKeys.API_VERSIONS, 99, new byte[] {0, 1, 1, 0});
        Cases.check(unknown.getShort() == Errors.UNSUPPORTED_VERSION.code(), "error 35 for version 99", unknown);
        Cases.check(unknown.getInt() == 1 && unknown.getShort() == 18, "the range of ApiVersions alone", unknown);
        unknown.getInt();
        Cases.check(!unknown.hasRemaining(), "a body of version 0", unknown);
        wire.exchange(ApiKeys.API_VERSIONS, version, request).ok();
    }

    private void metadata(Wire wire, short version) throws IOException {
        MetadataRequestData request = new MetadataRequestData()
            .setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName(Cases.TOPIC)));
        MetadataResponseData answer = wire.exchange(ApiKeys.METADATA, version, request).ok().as();
        MetadataResponseData.MetadataResponseTopic topic = answer.topics().find(Cases.TOPIC);
        Cases.check(topic != null && topic.partitions().size() == 2, "the topic has two partitions", answer);
        Cases.check(answer.brokers().size() == 1, "there is one broker", answer);
        Cases.check(version < 10 || topic.topicId().equals(cases.topicId), "the topic keeps its id", answer);
        Cases.check(version < 2 || answer.clusterId() != null, "the cluster has an id", answer);
        Cases.check(version < 1 || answer.controllerId() >= 0, "there is a controller", answer);

        // All topics: an empty list in version 0, null later.
        MetadataRequestData all = new MetadataRequestData().setTopics(version == 0 ? List.of() : null);
        answer = wire.exchange(ApiKeys.METADATA, version, all).ok().as();
        Cases.check(answer.topics().find(Cases.TOPIC) != null, "all topics contain this one", answer);
        if (version >= 1) {
            answer = wire.exchange(ApiKeys.METADATA, version, new MetadataRequestData().setTopics(List.of())).ok().as();
            Cases.check(answer.topics().isEmpty(), "no topic was asked for", answer);
        }
        if (version >= 4) {
            wire.exchange(ApiKeys.METADATA, version, new MetadataRequestData().setAllowAutoTopicCreation(false)
                    .setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName(Cases.MISSING))))
                .fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
        }
        if (version >= 8) {
            request.setIncludeTopicAuthorizedOperations(true);
            answer = wire.exchange(ApiKeys.METADATA, version, request).ok().as();
            Cases.check(answer.topics().find(Cases.TOPIC).topicAuthorizedOperations() > 0, "operations were asked for", answer);
        }
        if (version >= 12) {
            MetadataRequestData byId = new MetadataRequestData().setAllowAutoTopicCreation(false)
                .setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName(null).setTopicId(cases.topicId)));
            answer = wire.exchange(ApiKeys.METADATA, version, byId).ok().as();
            Cases.check(answer.topics().iterator().next().name().equals(Cases.TOPIC), "found by its id", answer);
            byId.topics().get(0).setTopicId(Cases.UNKNOWN_ID);
            wire.exchange(ApiKeys.METADATA, version, byId).fails(Errors.UNKNOWN_TOPIC_ID);
        }
    }

    private void produce(Wire wire, short version) throws IOException {
        ProduceRequestData request = produceRequest(version, Cases.TOPIC, cases.topicId, 1, plainRecords(0));
        long[] offsets = new long[2];
        for (int i = 0; i < 2; i++) {
            request.setAcks((short) (i == 0 ? -1 : 1));
            ProduceResponseData answer = wire.exchange(ApiKeys.PRODUCE, version, request).ok().as();
            ProduceResponseData.PartitionProduceResponse partition = answer.responses().iterator().next().partitionResponses().get(0);
            offsets[i] = partition.baseOffset();
            Cases.check(partition.index() == 1 && partition.logAppendTimeMs() == -1, "partition 1 with the producer's time", answer);
            Cases.check(version < 5 || partition.logStartOffset() == 0, "the log starts at 0", answer);
        }
        Cases.check(offsets[1] == offsets[0] + 2, "two records further", List.of(offsets[0], offsets[1]));

        // acks=0 is not answered: the next answer belongs to the next request.
        wire.send(ApiKeys.PRODUCE, version, request.duplicate().setAcks((short) 0));
        ProduceResponseData answer = wire.exchange(ApiKeys.PRODUCE, version, request).ok().as();
        Cases.check(answer.responses().iterator().next().partitionResponses().get(0).baseOffset() == offsets[1] + 4,
            "acks=0 was appended", answer);

        // Not there, and damaged: an error for the partition, in the shape of the version.
        produce(cases, wire, version, Cases.TOPIC, cases.topicId, 77, plainRecords(0)).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
        produce(cases, wire, version, Cases.MISSING, Cases.UNKNOWN_ID, 0, plainRecords(0))
            .fails(version >= 13 ? Errors.UNKNOWN_TOPIC_ID : Errors.UNKNOWN_TOPIC_OR_PARTITION);
        MemoryRecords damaged = plainRecords(0);
        int last = damaged.buffer().limit() - 1;
        damaged.buffer().put(last, (byte) (damaged.buffer().get(last) ^ 1));
        produce(cases, wire, version, Cases.TOPIC, cases.topicId, 1, damaged).fails(Errors.CORRUPT_MESSAGE);
    }

    private FetchRequestData fetchRequest(short version, String topic, Uuid id, long offset) {
        FetchRequestData.FetchTopic wanted = new FetchRequestData.FetchTopic();
        if (version >= 13) {
            wanted.setTopicId(id);
        } else {
            wanted.setTopic(topic);
        }
        wanted.setPartitions(List.of(new FetchRequestData.FetchPartition().setPartition(0).setFetchOffset(offset)
            .setCurrentLeaderEpoch(-1).setPartitionMaxBytes(1 << 20)));
        return new FetchRequestData().setMaxWaitMs(100).setMinBytes(1).setMaxBytes(1 << 20).setSessionId(0).setSessionEpoch(-1)
            .setTopics(List.of(wanted));
    }

    private void fetch(Wire wire, short version) throws IOException {
        FetchRequestData request = fetchRequest(version, Cases.TOPIC, cases.topicId, 0);
        FetchResponseData answer = wire.exchange(ApiKeys.FETCH, version, request).ok().as();
        FetchResponseData.PartitionData partition = answer.responses().get(0).partitions().get(0);
        MemoryRecords records = (MemoryRecords) partition.records();
        int count = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (org.apache.kafka.common.record.internal.Record record : batch) {
                Cases.check(record.offset() == count, "offsets are consecutive", record);
                count++;
            }
        }
        Cases.check(count == 6 && partition.highWatermark() == 6, "all six records come", answer);
        Cases.check(partition.lastStableOffset() == 6, "nothing is unstable", answer);

        // At the end: empty after the wait, and never null.
        answer = wire.exchange(ApiKeys.FETCH, version, fetchRequest(version, Cases.TOPIC, cases.topicId, 6)).ok().as();
        partition = answer.responses().get(0).partitions().get(0);
        Cases.check(partition.records() != null && partition.records().sizeInBytes() == 0, "an empty fetch has empty records", answer);
        request = fetchRequest(version, Cases.TOPIC, cases.topicId, 0).setIsolationLevel((byte) 1);
        wire.exchange(ApiKeys.FETCH, version, request).ok();
        wire.exchange(ApiKeys.FETCH, version, fetchRequest(version, Cases.TOPIC, cases.topicId, 1000)).fails(Errors.OFFSET_OUT_OF_RANGE);
        wire.exchange(ApiKeys.FETCH, version, fetchRequest(version, Cases.MISSING, Cases.UNKNOWN_ID, 0))
            .fails(version >= 13 ? Errors.UNKNOWN_TOPIC_ID : Errors.UNKNOWN_TOPIC_OR_PARTITION);
        if (version >= 7) {
            fetchSession(wire, version);
        }
        if (version >= 9) {
            request = fetchRequest(version, Cases.TOPIC, cases.topicId, 0);
            request.topics().get(0).partitions().get(0).setCurrentLeaderEpoch(1000);
            wire.exchange(ApiKeys.FETCH, version, request).fails(Errors.UNKNOWN_LEADER_EPOCH);
        }
    }

    /** KIP-227: a full fetch opens a session, the next asks for nothing and is told of nothing, one more closes it. */
    private void fetchSession(Wire wire, short version) throws IOException {
        FetchRequestData request = fetchRequest(version, Cases.TOPIC, cases.topicId, 6).setSessionEpoch(0);
        FetchResponseData answer = wire.exchange(ApiKeys.FETCH, version, request).ok().as();
        Cases.check(answer.sessionId() != 0 && answer.responses().size() == 1, "a session with its first partition", answer);
        int session = answer.sessionId();
        request = new FetchRequestData().setMaxWaitMs(10).setMinBytes(1).setMaxBytes(1 << 20).setSessionId(session).setSessionEpoch(1)
            .setTopics(new ArrayList<>());
        answer = wire.exchange(ApiKeys.FETCH, version, request).ok().as();
        Cases.check(answer.sessionId() == session && answer.responses().isEmpty(), "nothing has changed", answer);
        wire.exchange(ApiKeys.FETCH, version, request.duplicate().setSessionEpoch(7)).fails(Errors.INVALID_FETCH_SESSION_EPOCH);
        wire.exchange(ApiKeys.FETCH, version, request.duplicate().setSessionEpoch(-1)).ok();
        wire.exchange(ApiKeys.FETCH, version, request.duplicate().setSessionEpoch(2)).fails(Errors.FETCH_SESSION_ID_NOT_FOUND);
    }

    private void listOffsets(Wire wire, short version) throws IOException {
        Cases.check(offsetAt(wire, version, -1) == 6, "the end is 6", version);
        Cases.check(offsetAt(wire, version, -2) == 0, "the begin is 0", version);
        Cases.check(offsetAt(wire, version, FIRST_TIMESTAMP + 101) == 3, "the time lookup finds the second record of a batch", version);
        Cases.check(offsetAt(wire, version, FIRST_TIMESTAMP + 100_000) == -1, "no record is that late", version);
        if (version >= 7) {
            Cases.check(offsetAt(wire, version, -3) == 5, "the largest timestamp is that of the last record", version);
        }
        if (version >= 8) {
            Cases.check(offsetAt(wire, version, -4) == 0, "the earliest local offset", version);
        }
        if (version >= 9) {
            Cases.check(offsetAt(wire, version, -5) == -1, "nothing is tiered", version);
        }
        wire.exchange(ApiKeys.LIST_OFFSETS, version, listOffsetsRequest(-1, 77)).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
    }

    private static ListOffsetsRequestData listOffsetsRequest(long timestamp, int partition) {
        return new ListOffsetsRequestData().setReplicaId(-1).setTopics(List.of(new ListOffsetsRequestData.ListOffsetsTopic()
            .setName(Cases.TOPIC).setPartitions(List.of(new ListOffsetsRequestData.ListOffsetsPartition()
                .setPartitionIndex(partition).setTimestamp(timestamp)))));
    }

    private static long offsetAt(Wire wire, short version, long timestamp) throws IOException {
        ListOffsetsResponseData answer = wire.exchange(ApiKeys.LIST_OFFSETS, version, listOffsetsRequest(timestamp, 0)).ok().as();
        return answer.topics().get(0).partitions().get(0).offset();
    }

    private void offsetForLeaderEpoch(Wire wire, short version) throws IOException {
        OffsetForLeaderEpochRequestData request = new OffsetForLeaderEpochRequestData().setReplicaId(-1);
        request.topics().add(new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic(Cases.TOPIC)
            .setPartitions(List.of(new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition().setPartition(0).setLeaderEpoch(0)
                .setCurrentLeaderEpoch(-1))));
        OffsetForLeaderEpochResponseData answer = wire.exchange(ApiKeys.OFFSET_FOR_LEADER_EPOCH, version, request).ok().as();
        OffsetForLeaderEpochResponseData.EpochEndOffset end = answer.topics().iterator().next().partitions().get(0);
        Cases.check(end.leaderEpoch() == 0 && end.endOffset() == 6, "epoch 0 ends at 6", answer);
        request.topics().iterator().next().partitions().get(0).setPartition(77);
        wire.exchange(ApiKeys.OFFSET_FOR_LEADER_EPOCH, version, request).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
    }

    private void describeCluster(Wire wire, short version) throws IOException {
        DescribeClusterResponseData answer = wire.exchange(ApiKeys.DESCRIBE_CLUSTER, version,
            new DescribeClusterRequestData().setIncludeClusterAuthorizedOperations(true)).ok().as();
        Cases.check(answer.brokers().size() == 1 && answer.clusterId() != null && !answer.clusterId().isEmpty(), "one broker in a cluster", answer);
        Cases.check(answer.clusterAuthorizedOperations() > 0, "operations were asked for", answer);
    }

    private void describeTopicPartitions(Wire wire, short version) throws IOException {
        DescribeTopicPartitionsRequestData request = new DescribeTopicPartitionsRequestData().setResponsePartitionLimit(1)
            .setTopics(List.of(new DescribeTopicPartitionsRequestData.TopicRequest().setName(Cases.TOPIC)));
        DescribeTopicPartitionsResponseData answer = wire.exchange(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, version, request).ok().as();
        Cases.check(answer.topics().iterator().next().partitions().size() == 1, "one partition was asked for", answer);
        Cases.check(answer.nextCursor() != null && answer.nextCursor().partitionIndex() == 1, "the cursor stands at the second", answer);
        request.setCursor(new DescribeTopicPartitionsRequestData.Cursor().setTopicName(Cases.TOPIC).setPartitionIndex(1));
        answer = wire.exchange(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, version, request).ok().as();
        Cases.check(answer.topics().iterator().next().partitions().get(0).partitionIndex() == 1, "the second partition", answer);
        Cases.check(answer.nextCursor() == null, "nothing comes after it", answer);
        request.setCursor(null).setTopics(List.of(new DescribeTopicPartitionsRequestData.TopicRequest().setName(Cases.MISSING)));
        wire.exchange(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, version, request).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
    }

    private void saslHandshake(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.SASL_HANDSHAKE, version, new SaslHandshakeRequestData().setMechanism("PLAIN")).fails(Errors.ILLEGAL_SASL_STATE);
    }

    private void saslAuthenticate(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.SASL_AUTHENTICATE, version, new SaslAuthenticateRequestData().setAuthBytes(new byte[] {1}))
            .fails(Errors.ILLEGAL_SASL_STATE);
    }
}
