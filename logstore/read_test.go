package logstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/logstore/layout"
)

func TestReadBounds(t *testing.T) {
	t.Parallel()
	now := time.Now() // stands still: an index that was not looked into for long is not looked into without waiting
	h := start(t, func(o *Options) { o.Clock = func() time.Time { return now } })
	p := h.partition("a", func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 4000, 200 })
	var sizes []int
	for i := range 60 {
		b := records(strings.Repeat("v", 10+i), "second")
		sizes = append(sizes, len(b))
		put(t, p, b)
	}
	if n := len(p.segments.Load().all); n < 2 {
		t.Fatalf("%d segments", n)
	}
	for offset := int64(0); offset < 120; offset++ {
		first := int(offset / 2)
		for _, maxBytes := range []int{1, sizes[first] - 1, sizes[first], sizes[first] + 1, 500, 1 << 20} {
			s, err := p.Read(offset, maxBytes, false, ReadUncommitted)
			if err != nil {
				t.Fatal(err)
			}
			// The way of event loops, which looks into the map, finds the same.
			if w, err := p.ReadNoWait(offset, maxBytes, false, ReadUncommitted); err != nil || w.Offset != s.Offset || w.Len != s.Len {
				t.Fatalf("offset %d, %d bytes asked: %d bytes at %d without waiting, %v; %d at %d came", offset, maxBytes, w.Len, w.Offset, err, s.Len, s.Offset)
			} else {
				w.Release()
			}
			if maxBytes < sizes[first] {
				if s.Len != 0 {
					t.Fatalf("offset %d, %d bytes asked, %d came", offset, maxBytes, s.Len)
				}
				if s, err = p.Read(offset, maxBytes, true, ReadUncommitted); err != nil || s.Len != sizes[first] {
					t.Fatalf("offset %d with minOneBatch: %d bytes, %v, the batch has %d", offset, s.Len, err, sizes[first])
				}
			}
			if s.Len > max(maxBytes, sizes[first]) {
				t.Fatalf("offset %d: %d bytes for %d", offset, s.Len, maxBytes)
			}
			n := 0
			for rest := s.Mem; len(rest) > 0; n++ {
				v, after, err := batch.Next(rest)
				if err != nil {
					t.Fatalf("offset %d, %d bytes: cut inside a batch: %v", offset, maxBytes, err)
				}
				if v.BaseOffset() != int64(2*(first+n)) {
					t.Fatalf("offset %d: batch %d begins at %d", offset, n, v.BaseOffset())
				}
				rest = after
			}
			if s.Len+sizes[min(first+n, 59)] <= maxBytes && first+n < 60 && p.segments.Load().find(int64(2*(first+n))) == p.segments.Load().find(offset) {
				t.Fatalf("offset %d: %d bytes for %d, and the next batch of %d would have fitted", offset, s.Len, maxBytes, sizes[first+n])
			}
			if !s.Resident() {
				t.Fatal("just written, and not in memory")
			}
			s.Populate()
			s.Release()
			s.Release()
		}
	}
	for _, offset := range []int64{-1, 121, 1 << 40} {
		if _, err := p.Read(offset, 100, true, ReadUncommitted); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Fatalf("offset %d: %v", offset, err)
		}
	}
	if s, err := p.Read(120, 100, true, ReadUncommitted); err != nil || s.Len != 0 {
		t.Fatalf("at the end: %d %v", s.Len, err)
	}
}

