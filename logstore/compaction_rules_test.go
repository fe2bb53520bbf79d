package logstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/cleaner"
)

// movable is a clock that a test sets; the harness option to use it, and how to advance it.
func movable() (option func(*Options), nowMs func() int64, advance func(ms int64)) {
	var offsetMs atomic.Int64
	base := time.Now()
	clock := func() time.Time { return base.Add(time.Duration(offsetMs.Load()) * time.Millisecond) }
	return func(o *Options) { o.Clock = clock }, func() int64 { return clock().UnixMilli() }, func(ms int64) { offsetMs.Add(ms) }
}

// TestMaxCompactionLag: a log that is not dirty enough is compacted all the same when a record has waited for so long, and
// the segment that is written to is closed for it (LogSegment.shouldRoll, LogCleanerManager.maxCompactionDelay).
func TestMaxCompactionLag(t *testing.T) {
	t.Parallel()
	clock, nowMs, advance := movable()
	h := start(t, inMemory, clock)
	p := h.partition("c", compacted, func(c *Config) {
		c.SegmentBytes, c.MinCleanableDirtyRatio, c.MaxCompactionLagMs = 1<<20, 1, 60_000
	})
	due := func() bool {
		plan, ok := h.s.compactor.planOf(p)
		return ok && plan.Due
	}
	put(t, p, keyed(0, nowMs(), "a=1"))
	put(t, p, keyed(0, nowMs(), "a=2"))
	if len(p.segments.Load().all) != 1 || due() {
		t.Fatal("it was to wait")
	}
	advance(61_000)
	put(t, p, keyed(0, nowMs(), "b=1")) // an append rolls
	if n := len(p.segments.Load().all); n != 2 || !due() {
		t.Fatalf("%d segments, due %v", n, due())
	}
	if !cleanNow(t, p) || due() {
		t.Fatal("not compacted")
	}
	if got := everything(t, p, ReadUncommitted); len(got) != 2 || got[0].value != "2" {
		t.Fatalf("%+v", got)
	}
}

// TestDedupeBufferBoundsARound: a round takes as many keys as the buffer holds and goes on behind them in the next one; the
// result is the same.
func TestDedupeBufferBoundsARound(t *testing.T) {
	t.Parallel()
	const slots = 12
	h := start(t, inMemory, func(o *Options) {
		o.Cleaner = CleanerOptions{Disabled: true, DedupeBufferBytes: slots * cleaner.SlotBytes}
	})
	p := h.partition("c", compacted)
	for n := range 120 {
		put(t, p, keyed(batch.Compression(n%5), h.s.nowMs(), fmt.Sprintf("k%d=%d %s", n%40, n, strings.Repeat("x", 60))))
	}
	put(t, p, keyed(0, h.s.nowMs(), "last="+strings.Repeat("x", 500)))
	active := p.segments.Load().active().BaseOffset
	rounds := 0
	for before := int64(0); p.cleanedTo.Load() < active; rounds++ {
		if !cleanNow(t, p) || p.cleanedTo.Load() <= before {
			t.Fatalf("no progress at %d of %d", p.cleanedTo.Load(), active)
		}
		if got := p.cleanedTo.Load() - before; got > slots {
			t.Fatalf("a round of %d slots cleaned %d records with as many keys", slots, got)
		}
		before = p.cleanedTo.Load()
	}
	if rounds < 120/slots {
		t.Fatalf("%d rounds", rounds)
	}
	seen := map[string]int64{}
	for _, r := range everything(t, p, ReadUncommitted) {
		if old, twice := seen[r.key]; twice && r.offset < active {
			t.Errorf("%s is left at %d and %d", r.key, old, r.offset)
		}
		seen[r.key] = r.offset
	}
	for n := range int64(40) {
		if at := seen[fmt.Sprint("k", n)]; at != 80+n {
			t.Errorf("the newest k%d stands at %d, want %d", n, at, 80+n)
		}
	}
}

