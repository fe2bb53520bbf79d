package cleaner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// TestTurn: a turn ends when its time is over and not before, whatever the work consists of.
func TestTurn(t *testing.T) {
	for _, tc := range []struct {
		what string
		step int           // bytes of a record
		cost time.Duration // that a record takes
	}{
		{"map entries", 0, 100 * time.Nanosecond},
		{"small records", 100, 200 * time.Nanosecond},
		{"large records", 1 << 20, 300 * time.Microsecond},
	} {
		var now time.Time
		var offers int
		var begun, longest time.Duration
		at := func() time.Duration { return now.Sub(time.Time{}) }
		x := turn{now: func() time.Time { return now }}
		x.offer = func() {
			offers++
			longest, begun = max(longest, at()-begun), at()
		}
		for at() < 100*time.Millisecond {
			now = now.Add(tc.cost)
			x.worked(tc.step)
		}
		between := max(tc.cost, time.Duration(limits.CleanerTurnBytes/(tc.step+limits.CleanerRecordWorkBytes)+1)*tc.cost) // two looks at the clock
		if longest >= limits.CleanerTurn+between {
			t.Errorf("%s: a turn of %v", tc.what, longest)
		}
		if most := int(100*time.Millisecond/limits.CleanerTurn) + 1; offers > most {
			t.Errorf("%s: %d offers in 100 ms, not more than %d are needed", tc.what, offers, most)
		}
	}
}

// TestRoundGivesWay: both passes of a round offer their turn in the middle of a batch, too, and what a round writes does not depend on it.
func TestRoundGivesWay(t *testing.T) {
	const batches, records = 4, 200
	fsys := vfs.NewMem()
	write := func(name string, b []byte) vfs.File {
		f, err := fsys.OpenFile(name, vfs.Create)
		if err == nil {
			_, err = f.WriteAt(b, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := fsys.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	var log []byte
	for i := range batches {
		b := batch.Builder{Compression: batch.LZ4, BaseOffset: int64(i * records)}
		for k := range records {
			b.Append(1000, fmt.Appendf(nil, "key-%d", k), []byte(strings.Repeat("v", 1000)))
		}
		var err error
		if log, err = b.Build(log); err != nil {
			t.Fatal(err)
		}
	}
	if err := write("/d/log", log).Close(); err != nil {
		t.Fatal(err)
	}
	source := []Source{{
		Open: func() (vfs.File, error) { return fsys.OpenFile("/d/log", vfs.ReadOnly) },
		Name: "/d/log", SizeBytes: int64(len(log)), EndOffset: batches * records,
	}}
	clean := func(step time.Duration) (written string, ofMap, ofClean int) {
		var now time.Time
		offers := 0
		r := Round{NowMs: 1, DeleteRetentionMs: 1, LoadFactor: 0.9, DedupeBytes: 1 << 20, BufferBytes: 64 << 10}
		r.turn = turn{now: func() time.Time { now = now.Add(step); return now }, offer: func() { offers++ }}
		if _, err := r.BuildMap(context.Background(), source, 0, nil); err != nil {
			t.Fatal(err)
		}
		ofMap = offers
		o := Output{File: write("/d/out", nil), IndexInterval: 4096}
		if err := r.Clean(context.Background(), source, nil, &o); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, o.SizeBytes)
		if _, err := o.File.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		return string(b), ofMap, offers - ofMap
	}
	want, none, still := clean(0)
	if none+still > 1 { // the first turn began at the beginning of time
		t.Errorf("%d and %d offers while no time passes", none, still)
	}
	got, ofMap, ofClean := clean(limits.CleanerTurn)
	if got != want || recordsOfFirst(got) != records {
		t.Errorf("%d bytes, %d records in the last batch; %d bytes without a clock, want %d records", len(got), recordsOfFirst(got), len(want), records)
	}
	// Every CleanerTurnBytes of records, at least.
	if least := batches * records * 1000 / limits.CleanerTurnBytes; ofMap < least || ofClean < least {
		t.Errorf("%d offers while the map was built, %d while the log was cleaned; want %d at least", ofMap, ofClean, least)
	}
}

// recordsOfFirst is how many records the first batch of a log has.
func recordsOfFirst(log string) int { return int(batch.View(log).RecordCount()) }