// TestPinnedReaders holds slices over many rolls, deletions and remappings and looks at their bytes again; other readers
// walk meanwhile from wherever the log starts. -race and SIGBUS are the judges too.
func TestPinnedReaders(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) { o.InMemory, o.Dirs = true, []string{"/data"} })
	p := h.partition("a", func(c *Config) {
		c.SegmentBytes, c.IndexIntervalBytes, c.RetentionBytes, c.FileDeleteDelayMs = 3000, 100, 6000, 0
	})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			var pinned []Slice
			var sums [][32]byte
			for !stop.Load() {
				at := p.LogStartOffset()
				at += rng.Int64N(1 + p.HighWatermark() - at)
				s, err := p.Read(at, rng.IntN(2000), true, ReadUncommitted)
				if errors.Is(err, ErrOffsetOutOfRange) {
					continue // retention was faster
				}
				if err != nil {
					t.Error(err)
					return
				}
				if s.Len == 0 {
					continue
				}
				if v, _, err := batch.Next(s.Mem); err != nil || v.Validate() != nil || v.LastOffset() < at {
					t.Errorf("read at %d: %v", at, err)
				}
				pinned, sums = append(pinned, s), append(sums, sha256.Sum256(s.Mem))
				if len(pinned) > 50 {
					i := rng.IntN(len(pinned))
					if sha256.Sum256(pinned[i].Mem) != sums[i] {
						t.Error("a pinned slice changed")
					}
					direct := make([]byte, pinned[i].Len)
					if _, err := (&osRead{pinned[i].FD}).ReadAt(direct, pinned[i].Offset); err != nil || !bytes.Equal(direct, pinned[i].Mem) {
						t.Errorf("descriptor and map of a pinned slice differ: %v", err)
					}
					pinned[i].Release()
					pinned[i], sums[i] = pinned[len(pinned)-1], sums[len(sums)-1]
					pinned, sums = pinned[:len(pinned)-1], sums[:len(sums)-1]
				}
			}
			for i := range pinned {
				if sha256.Sum256(pinned[i].Mem) != sums[i] {
					t.Error("a pinned slice changed")
				}
				pinned[i].Release()
			}
		})
	}
	for i := range 1500 {
		put(t, p, records(fmt.Sprint("value ", i), strings.Repeat("x", i%100)))
		if i%50 == 0 {
			h.s.applyRetention()
		}
	}
	stop.Store(true)
	wg.Wait()
	if p.LogStartOffset() < 1000 || p.SizeBytes() > 10000 {
		t.Fatalf("retention left %d bytes from offset %d on", p.SizeBytes(), p.LogStartOffset())
	}
	eventually(t, func() error {
		h.s.janitor.Doomed.Release(1 << 62)
		h.s.segments.Bury()
		if n := h.s.segments.MapsInUse(); n > 20 {
			return fmt.Errorf("%d maps are left", n)
		}
		return nil
	})
}

func TestTimeLookup(t *testing.T) {
	t.Parallel()
	h := start(t)
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		p := h.partition(fmt.Sprint("a", codec), func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 300, 1 })
		ms := h.s.nowMs() - 100_000
		add := func(stamps ...int64) {
			b := batch.Builder{Compression: codec}
			for _, s := range stamps {
				b.Append(ms+s, nil, []byte("v"))
			}
			put(t, p, build(&b))
		}
		find := func(stamp int64) (int64, int64) {
			r, ok, err := p.OffsetForTimestamp(context.Background(), ms+stamp, ReadUncommitted)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return -1, -1
			}
			return r.Offset, r.TimestampMs - ms
		}
		if _, ok, err := p.MaxTimestamp(context.Background(), ReadUncommitted); ok || err != nil {
			t.Fatalf("an empty log has no largest timestamp: %v %v", ok, err)
		}
		add(0, 10, 30, 20)
		add(40, 60)
		add(50)
		check := func(when string) {
			t.Helper()
			for _, c := range [][3]int64{{-5, 0, 0}, {0, 0, 0}, {1, 1, 10}, {15, 2, 30}, {30, 2, 30}, {31, 4, 40}, {41, 5, 60}, {61, -1, -1}} {
				if o, s := find(c[0]); o != c[1] || s != c[2] {
					t.Errorf("%s, codec %d: at %d: offset %d with %d, want %d with %d", when, codec, c[0], o, s, c[1], c[2])
				}
			}
			r, ok, err := p.MaxTimestamp(context.Background(), ReadUncommitted)
			if err != nil || !ok || r.Offset != 5 || r.TimestampMs != ms+60 {
				t.Errorf("%s, codec %d: largest timestamp %+v %v %v", when, codec, r, ok, err)
			}
		}
		check("at once")
		h.crash()
		p = h.partition(fmt.Sprint("a", codec))
		check("after a kill")
		h.restart()
		p = h.partition(fmt.Sprint("a", codec))
		check("after a stop")
		add(5, 69, 63, 69, 61)
		if r, ok, err := p.MaxTimestamp(context.Background(), ReadUncommitted); err != nil || !ok || r.Offset != 8 {
			t.Errorf("codec %d: the first of several that share it: %+v %v %v", codec, r, ok, err)
		}
	}
	if n := h.s.counters.TimeLookupBatches.Load(); n == 0 {
		t.Error("decoded batches are not counted")
	}
}

