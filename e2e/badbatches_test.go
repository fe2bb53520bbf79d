//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// codecs are what a batch may be compressed with, by their number in its attributes; 2 is raw snappy.
var codecs = []byte{0, 1, 2, 3, 4}

func packed(t *testing.T, codec byte, payload []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case 1:
		w := gzip.NewWriter(&out)
		_, err := w.Write(payload)
		must(t, err)
		must(t, w.Close())
	case 2:
		return s2.EncodeSnappy(nil, payload)
	case 3:
		w := lz4.NewWriter(&out)
		must(t, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)))
		_, err := w.Write(payload)
		must(t, err)
		must(t, w.Close())
	case 4:
		w, err := zstd.NewWriter(nil)
		must(t, err)
		return w.EncodeAll(payload, nil)
	default:
		return payload
	}
	return out.Bytes()
}

// batchOf is a batch that claims count records, with whatever bytes as its records.
func batchOf(timestampMs int64, codec byte, count int32, records []byte) []byte {
	b := rawBatch(timestampMs, func(b []byte) {
		b[22] = codec
		binary.BigEndian.PutUint32(b[23:], uint32(count-1))
		binary.BigEndian.PutUint32(b[57:], uint32(count))
	})
	b = append(b[:61], records...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// compareBadBatches: a batch whose header claims more records than its bytes hold would move the log end by them.
// Kafka decodes every batch and refuses each wrong count, and bytes that are no records. kaas walks through what is not compressed
// by the lengths of the records and looks at the size of what is. What it does not see (compressed bytes that are no
// records, a count that would fit) takes no more offsets than the same bytes could have taken honestly:
// docs/design/logstore-conformance.md.
func compareBadBatches(t *testing.T, brokers [2]*broker) {
	p := newPair(t, brokers, "bad-batches", 1)
	now := time.Now().UnixMilli()
	two := rawBatch(now, nil, "a", "b")[61:]
	send := func(what string, records []byte) {
		t.Helper()
		p.same(t, what, func(side int) kmsg.Request { return p.produce(side, 9, -1, 0, slices.Clone(records)) }, func(r kmsg.Response) kmsg.Response {
			response := evenProduce(r).(*kmsg.ProduceResponse)
			for i := range response.Topics[0].Partitions {
				response.Topics[0].Partitions[i].ErrorMessage = nil // which of the numbers is named differs
			}
			return response
		})
	}
	for _, codec := range codecs {
		for _, count := range []int32{2, 1000, 1 << 20, 1 << 30, 1<<31 - 1} {
			send(fmt.Sprintf("codec %d, %d records claimed of 2", codec, count), batchOf(now, codec, count, packed(t, codec, two)))
		}
		var many []byte // the smallest records, packed as well as can be: an honest count must not be doubted
		const honest = 20_000
		for i := range int64(honest) {
			record := append(binary.AppendVarint([]byte{0, 0}, i), 1, 1, 0)
			many = append(binary.AppendVarint(many, int64(len(record))), record...)
		}
		send(fmt.Sprintf("codec %d, many small records", codec), batchOf(now, codec, honest, packed(t, codec, many)))
	}
	send("three records claimed of two", batchOf(now, 0, 3, two))
	long := rawBatch(now, nil, strings.Repeat("a", 200), strings.Repeat("b", 200))[61:]
	for _, count := range []int32{1, 2, 3, 5, 10} {
		send(fmt.Sprintf("%d records claimed of two that have the bytes of more", count), batchOf(now, 0, count, long))
	}
	send("a byte behind the records", batchOf(now, 0, 2, append(slices.Clone(two), 0)))
	send("a record cut short", batchOf(now, 0, 2, two[:len(two)-1]))
	send("bytes that are no records", batchOf(now, 0, 2, bytes.Repeat([]byte{0x55, 0xaa}, 25)))
	for _, counts := range [][2]int32{{2, 2}, {2, 0}, {0, -1}, {-1, 1}} {
		b := batchOf(now, 0, 2, two)
		binary.BigEndian.PutUint32(b[57:], uint32(counts[0]))
		binary.BigEndian.PutUint32(b[23:], uint32(counts[1]))
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
		send(fmt.Sprintf("%d records, last offset delta %d", counts[0], counts[1]), b)
	}
	send("good", rawBatch(now, nil, "a", "b"))
}
