package rig

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The frames that the generator sends are made before a run, so that sending
// one costs a write and nothing else. Their versions are the highest that are
// not flexible: every field stands at an offset that does not depend on the
// values before it.
const (
	keyProduce      = 0
	keyFetch        = 1
	keyMetadata     = 3
	keyAPIVersions  = 18
	keyCreateTopics = 19
	keyDeleteTopics = 20

	produceVersion      = 8
	fetchVersion        = 11
	metadataVersion     = 4
	createTopicsVersion = 4
	deleteTopicsVersion = 3

	clientID = "kaas-bench"

	batchHeaderBytes = 61 // of a record batch, magic 2
	batchLengthAt    = 8  // int32, counts what follows it
	batchLastDeltaAt = 23 // int32

	// What stands before the records of one partition in a Fetch answer:
	// index, error, high watermark, last stable offset, log start offset,
	// aborted transactions (none), preferred replica, length.
	fetchPartitionHeaderBytes = 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame builds a request: a length, a header of version 1, a body.
type frame struct{ b []byte }

func newFrame(key, version int16) *frame {
	f := &frame{b: make([]byte, 4, 256)}
	f.int16(key).int16(version).int32(0).string(clientID)
	return f
}

func (f *frame) int8(v int8) *frame   { f.b = append(f.b, byte(v)); return f }
func (f *frame) int16(v int16) *frame { f.b = binary.BigEndian.AppendUint16(f.b, uint16(v)); return f }
func (f *frame) int32(v int32) *frame { f.b = binary.BigEndian.AppendUint32(f.b, uint32(v)); return f }
func (f *frame) int64(v int64) *frame { f.b = binary.BigEndian.AppendUint64(f.b, uint64(v)); return f }
func (f *frame) string(s string) *frame {
	f.int16(int16(len(s)))
	f.b = append(f.b, s...)
	return f
}

// done writes the length and returns the whole frame.
func (f *frame) done() []byte {
	binary.BigEndian.PutUint32(f.b, uint32(len(f.b)-4))
	return f.b
}

// MakeBatch encodes one record batch with as many records of valueBytes as fit
// batchBytes, at least one. Values are random, so that nothing on the way can
// make them smaller.
func MakeBatch(random *rand.Rand, batchBytes, valueBytes int) (batch []byte, records int) {
	return makeBatch(batchBytes, valueBytes, func(value []byte) {
		for i := range value {
			value[i] = byte(random.Uint32())
		}
	})
}

// compressedBatch is a batch of values that come to about half their size.
func compressedBatch(random *rand.Rand, batchBytes, valueBytes int, codec kgo.CompressionCodec) (batch []byte, records int) {
	batch, records = makeBatch(batchBytes, valueBytes, func(value []byte) {
		for len(value) > 0 { // names that come again, with numbers that do not
			n := copy(value, fmt.Sprintf(`{"customer":"number-%02d","amountCents":%08x,`, random.IntN(50), random.Uint32()))
			value = value[n:]
		}
	})
	compressor, err := kgo.DefaultCompressor(codec)
	if err != nil {
		panic(fmt.Sprintf("a codec of this program: %v", err))
	}
	squeezed, kind := compressor.Compress(&bytes.Buffer{}, batch[batchHeaderBytes:])
	batch = append(batch[:batchHeaderBytes:batchHeaderBytes], squeezed...)
	batch[22] = byte(kind) // attributes, of which the low three bits are the codec
	sealBatch(batch, records)
	return batch, records
}

func makeBatch(batchBytes, valueBytes int, fill func([]byte)) (batch []byte, records int) {
	batch = make([]byte, batchHeaderBytes, batchBytes+valueBytes)
	value := make([]byte, valueBytes)
	for {
		fill(value)
		var record []byte
		record = append(record, 0)                              // attributes
		record = binary.AppendVarint(record, 0)                 // timestamp delta
		record = binary.AppendVarint(record, int64(records))    // offset delta
		record = binary.AppendVarint(record, -1)                // no key
		record = binary.AppendVarint(record, int64(valueBytes)) // value
		record = append(record, value...)
		record = binary.AppendVarint(record, 0) // headers
		length := binary.AppendVarint(nil, int64(len(record)))
		if records > 0 && len(batch)+len(length)+len(record) > batchBytes {
			break
		}
		batch = append(append(batch, length...), record...)
		records++
	}
	sealBatch(batch, records)
	return batch, records
}

// sealBatch writes the header before the records of a batch.
func sealBatch(batch []byte, records int) {
	const timestamp = 1_700_000_000_000 // the same in each run
	be := binary.BigEndian
	be.PutUint32(batch[batchLengthAt:], uint32(len(batch)-12))
	be.PutUint32(batch[12:], 0xffffffff) // leader epoch: not known to a client
	batch[16] = 2                        // magic
	be.PutUint32(batch[batchLastDeltaAt:], uint32(records-1))
	be.PutUint64(batch[27:], timestamp)
	be.PutUint64(batch[35:], timestamp)
	be.PutUint64(batch[43:], 1<<64-1) // producer id: none
	be.PutUint16(batch[51:], 1<<16-1) // producer epoch
	be.PutUint32(batch[53:], 1<<32-1) // base sequence
	be.PutUint32(batch[57:], uint32(records))
	be.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
}

// ProduceFrame wraps one batch for one partition.
func ProduceFrame(topic string, partition int32, acks int16, batch []byte) []byte {
	return wideProduceFrame(topic, []int32{partition}, acks, batch)
}

// wideProduceFrame wraps one batch for each of several partitions.
func wideProduceFrame(topic string, partitions []int32, acks int16, batch []byte) []byte {
	f := newFrame(keyProduce, produceVersion)
	f.int16(-1) // no transaction
	f.int16(acks).int32(30_000)
	f.int32(1).string(topic).int32(int32(len(partitions)))
	for _, p := range partitions {
		f.int32(p).int32(int32(len(batch)))
		f.b = append(f.b, batch...)
	}
	return f.done()
}

// FetchFrame asks for several partitions of a topic, without a session. It
// returns where the offset of each partition stands in the frame.
func FetchFrame(topic string, partitions []int32, maxPartitionBytes, maxBytes int32) (f []byte, offsetAt []int) {
	if maxBytes == 0 {
		maxBytes = 50 << 20
	}
	b := newFrame(keyFetch, fetchVersion)
	b.int32(-1).int32(500).int32(1).int32(maxBytes).int8(0) // replica, max wait, min bytes, max bytes, isolation
	b.int32(0).int32(-1)                                    // no session
	b.int32(1).string(topic).int32(int32(len(partitions)))
	for _, partition := range partitions {
		b.int32(partition).int32(-1) // leader epoch: not known
		offsetAt = append(offsetAt, len(b.b))
		b.int64(0).int64(-1).int32(maxPartitionBytes)
	}
	b.int32(0).string("") // nothing forgotten, no rack
	return b.done(), offsetAt
}

func CreateTopicFrame(topic string, partitions int32, configs [][2]string) []byte {
	f := newFrame(keyCreateTopics, createTopicsVersion)
	f.int32(1).string(topic).int32(partitions).int16(1).int32(0).int32(int32(len(configs)))
	for _, c := range configs {
		f.string(c[0]).string(c[1])
	}
	f.int32(30_000).int8(0)
	return f.done()
}

func deleteTopicFrame(topic string) []byte {
	return newFrame(keyDeleteTopics, deleteTopicsVersion).int32(1).string(topic).int32(30_000).done()
}

func MetadataFrame(topic string, create bool) []byte {
	f := newFrame(keyMetadata, metadataVersion)
	f.int32(1).string(topic)
	if create {
		f.int8(1)
	} else {
		f.int8(0)
	}
	return f.done()
}

// setFetchWait changes how long the broker may hold a FetchFrame.
func setFetchWait(f []byte, ms int32) {
	binary.BigEndian.PutUint32(f[14+len(clientID)+4:], uint32(ms))
}

func putOffset(f []byte, at int, offset int64) { binary.BigEndian.PutUint64(f[at:], uint64(offset)) }

// KeyedBatch encodes one batch of records with a key each; values are random.
func KeyedBatch(random *rand.Rand, records, valueBytes int) []byte {
	batch := make([]byte, batchHeaderBytes, batchHeaderBytes+records*(valueBytes+32))
	for i := range records {
		key := fmt.Appendf(nil, "key-%08d", random.IntN(100_000_000))
		record := []byte{0} // attributes
		record = binary.AppendVarint(record, 0)
		record = binary.AppendVarint(record, int64(i))
		record = binary.AppendVarint(record, int64(len(key)))
		record = append(record, key...)
		record = binary.AppendVarint(record, int64(valueBytes))
		for range valueBytes {
			record = append(record, byte(random.Uint32()))
		}
		record = binary.AppendVarint(record, 0) // headers
		batch = append(binary.AppendVarint(batch, int64(len(record))), record...)
	}
	sealBatch(batch, records)
	return batch
}