func TestLogAppendTime(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a", func(c *Config) { c.LogAppendTime = true })
	before := h.s.nowMs()
	r := put(t, p, stamped(5, "x", "y"))
	if r.LogAppendTimeMs < before {
		t.Fatalf("%+v", r)
	}
	s, err := p.Read(0, 1000, true, ReadUncommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	v := batch.View(s.Mem)
	if err := v.Validate(); err != nil || v.TimestampType() != batch.LogAppendTime || v.MaxTimestamp() != r.LogAppendTimeMs {
		t.Fatalf("%v %d", err, v.MaxTimestamp())
	}
	if o, ok, err := p.OffsetForTimestamp(context.Background(), before, ReadUncommitted); err != nil || !ok || o.Offset != 0 || o.TimestampMs != r.LogAppendTimeMs {
		t.Fatalf("%+v %v %v", o, ok, err)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	h := start(t, func(o *Options) { o.Clock = func() time.Time { return time.UnixMilli(now.Load()) } })
	p := h.partition("a", func(c *Config) { c.SegmentBytes, c.RetentionMs, c.FileDeleteDelayMs = 200, 1000, 0 })
	for i := range 10 {
		put(t, p, stamped(now.Load()+int64(i), fmt.Sprint(i), strings.Repeat("x", 50)))
	}
	h.s.applyRetention()
	if p.LogStartOffset() != 0 {
		t.Fatalf("nothing has expired, and the log starts at %d", p.LogStartOffset())
	}
	now.Add(1005) // 0 … 4 are older than a second
	h.s.applyRetention()
	if p.LogStartOffset() != 10 || p.LogEndOffset() != 20 {
		t.Fatalf("log from %d to %d", p.LogStartOffset(), p.LogEndOffset())
	}
	now.Add(10_000)
	h.s.applyRetention()
	if p.LogStartOffset() != 20 || p.LogEndOffset() != 20 || p.SizeBytes() != 0 {
		t.Fatalf("all has expired: log from %d to %d, %d bytes", p.LogStartOffset(), p.LogEndOffset(), p.SizeBytes())
	}
	for name, again := range map[string]func(){"stop": h.restart, "kill": h.crash} {
		again()
		p = h.partition("a")
		if p.LogStartOffset() != 20 || p.LogEndOffset() != 20 {
			t.Fatalf("%s: log from %d to %d", name, p.LogStartOffset(), p.LogEndOffset())
		}
	}
	if r := put(t, p, records("next")); r.BaseOffset != 20 {
		t.Fatalf("%+v", r)
	}
}

func TestDeleteRecords(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a", func(c *Config) { c.SegmentBytes, c.FileDeleteDelayMs = 200, 0 })
	for i := range 10 {
		put(t, p, records(fmt.Sprint(i)))
	}
	if low, err := p.DeleteRecords(7); err != nil || low != 7 {
		t.Fatalf("%d %v", low, err)
	}
	if _, err := p.DeleteRecords(11); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("beyond the high watermark: %v", err)
	}
	if low, err := p.DeleteRecords(3); err != nil || low != 7 {
		t.Fatalf("below the start: %d %v", low, err)
	}
	if _, err := p.Read(6, 100, true, ReadUncommitted); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("a read below the start: %v", err)
	}
	expect(t, p, "7", "8", "9")
	h.crash()
	p = h.partition("a")
	expect(t, p, "7", "8", "9")
	if low, err := p.DeleteRecords(-1); err != nil || low != 10 {
		t.Fatalf("%d %v", low, err)
	}
	if p.SizeBytes() != 0 {
		t.Fatalf("all is deleted, and %d bytes are left", p.SizeBytes())
	}
	h.crash()
	p = h.partition("a")
	if r := put(t, p, records("next")); r.BaseOffset != 10 || p.LogStartOffset() != 10 {
		t.Fatalf("%+v, start %d", r, p.LogStartOffset())
	}
}

