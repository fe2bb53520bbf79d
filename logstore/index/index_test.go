package index

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"kaas/internal/vfs"
)

// TestFloors compares every lookup, in memory and over bytes, with a plain search.
func TestFloors(t *testing.T) {
	t.Parallel()
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		var w Writable
		offset, position, ms := int32(rng.IntN(5)), int32(rng.IntN(5)), int64(rng.IntN(5))
		for range rng.IntN(60) {
			w.Offsets.Append(OffsetEntry{RelativeOffset: offset, Position: position})
			w.Times.Append(TimeEntry{TimestampMs: ms, RelativeOffset: offset})
			offset, position, ms = offset+1+int32(rng.IntN(9)), position+1+int32(rng.IntN(500)), ms+1+int64(rng.IntN(9))
		}
		offsets, times := w.Offsets.View(), w.Times.View()
		files := Files{Offsets: Mapped{B: EncodeOffsets(offsets)}, Times: Mapped{B: EncodeTimes(times)}}
		if err := CheckOffsets(files.Offsets.B, int64(position)+1); err != nil {
			t.Fatal(err)
		}
		if err := CheckTimes(files.Times.B); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			key := int32(rng.IntN(int(offset) + 20))
			byOffset, byPosition, byTime := int32(0), int32(0), int32(0)
			for i := range offsets {
				if offsets[i].RelativeOffset <= key {
					byOffset = offsets[i].Position
				}
				if offsets[i].Position <= key {
					byPosition = offsets[i].Position
				}
				if times[i].TimestampMs <= int64(key) {
					byTime = times[i].RelativeOffset
				}
			}
			if FloorOffset(offsets, key) != byOffset || FloorPosition(offsets, key) != byPosition || FloorTime(times, int64(key)) != byTime {
				t.Fatalf("seed %d round %d: floors of %d in memory", seed, round, key)
			}
			at := func(e []byte, from int) int32 {
				if e == nil {
					return 0
				}
				return be32(e[from:])
			}
			if at(files.Offsets.Floor(int64(key), OffsetEntryBytes, 0, 4), 4) != byOffset || at(files.Offsets.Floor(int64(key), OffsetEntryBytes, 4, 4), 4) != byPosition ||
				at(files.Times.Floor(int64(key), TimeEntryBytes, 0, 8), 8) != byTime {
				t.Fatalf("seed %d round %d: floors of %d over bytes", seed, round, key)
			}
		}
	}
}

func TestWrongIndexesAreSeen(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"odd size":        make([]byte, 9),
		"not growing":     EncodeOffsets([]OffsetEntry{{RelativeOffset: 5, Position: 1}, {RelativeOffset: 5, Position: 2}}),
		"position back":   EncodeOffsets([]OffsetEntry{{RelativeOffset: 5, Position: 8}, {RelativeOffset: 6, Position: 8}}),
		"beyond the log":  EncodeOffsets([]OffsetEntry{{RelativeOffset: 5, Position: 100}}),
		"zeroes between":  EncodeOffsets([]OffsetEntry{{RelativeOffset: 5, Position: 1}, {}, {RelativeOffset: 6, Position: 2}}),
		"negative offset": EncodeOffsets([]OffsetEntry{{RelativeOffset: -5, Position: 1}}),
	} {
		if CheckOffsets(b, 100) == nil {
			t.Errorf("%s: passes", name)
		}
	}
	for name, b := range map[string][]byte{
		"odd size":  make([]byte, 13),
		"time back": EncodeTimes([]TimeEntry{{TimestampMs: 5, RelativeOffset: 1}, {TimestampMs: 4, RelativeOffset: 2}}),
	} {
		if CheckTimes(b) == nil {
			t.Errorf("%s: passes", name)
		}
	}
	if _, err := DecodeAborted(append(EncodeAborted(AbortedTxn{LastOffset: 5}), EncodeAborted(AbortedTxn{LastOffset: 4})...), 0); err == nil {
		t.Error("aborted transactions out of order pass")
	}
}

func TestPreallocatedFilesAreTrimmed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "x.index")
	b := append(EncodeOffsets([]OffsetEntry{{RelativeOffset: 5, Position: 9}}), make([]byte, 800)...)
	if err := vfs.WriteFileAtomic(vfs.OS, name, dir, b); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(vfs.OS, name, OffsetEntryBytes); err != nil || len(got) != OffsetEntryBytes {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}
