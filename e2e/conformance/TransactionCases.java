import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.AddOffsetsToTxnRequestData;
import org.apache.kafka.common.message.AddPartitionsToTxnRequestData;
import org.apache.kafka.common.message.DescribeProducersRequestData;
import org.apache.kafka.common.message.DescribeTransactionsRequestData;
import org.apache.kafka.common.message.DescribeTransactionsResponseData;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.message.InitProducerIdRequestData;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.message.ListTransactionsRequestData;
import org.apache.kafka.common.message.ListTransactionsResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.message.WriteTxnMarkersRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** Producer ids and transactions. Partition 1 of the topic takes the transactional records. */
final class TransactionCases {
    /** Up to here the client adds partitions itself; version 4 is the broker's (KIP-890). */
    private static final int LAST_CLIENT_ADD = 3;
    /** The versions of transactions before KIP-890's second part, in which an end does not raise the epoch. */
    private static final int LAST_OLD_END = 4;
    private static final int LAST_OLD_PRODUCE = 11;
    private static final int LAST_OLD_OFFSET_COMMIT = 4;

    record Producer(String transactionalId, long id, short epoch) { }

    private final Cases cases;

    TransactionCases(Cases cases) {
        this.cases = cases;
    }

    void register(Map<ApiKeys, Cases.Case> into) {
        into.put(ApiKeys.INIT_PRODUCER_ID, this::initProducerId);
        into.put(ApiKeys.ADD_PARTITIONS_TO_TXN, this::addPartitions);
        into.put(ApiKeys.ADD_OFFSETS_TO_TXN, this::addOffsets);
        into.put(ApiKeys.TXN_OFFSET_COMMIT, this::offsetCommit);
        into.put(ApiKeys.END_TXN, this::end);
        into.put(ApiKeys.WRITE_TXN_MARKERS, this::writeMarkers);
        into.put(ApiKeys.DESCRIBE_PRODUCERS, this::describeProducers);
        into.put(ApiKeys.DESCRIBE_TRANSACTIONS, this::describeTransactions);
        into.put(ApiKeys.LIST_TRANSACTIONS, this::listTransactions);
    }

    private Producer init(Wire wire, short version, String transactionalId) throws IOException {
        InitProducerIdResponseData answer = wire.exchange(ApiKeys.INIT_PRODUCER_ID, version, new InitProducerIdRequestData()
            .setTransactionalId(transactionalId).setTransactionTimeoutMs(60_000)).ok().as();
        Cases.check(answer.producerId() >= 0 && answer.producerEpoch() >= 0, "an id and an epoch", answer);
        return new Producer(transactionalId, answer.producerId(), answer.producerEpoch());
    }

    private Producer begin(Wire wire) throws IOException {
        return init(wire, cases.best(ApiKeys.INIT_PRODUCER_ID), cases.fresh("transaction"));
    }

    private void initProducerId(Wire wire, short version) throws IOException {
        Producer first = init(wire, version, null);
        Producer second = init(wire, version, null);
        Cases.check(first.id() != second.id(), "ids are used once", first);
        if (cases.serves(ApiKeys.END_TXN)) {
            Producer transactional = init(wire, version, cases.fresh("init"));
            if (version >= 3) {
                wire.exchange(ApiKeys.INIT_PRODUCER_ID, version, new InitProducerIdRequestData().setTransactionTimeoutMs(60_000)
                    .setTransactionalId(transactional.transactionalId()).setProducerId(transactional.id()).setProducerEpoch(transactional.epoch())).ok();
            }
        }
    }

    private AddPartitionsToTxnRequestData.AddPartitionsToTxnTopicCollection partitions() {
        AddPartitionsToTxnRequestData.AddPartitionsToTxnTopicCollection topics = new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopicCollection();
        topics.add(new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopic().setName(Cases.TOPIC).setPartitions(List.of(1)));
        return topics;
    }

    private void add(Wire wire, short version, Producer producer) throws IOException {
        AddPartitionsToTxnRequestData request = new AddPartitionsToTxnRequestData();
        if (version <= LAST_CLIENT_ADD) {
            request.setV3AndBelowTransactionalId(producer.transactionalId()).setV3AndBelowProducerId(producer.id())
                .setV3AndBelowProducerEpoch(producer.epoch()).setV3AndBelowTopics(partitions());
        } else {
            request.transactions().add(new AddPartitionsToTxnRequestData.AddPartitionsToTxnTransaction()
                .setTransactionalId(producer.transactionalId()).setProducerId(producer.id()).setProducerEpoch(producer.epoch())
                .setVerifyOnly(false).setTopics(partitions()));
        }
        wire.exchange(ApiKeys.ADD_PARTITIONS_TO_TXN, version, request).ok();
    }

    private void addPartitions(Wire wire, short version) throws IOException {
        Producer producer = begin(wire);
        add(wire, version, producer);
        end(wire, cases.best(ApiKeys.END_TXN, LAST_OLD_END), producer, true);
    }

    private void write(Wire wire, Producer producer) throws IOException {
        add(wire, cases.best(ApiKeys.ADD_PARTITIONS_TO_TXN, LAST_CLIENT_ADD), producer);
        MemoryRecords records = MemoryRecords.withTransactionalRecords(Compression.NONE, producer.id(), producer.epoch(), 0,
            new SimpleRecord(1_600_000_000_000L, "in a transaction".getBytes()));
        short version = cases.best(ApiKeys.PRODUCE, LAST_OLD_PRODUCE);
        wire.exchange(ApiKeys.PRODUCE, version, DataCases.produceRequest(version, Cases.TOPIC, cases.topicId, 1, records)
            .setTransactionalId(producer.transactionalId())).ok();
    }

