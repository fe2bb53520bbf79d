package txn

import (
	"fmt"
	"slices"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of TransactionLogKey and TransactionLogValue. Value v1 is flexible and
// has the fields of KIP-890 as tags; Kafka writes it from transaction.version 1 on.
const (
	keyVersion   = 0
	valueVersion = 1
)

func recordKey(id string) []byte {
	key := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	return key.AppendTo(make([]byte, 0, 4+len(id)))
}

func tombstone(id string) coord.Record { return coord.Record{Key: recordKey(id)} }

func record(id string, d *metadata) coord.Record {
	value := kmsg.NewTxnMetadataValue()
	value.Version = valueVersion
	value.ProducerID, value.ProducerEpoch, value.TimeoutMillis = d.producerID, d.epoch, d.timeoutMs
	value.State = kmsg.TransactionState(d.state)
	value.LastUpdateTimestamp, value.StartTimestamp = d.updateMs, d.startMs
	value.PreviousProducerID, value.NextProducerID, value.ClientTransactionVersion = d.previousProducerID, d.nextProducerID, d.clientVersion
	if d.state != Empty { // null in Empty, as TransactionLog.valueToBytes
		value.Topics = []kmsg.TxnMetadataValueTopic{}
	}
	for _, p := range d.sortedPartitions() {
		if n := len(value.Topics); n == 0 || value.Topics[n-1].Topic != p.Topic {
			value.Topics = append(value.Topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		last := &value.Topics[len(value.Topics)-1]
		last.Partitions = append(last.Partitions, p.Partition)
	}
	return coord.Record{Key: recordKey(id), Value: value.AppendTo(nil)}
}

func decodeKey(key []byte) (string, error) {
	r := kbin.Reader{Src: key}
	if version := r.Int16(); !r.Ok() || version != keyVersion {
		return "", fmt.Errorf("txn: key version %d, known is %d", version, keyVersion)
	}
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", fmt.Errorf("txn: key: %w", err)
	}
	return k.TransactionalID, nil
}

func decodeValue(value []byte) (metadata, error) {
	r := kbin.Reader{Src: value}
	if version := r.Int16(); !r.Ok() || version < 0 || version > valueVersion {
		return metadata{}, fmt.Errorf("txn: value version %d, known are 0 to %d", version, valueVersion)
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return metadata{}, fmt.Errorf("txn: value: %w", err)
	}
	d := metadata{
		producerID: v.ProducerID, previousProducerID: v.PreviousProducerID, nextProducerID: v.NextProducerID,
		epoch: v.ProducerEpoch, timeoutMs: v.TimeoutMillis, state: State(v.State),
		startMs: v.StartTimestamp, updateMs: v.LastUpdateTimestamp, clientVersion: v.ClientTransactionVersion,
	}
	if d.state < Empty || d.state > CompleteAbort {
		return metadata{}, fmt.Errorf("txn: a record has state %d", d.state)
	}
	if d.producerID < 0 || d.epoch < 0 {
		return metadata{}, fmt.Errorf("txn: a record has producer id %d, epoch %d", d.producerID, d.epoch)
	}
	for i := range v.Topics {
		topic := &v.Topics[i]
		for _, p := range slices.Sorted(slices.Values(topic.Partitions)) {
			if d.partitions == nil {
				d.partitions = map[TopicPartition]struct{}{}
			}
			d.partitions[TopicPartition{topic.Topic, p}] = struct{}{}
		}
	}
	return d, nil
}
