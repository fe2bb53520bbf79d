package logstore

import (
	"bytes"
	"context"
	"testing"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/producer"
)

// FuzzRecovery opens a partition whose files hold anything. It must open, serve whole and valid batches with growing
// offsets, and go on.
func FuzzRecovery(f *testing.F) {
	good := bytes.Clone(records("a", "b"))
	second := batch.View(produced(7, 0, 0, true, "c"))
	second.SetBaseOffset(2)
	third := batch.View(batch.EndTxnMarker(nil, 7, 0, false, 0, 5))
	third.SetBaseOffset(3)
	whole := append(append(bytes.Clone(good), second...), third...)
	snapshot := producer.New()
	snapshot.Apply(second, producer.Marker{}, producer.Position{Offset: 2}, 5)
	f.Add(whole, index.EncodeOffsets([]index.OffsetEntry{{RelativeOffset: 2, Position: int32(len(good))}}), index.EncodeTimes([]index.TimeEntry{{TimestampMs: 1000, RelativeOffset: 1}}), index.EncodeAborted(AbortedTxn{ProducerID: 7, FirstOffset: 2, LastOffset: 3, LastStableOffset: 4}), snapshot.Encode(), uint8(4), uint8(1))
	f.Add(whole[:len(whole)-5], []byte{1}, []byte{2}, []byte{3}, []byte{4}, uint8(0), uint8(0))
	f.Add(append(bytes.Clone(whole), make([]byte, 4096)...), []byte{}, []byte{}, []byte{}, []byte{}, uint8(2), uint8(2))
	f.Add(append(bytes.Clone(whole), good...), index.EncodeOffsets([]index.OffsetEntry{{RelativeOffset: 2, Position: 5000}}), []byte{}, []byte{}, snapshot.Encode()[:30], uint8(3), uint8(3))
	flipped := bytes.Clone(whole)
	flipped[len(good)+70] ^= 1
	f.Add(flipped, index.EncodeOffsets([]index.OffsetEntry{{RelativeOffset: 2, Position: 1}}), make([]byte, 24), make([]byte, 34), []byte{}, uint8(2), uint8(1))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, []byte{}, uint8(200), uint8(1))
	f.Fuzz(func(t *testing.T, log, index, timeIndex, txnIndex, snapshot []byte, point, snapshotAt uint8) {
		fsys := vfs.NewMem()
		defer fsys.Close()
		if err := fsys.MkdirAll("/data/t-0"); err != nil {
			t.Fatal(err)
		}
		write := func(name string, b []byte) {
			if err := vfs.WriteFileAtomic(fsys, name, "/data/t-0", b); err != nil {
				t.Fatal(err)
			}
		}
		write("/data/t-0/00000000000000000000.log", log)
		for suffix, b := range map[string][]byte{layout.IndexSuffix: index, layout.TimeIndexSuffix: timeIndex, layout.TxnIndexSuffix: txnIndex} {
			if len(b) > 0 {
				write(layout.SegmentFile("/data/t-0", 0, suffix), b)
			}
		}
		if len(snapshot) > 0 {
			write(layout.SegmentFile("/data/t-0", int64(snapshotAt), layout.SnapshotSuffix), snapshot)
		}
		points := checkpoint.Offsets{}
		points.Add("t", 0, int64(point))
		if err := points.Write(fsys, "/data", layout.RecoveryPointName); err != nil {
			t.Fatal(err)
		}
		s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		p, err := s.Ensure("t", topicID, 0, DefaultConfig())
		if err != nil {
			// Only damage below the recovery point, which was promised to be whole, may keep a partition closed.
			if point == 0 {
				t.Fatal(err)
			}
			return
		}
		readAll(t, p, point == 0)
		end := p.LogEndOffset()
		if r, err := p.Append(stamped(s.nowMs(), "next"), AppendOptions{LeaderEpoch: p.LeaderEpoch()}); err != nil || r.BaseOffset != end {
			t.Fatalf("append at %d: %+v %v", end, r, err)
		}
		if _, _, err := p.OffsetForTimestamp(context.Background(), 500, ReadLogEnd); err != nil && point == 0 {
			t.Fatal(err)
		}
		abortedOf(t, p, 0, end)
	})
}

func readAll(t *testing.T, p *Partition, checked bool) {
	next := p.LogStartOffset()
	for next < p.LogEndOffset() {
		s, err := p.Read(next, 1<<20, true, ReadUncommitted)
		if err != nil {
			t.Fatal(err)
		}
		if s.Len == 0 {
			t.Fatalf("nothing at %d, the end is %d", next, p.LogEndOffset())
		}
		for rest := s.Mem; len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err != nil || checked && v.Validate() != nil || v.LastOffset() < next {
				t.Fatalf("at %d: %v", next, err)
			}
			next, rest = v.LastOffset()+1, after
		}
		s.Release()
	}
}