// TestThrottleHoldsItsRate: never faster than the rate, whatever the machine does.
func TestThrottleHoldsItsRate(t *testing.T) {
	t.Parallel()
	throttle := cleaner.NewThrottle(1 << 20)
	began := time.Now()
	for range 20 {
		if err := throttle.Wait(context.Background(), 10<<10); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 150*time.Millisecond { // 200 KB at 1 MB/s, and a little that may run ahead
		t.Errorf("200 KB took %v", took)
	}
	ctx, cancel := context.WithCancel(context.Background())
	throttle.SetRate(1)
	waiting := make(chan error)
	go func() { waiting <- throttle.Wait(ctx, 1<<20) }()
	cancel()
	if err := <-waiting; err == nil {
		t.Error("a wait of days ended without an error")
	}
}

// TestCompactAndDelete: under both policies old segments go by retention, and of what is left the newest of each key stays.
func TestCompactAndDelete(t *testing.T) {
	t.Parallel()
	clock, nowMs, advance := movable()
	h := start(t, inMemory, clock)
	p := h.partition("c", compacted, func(c *Config) { c.CleanupDelete, c.RetentionMs = true, 100_000 })
	write := func(prefix string) {
		for n := range 12 {
			put(t, p, keyed(0, nowMs(), fmt.Sprintf("%s%d=%d %s", prefix, n%3, n, strings.Repeat("x", 150))))
		}
	}
	write("old")
	advance(90_000)
	write("new")
	if !cleanNow(t, p) {
		t.Fatal("nothing to clean")
	}
	has := func(prefix string) (n int) {
		for _, r := range everything(t, p, ReadUncommitted) {
			if strings.HasPrefix(r.key, prefix) {
				n++
			}
		}
		return n
	}
	if has("old") != 3 || has("new") < 3 || has("new") > 7 {
		t.Fatalf("compaction left %d old ones and %d new ones", has("old"), has("new"))
	}
	advance(20_000)
	h.s.applyRetention()
	if has("old") != 0 || has("new") < 3 || p.LogStartOffset() == 0 {
		t.Fatalf("retention left %d old ones and %d new ones from offset %d on", has("old"), has("new"), p.LogStartOffset())
	}
	h.restart()
	p = h.s.Get("c", 0)
	if has("old") != 0 || has("new") < 3 {
		t.Fatal("not so after a restart")
	}
}

// TestMarkersStayAsLongAsNeeded: records of an aborted transaction go at once, its marker and its index entry when no batch
// is left that they speak of and the horizon is over; committed records stay, and so do their markers.
func TestMarkersStayAsLongAsNeeded(t *testing.T) {
	t.Parallel()
	clock, nowMs, advance := movable()
	h := start(t, inMemory, clock)
	p := h.partition("c", compacted, func(c *Config) { c.DeleteRetentionMs = 10_000 })
	put(t, p, transactional(1, "aborted", "no"))
	endTxn(t, p, 1, 0, false)
	put(t, p, transactional(2, "committed", "yes"))
	endTxn(t, p, 2, 0, true)
	later := batch.Builder{HasProducer: true, ProducerID: 1, BaseSequence: 1, Transactional: true} // the aborted batch is not the last of its producer
	later.Append(nowMs(), []byte("later"), []byte("yes"))
	put(t, p, build(&later))
	endTxn(t, p, 1, 0, true)
	pad := func() {
		for n := range 8 {
			put(t, p, keyed(0, nowMs(), fmt.Sprintf("pad%d=%s", n, strings.Repeat("p", 200))))
		}
	}
	state := func() (markers int, keys []string) {
		for _, r := range everything(t, p, ReadUncommitted) {
			switch {
			case r.control:
				markers++
			case !strings.HasPrefix(r.key, "pad"):
				keys = append(keys, r.key)
			}
		}
		return markers, keys
	}
	for step, want := range []int{3, 3, 2, 2} {
		pad()
		if !cleanNow(t, p) {
			t.Fatal("nothing to clean")
		}
		markers, keys := state()
		if markers > want || step == 0 && markers != want || !slices.Equal(keys, []string{"committed", "later"}) {
			t.Fatalf("step %d: %d markers, want %d, keys %v", step, markers, want, keys)
		}
		advance(11_000)
	}
	if left := abortedOf(t, p, 0, p.LogEndOffset()); len(left) != 0 {
		t.Errorf("index entries of nothing: %v", left)
	}
}

// TestReaderOverTenGenerations: a reader holds what it read over ten generations of rolls, retention and compaction, and
// more readers join in each; every byte stays, by map and by descriptor.
func TestReaderOverTenGenerations(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) { o.Cleaner = byHand })
	p := h.partition("c", compacted, func(c *Config) { c.CleanupDelete, c.RetentionBytes = true, 900 })
	type pinned struct {
		slice Slice
		bytes []byte
	}
	var held []pinned
	var generations []*segmentList
	for generation := range 10 {
		for n := range 12 {
			put(t, p, keyed(batch.Compression(n%5), h.s.nowMs(), fmt.Sprintf("k%d=%d.%d %s", n%4, generation, n, strings.Repeat("x", 150))))
		}
		at := p.LogStartOffset()
		for range 4 {
			s, err := p.Read(at, 1000, true, ReadUncommitted)
			if err != nil || s.Len == 0 {
				t.Fatalf("read at %d: %d bytes, %v", at, s.Len, err)
			}
			v, _, err := batch.Next(s.Mem)
			if err != nil {
				t.Fatal(err)
			}
			at = v.LastOffset() + 1
			held = append(held, pinned{s, slices.Clone(s.Mem)})
		}
		generations = append(generations, p.segments.Load())
		if !cleanNow(t, p) {
			t.Fatal("nothing to clean")
		}
		h.s.applyRetention()
		h.s.janitor.Doomed.Release(1 << 62)
		h.s.segments.Bury()
		if slices.Equal(p.segments.Load().all, generations[generation].all) {
			t.Fatal("the list did not change")
		}
		for i, x := range held {
			direct := make([]byte, x.slice.Len)
			if _, err := (&osRead{x.slice.FD}).ReadAt(direct, x.slice.Offset); err != nil || !slices.Equal(direct, x.bytes) || !slices.Equal(x.slice.Mem, x.bytes) {
				t.Fatalf("generation %d: what was read as number %d is not what it was: %v", generation, i, err)
			}
		}
	}
	if p.LogStartOffset() == 0 {
		t.Error("retention did nothing")
	}
	for i := range held {
		held[i].slice.Release()
	}
	eventually(t, func() error {
		h.s.segments.Bury()
		entries, err := vfs.OS.List(p.path())
		if err != nil {
			return err
		}
		live, logs := len(p.segments.Load().all), 0
		for _, e := range entries {
			if strings.HasSuffix(e.Name, ".log") || strings.HasSuffix(e.Name, ".deleted") {
				logs++
			}
		}
		if logs != live {
			return fmt.Errorf("%d segments, %d files are left when nobody reads any more", live, logs)
		}
		return nil
	})
}