    private Wire.Reply end(Wire wire, short version, Producer producer, boolean commit) throws IOException {
        return wire.exchange(ApiKeys.END_TXN, version, new EndTxnRequestData().setTransactionalId(producer.transactionalId())
            .setProducerId(producer.id()).setProducerEpoch(producer.epoch()).setCommitted(commit)).ok();
    }

    private void end(Wire wire, short version) throws IOException {
        for (boolean commit : new boolean[] {true, false}) {
            Producer producer = begin(wire);
            write(wire, producer);
            end(wire, version, producer, commit);
        }
    }

    private void addOffsets(Wire wire, short version) throws IOException {
        Producer producer = begin(wire);
        wire.exchange(ApiKeys.ADD_OFFSETS_TO_TXN, version, new AddOffsetsToTxnRequestData().setTransactionalId(producer.transactionalId())
            .setProducerId(producer.id()).setProducerEpoch(producer.epoch()).setGroupId(cases.fresh("transaction-group"))).ok();
        end(wire, cases.best(ApiKeys.END_TXN, LAST_OLD_END), producer, true);
    }

    private void offsetCommit(Wire wire, short version) throws IOException {
        Producer producer = begin(wire);
        String group = cases.fresh("transaction-group");
        if (version <= LAST_OLD_OFFSET_COMMIT) {
            wire.exchange(ApiKeys.ADD_OFFSETS_TO_TXN, cases.best(ApiKeys.ADD_OFFSETS_TO_TXN), new AddOffsetsToTxnRequestData()
                .setTransactionalId(producer.transactionalId()).setProducerId(producer.id()).setProducerEpoch(producer.epoch()).setGroupId(group)).ok();
        }
        TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic topic = new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic();
        if (version >= 6) {
            topic.setTopicId(cases.topicId);
        } else {
            topic.setName(Cases.TOPIC);
        }
        topic.setPartitions(List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition().setPartitionIndex(0)
            .setCommittedOffset(2).setCommittedMetadata("")));
        wire.exchange(ApiKeys.TXN_OFFSET_COMMIT, version, new TxnOffsetCommitRequestData().setTransactionalId(producer.transactionalId())
            .setGroupId(group).setProducerId(producer.id()).setProducerEpoch(producer.epoch()).setTopics(List.of(topic))).ok();
        end(wire, cases.best(ApiKeys.END_TXN, LAST_OLD_END), producer, true);
    }

    private void writeMarkers(Wire wire, short version) throws IOException {
        Producer producer = begin(wire);
        write(wire, producer);
        wire.exchange(ApiKeys.WRITE_TXN_MARKERS, version, new WriteTxnMarkersRequestData().setMarkers(List.of(
            new WriteTxnMarkersRequestData.WritableTxnMarker().setProducerId(producer.id()).setProducerEpoch(producer.epoch())
                .setTransactionResult(false).setCoordinatorEpoch(0).setTopics(List.of(
                    new WriteTxnMarkersRequestData.WritableTxnMarkerTopic().setName(Cases.TOPIC).setPartitionIndexes(List.of(1, 77))))))
        ).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION); // of partition 77 alone
        end(wire, cases.best(ApiKeys.END_TXN, LAST_OLD_END), producer, false);
    }

    private void describeProducers(Wire wire, short version) throws IOException {
        DescribeProducersRequestData request = new DescribeProducersRequestData();
        request.topics().add(new DescribeProducersRequestData.TopicRequest().setName(Cases.TOPIC).setPartitionIndexes(List.of(0, 1, 77)));
        wire.exchange(ApiKeys.DESCRIBE_PRODUCERS, version, request).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION); // of partition 77 alone
    }

    private void describeTransactions(Wire wire, short version) throws IOException {
        Producer producer = begin(wire);
        write(wire, producer);
        DescribeTransactionsResponseData answer = wire.exchange(ApiKeys.DESCRIBE_TRANSACTIONS, version,
            new DescribeTransactionsRequestData().setTransactionalIds(List.of(producer.transactionalId()))).ok().as();
        DescribeTransactionsResponseData.TransactionState state = answer.transactionStates().get(0);
        Cases.check(state.transactionState().equals("Ongoing") && state.topics().size() == 1, "an open transaction with a topic", answer);
        end(wire, cases.best(ApiKeys.END_TXN, LAST_OLD_END), producer, false);
        wire.exchange(ApiKeys.DESCRIBE_TRANSACTIONS, version, new DescribeTransactionsRequestData()
            .setTransactionalIds(List.of(cases.fresh("no-such-transaction")))).fails(Errors.TRANSACTIONAL_ID_NOT_FOUND);
    }

    private void listTransactions(Wire wire, short version) throws IOException {
        Producer producer = begin(wire);
        write(wire, producer);
        ListTransactionsResponseData answer = wire.exchange(ApiKeys.LIST_TRANSACTIONS, version, new ListTransactionsRequestData()
            .setStateFilters(List.of("Ongoing", "NoSuchState")).setProducerIdFilters(List.of(producer.id()))).ok().as();
        Cases.check(answer.transactionStates().size() == 1 && answer.unknownStateFilters().equals(List.of("NoSuchState")),
            "the one transaction, and the filter that means nothing", answer);
        end(wire, cases.best(ApiKeys.END_TXN, LAST_OLD_END), producer, false);
    }
}
