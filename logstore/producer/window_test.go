package producer

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestSnapshotsKeepWindows: all five batches of each producer come back, and a snapshot without older ones is Kafka's to the byte.
func TestSnapshotsKeepWindows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := New()
		for id := range int64(rng.IntN(20)) {
			e := &entry{epoch: int16(rng.IntN(9)), coordinatorEpoch: -1, lastTimestampMs: 5000, txnFirstOffset: -1}
			for k := range rng.IntN(Window + 3) {
				e.add(Batch{lastSequence: int32(10*k + 9), offsetDelta: int32(rng.IntN(9)), LastOffset: int64(100*k) + id, TimestampMs: int64(1000 * k)})
			}
			if e.count > 0 {
				e.batches[e.count-1].TimestampMs = e.lastTimestampMs // Kafka's part has no other
			}
			s.byID[id] = e
		}
		b := s.Encode()
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !maps.EqualFunc(s.byID, got.byID, func(x, y *entry) bool {
			clear(x.batches[x.count:])
			clear(y.batches[y.count:])
			return *x == *y
		}) {
			t.Errorf("seed %d: the states differ", seed)
		}
		for cut := snapshotHeaderBytes + len(s.byID)*snapshotEntryBytes + 1; cut < len(b); cut++ {
			torn := append([]byte(nil), b[:cut]...)
			binary.BigEndian.PutUint32(torn[2:], crc32.Checksum(torn[6:], castagnoli))
			if _, err := Decode(torn); err == nil {
				t.Fatalf("seed %d: a snapshot cut to %d of %d bytes is taken", seed, cut, len(b))
			}
		}
	}
	s := New()
	s.byID[1] = &entry{epoch: 1, coordinatorEpoch: -1, txnFirstOffset: -1, count: 1, batches: [Window]Batch{{lastSequence: 3, LastOffset: 9}}}
	if b := s.Encode(); len(b) != snapshotHeaderBytes+snapshotEntryBytes {
		t.Errorf("a snapshot without older batches has %d bytes", len(b))
	}
}

// TestWindowsThatAreNone: the sum of a snapshot is right, and what follows Kafka's part is not what was written by anybody.
func TestWindowsThatAreNone(t *testing.T) {
	t.Parallel()
	snapshot := func(count int8, tail string) []byte {
		s := New()
		s.byID[1] = &entry{epoch: 1, coordinatorEpoch: -1, txnFirstOffset: -1, count: count, batches: [Window]Batch{{lastSequence: 3, LastOffset: 9}}}
		b := append(s.Encode(), tail...)
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
		return b
	}
	older := func(n int) string { return string(make([]byte, n*olderBatchBytes)) }
	if _, err := Decode(snapshot(1, windowsMagic+"\x04"+older(4))); err != nil {
		t.Fatalf("a right one: %v", err)
	}
	for name, b := range map[string][]byte{
		"another magic":        snapshot(1, "kaaswin2\x04"+older(4)),
		"no magic":             snapshot(1, "\x04"+older(4)),
		"a window of six":      snapshot(1, windowsMagic+"\x05"+older(5)),
		"one without a newest": snapshot(0, windowsMagic+"\x01"+older(1)),
		"something behind":     snapshot(1, windowsMagic+"\x01"+older(1)+"\x00"),
		"a negative number":    snapshot(1, windowsMagic+"\xff"+older(255)),
	} {
		if _, err := Decode(b); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