func TestDeletedTopicNeverComesBack(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a")
	for i := range 10 {
		put(t, p, produced(7, 0, int32(i), false, fmt.Sprint(i)))
	}
	if _, err := p.DeleteRecords(5); err != nil {
		t.Fatal(err)
	}
	h.s.checkpoint()
	pinned, err := p.Read(5, 1000, true, ReadUncommitted)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.s.Delete("a", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(records("x"), AppendOptions{}); !errors.Is(err, ErrClosed) {
		t.Fatalf("append to a deleted partition: %v", err)
	}
	if v, _, err := batch.Next(pinned.Mem); err != nil || v.Validate() != nil {
		t.Fatal("a slice must outlive the deletion")
	}
	pinned.Release()
	if h.s.Get("a", 0) != nil {
		t.Fatal("still there")
	}
	other := [16]byte{9}
	if _, err = h.s.Ensure("a", other, 0, DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	h.crash()
	if p, err = h.s.Ensure("a", other, 0, DefaultConfig()); err != nil || p.LogStartOffset() != 0 || p.LogEndOffset() != 0 {
		t.Fatalf("%v: log from %d to %d", err, p.LogStartOffset(), p.LogEndOffset())
	}
	if r := put(t, p, produced(7, 0, 3, false, "new")); r.BaseOffset != 0 || r.Duplicate {
		t.Fatalf("the new topic knows the old producer: %+v", r)
	}
	// The same name with a third id, without a deletion: set aside, not served.
	third, err := h.s.Ensure("a", [16]byte{7}, 0, DefaultConfig())
	if err != nil || third.LogEndOffset() != 0 {
		t.Fatalf("%v", err)
	}
	stray, err := filepath.Glob(filepath.Join(h.o.Dirs[0], "a-0.*"+layout.StrayDirSuffix))
	if err != nil || len(stray) != 1 {
		t.Fatalf("%v %v", stray, err)
	}
}

func TestStrayDirectoriesAreKept(t *testing.T) {
	t.Parallel()
	h := start(t)
	put(t, h.partition("keep"), records("x"))
	put(t, h.partition("lose"), records("y"))
	h.restart()
	err := h.s.Stray(func(topic string, partition int32, id [16]byte) bool {
		if id != topicID || partition != 0 {
			t.Errorf("%s-%d has id %v", topic, partition, id)
		}
		return topic == "keep"
	})
	if err != nil || h.s.Get("lose", 0) != nil || h.s.Get("keep", 0) == nil {
		t.Fatal(err)
	}
	stray, _ := filepath.Glob(filepath.Join(h.o.Dirs[0], "lose-0.*"+layout.StrayDirSuffix, "*.log"))
	if len(stray) != 1 {
		t.Fatalf("%v", stray)
	}
	h.restart()
	if h.s.Get("lose", 0) != nil {
		t.Fatal("a stray directory is served")
	}
}

// osRead reads a descriptor that a Slice names.
type osRead struct{ fd int }

func (o *osRead) ReadAt(b []byte, at int64) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", o.fd))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(b, at)
}

func TestNoAllocations(t *testing.T) {
	h := start(t, func(o *Options) { o.InMemory, o.Dirs = true, []string{"/data"} })
	p := h.partition("a", func(c *Config) { c.IndexIntervalBytes = 100 })
	plain := stamped(h.s.nowMs(), strings.Repeat("x", 1000))
	w := &Waiter{}
	done := make(chan error, 1)
	w.Done = func(_ *Waiter, err error) { done <- err }
	one := func() {
		batch.View(plain).SetBaseOffset(0)
		r, err := p.Append(plain, AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Offset = r.LastOffset + 1
		p.WhenCommitted(w)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		one()
	}
	if n := testing.AllocsPerRun(2000, one); n != 0 {
		t.Errorf("append and commit: %v allocations", n)
	}
	sequence := int32(0)
	idempotent := produced(7, 0, 0, false, strings.Repeat("x", 1000))
	next := func() {
		v := batch.View(idempotent)
		v.SetBaseOffset(0)
		put32(v[53:], sequence)
		sequence++
		fixCRC(v)
		if _, err := p.Append(idempotent, AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	next()
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("idempotent append: %v allocations", n)
	}
	await(t, p, p.LogEndOffset())
	offset := int64(0)
	if n := testing.AllocsPerRun(2000, func() {
		for _, iso := range []Isolation{ReadUncommitted, ReadCommitted} {
			s, err := p.ReadNoWait(offset, 5000, true, iso)
			first := errors.Is(err, ErrWouldBlock) // nobody has looked into the index yet
			if first {
				s, err = p.Read(offset, 5000, true, iso)
			}
			if err != nil || s.Len == 0 || !first && !s.Resident() {
				t.Fatalf("%d bytes, %v", s.Len, err)
			}
			pin := s.Pin()
			pin.Release()
		}
		offset++
	}); n != 0 {
		t.Errorf("read: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = h.s.Get("a", 0) }); n != 0 {
		t.Errorf("Get: %v allocations", n)
	}
}

// TestAfterAMissReadersLeaveTheLoop: what readahead brought is the first that goes when memory is short. So after a reader that
// met bytes which were not in memory, only those that were appended just now are read on event loops, for a while.
func TestAfterAMissReadersLeaveTheLoop(t *testing.T) {
	t.Parallel()
	var laterMs atomic.Int64
	h := start(t, func(o *Options) {
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(laterMs.Load()) * time.Millisecond) }
	})
	p := h.partition("a")
	for range 20 {
		put(t, p, records(strings.Repeat("x", 10_000)))
	}
	h.restart() // nothing is young any more
	p = h.partition("a")
	read := func(offset int64) error {
		s, err := p.ReadNoWait(offset, 50_000, true, ReadUncommitted)
		defer s.Release()
		if err == nil && !s.Resident() {
			return ErrWouldBlock
		}
		return err
	}
	mayWait := func() {
		t.Helper()
		s, err := p.Read(0, 50_000, true, ReadUncommitted)
		if err != nil || s.Len == 0 {
			t.Fatalf("who may wait: %d bytes, %v", s.Len, err)
		}
		s.Populate()
		s.Release()
	}
	if err := read(0); !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("an index that nobody has opened: %v", err)
	}
	mayWait()
	if err := read(0); err != nil {
		t.Fatalf("in memory, nobody has missed anything: %v", err)
	}
	laterMs.Add(limits.ColdReaderMs)
	if err := read(0); !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("an index that nobody has looked into for long: %v", err)
	}
	mayWait()
	p.segments.Load().active().Missed()
	if err := read(0); !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("after a miss: %v", err)
	}
	mayWait()
	if err := read(0); !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("populated for somebody else: %v", err)
	}
	last := put(t, p, records("young")).BaseOffset
	if err := read(last); err == nil {
		t.Fatal("nobody has asked yet whether it is young") // the first question makes the marks
	}
	last = put(t, p, records("young")).BaseOffset
	if err := read(last); err != nil {
		t.Fatalf("what was appended just now: %v", err)
	}
	laterMs.Add(limits.ColdReaderMs)
	mayWait()
	if err := read(0); err != nil {
		t.Fatalf("long after the miss: %v", err)
	}
}
