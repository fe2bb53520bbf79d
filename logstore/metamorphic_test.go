package logstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

var (
	metamorphicFor  = flag.Duration("metamorphic.for", 6*time.Second, "how long the metamorphic test runs")
	metamorphicSeed = flag.Uint64("metamorphic.seed", 0, "seed of the metamorphic test; 0: by the clock")
	metamorphicOnly = flag.Int("metamorphic.round", -1, "the one round of a seed that is repeated; -1: all")
)

// modelRecord is one offset of the plain model.
type modelRecord struct {
	offset, ms int64
	value      string
	producer   int64 // -1: none
	control    bool
	txn        int // index into model.txns, -1: none
}

type modelTxn struct {
	producer, first, last, stable int64 // last -1: open
	aborted                       bool
}

type model struct {
	records []modelRecord
	txns    []modelTxn
	start   int64
	acked   int64
	// producers: next sequence, epoch, open transaction, and the last batch that was sent.
	producers [4]struct {
		sequence int32
		epoch    int16
		txn      int
		last     []byte
		lastAt   int64
	}
}

func (m *model) end() int64 { return int64(len(m.records)) }

func (m *model) stable() int64 {
	s := m.end()
	for _, t := range m.txns {
		if t.last < 0 {
			s = min(s, t.first)
		}
	}
	return s
}

// metamorph drives a store and its model.
type metamorph struct {
	t   *testing.T
	rng *rand.Rand
	m   model
	fs  *vfs.Mem
	h   *harness
	p   *Partition
	c   Config
	log []string
}

// TestMetamorphic does random things to a partition and to a plain model, and compares what can be seen.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	seed := *metamorphicSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-metamorphic.seed)", seed)
	rounds, steps := 0, 0
	for end := time.Now().Add(*metamorphicFor); time.Now().Before(end) && !t.Failed(); rounds++ {
		round := rounds
		if *metamorphicOnly >= 0 {
			round = *metamorphicOnly
		}
		steps += runMetamorph(t, rand.New(rand.NewPCG(seed, uint64(round))), round)
	}
	t.Logf("%d rounds, %d steps", rounds, steps)
}

func runMetamorph(t *testing.T, rng *rand.Rand, round int) int {
	x := &metamorph{t: t, rng: rng, fs: vfs.NewRecording()}
	for i := range x.m.producers {
		x.m.producers[i].txn = -1
	}
	if err := errors.Join(x.fs.MkdirAll("/data"), x.fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	x.c = DefaultConfig()
	x.c.SegmentBytes, x.c.IndexIntervalBytes, x.c.RetentionMs, x.c.FileDeleteDelayMs = int32(400+rng.IntN(3000)), int32(rng.IntN(500)), -1, 0
	x.h = start(t, func(o *Options) {
		o.Dirs, o.FS = []string{"/data"}, x.fs
		if round%2 == 1 {
			o.JournalBytes = smallJournal
		}
		if round%6 < 2 {
			o.windows = eagerWindows()
		} else if round%6 < 4 {
			o.windows = eagerPads()
		}
	})
	x.ensure()
	step := 0
	for ; step < 150 && !t.Failed(); step++ {
		x.step()
	}
	if t.Failed() {
		t.Logf("round %d:", round)
		for _, line := range x.log {
			t.Log(line)
		}
	}
	x.h.stop()
	if err := x.fs.Close(); err != nil {
		t.Error(err)
	}
	return step
}

func (x *metamorph) ensure() {
	x.t.Helper()
	p, err := x.h.s.Ensure("m", topicID, 0, x.c)
	if err != nil {
		x.t.Fatal(err)
	}
	x.p = p
}

func (x *metamorph) note(format string, args ...any) {
	x.log = append(x.log, fmt.Sprintf(format, args...))
}

func (x *metamorph) step() {
	switch n := x.rng.IntN(100); {
	case n < 45:
		x.append()
	case n < 52:
		x.endTxn()
	case n < 58:
		x.duplicate()
	case n < 60:
		x.gap()
	case n < 75:
		x.read()
	case n < 83:
		x.lookup()
	case n < 87:
		x.deleteRecords()
	case n < 90:
		x.note("checkpoint")
		x.h.s.checkpoint()
	case n < 92:
		x.note("retention")
		x.h.s.applyRetention()
	case n < 95:
		x.note("restart")
		x.h.restart()
		x.ensure()
		x.m.acked = x.m.end()
	case n < 98:
		x.crash()
	default:
		x.note("config")
		x.c.SegmentBytes = int32(400 + x.rng.IntN(3000))
		x.ensure()
	}
	x.marks()
}

func (x *metamorph) marks() {
	if x.p.LogEndOffset() != x.m.end() || x.p.LogStartOffset() != x.m.start {
		x.t.Errorf("log from %d to %d, the model from %d to %d", x.p.LogStartOffset(), x.p.LogEndOffset(), x.m.start, x.m.end())
	}
	if x.m.acked == x.m.end() && (x.p.HighWatermark() != x.m.end() || x.p.LastStableOffset() != max(x.m.stable(), x.m.start)) {
		x.t.Errorf("high watermark %d, stable %d; the model %d, %d", x.p.HighWatermark(), x.p.LastStableOffset(), x.m.end(), x.m.stable())
	}
}

// append adds one batch of some producer, or of none, and mostly waits for the commit.
func (x *metamorph) append() {
	b := batch.Builder{Compression: batch.Compression(x.rng.IntN(5))}
	who := x.rng.IntN(len(x.m.producers)+2) - 2
	first := x.m.end()
	txn := -1
	if who >= 0 {
		p := &x.m.producers[who]
		b.HasProducer, b.ProducerID, b.ProducerEpoch, b.BaseSequence = true, int64(who), p.epoch, p.sequence
		if b.Transactional = p.txn >= 0 || x.rng.IntN(3) == 0; b.Transactional && p.txn < 0 {
			p.txn = len(x.m.txns)
			x.m.txns = append(x.m.txns, modelTxn{producer: int64(who), first: first, last: -1})
		}
		txn = p.txn
	}
	now := x.h.s.nowMs()
	for i := range 1 + x.rng.IntN(4) {
		r := modelRecord{offset: first + int64(i), ms: now - x.rng.Int64N(1000), value: fmt.Sprint("v", first+int64(i), "-", x.rng.IntN(1000)), producer: int64(who), txn: txn}
		b.Append(r.ms, []byte("key"), []byte(r.value+string(make([]byte, x.rng.IntN(60)))))
		x.m.records = append(x.m.records, r)
	}
	bytes := build(&b)
	x.note("append %d by %d, txn %d", first, who, txn)
	if who >= 0 {
		p := &x.m.producers[who]
		p.last, p.lastAt = slices.Clone(bytes), first
		p.sequence += int32(b.Count())
	}
	x.put(bytes, OriginClient, first)
}

func (x *metamorph) put(b []byte, origin Origin, first int64) {
	r, err := x.p.Append(b, AppendOptions{Origin: origin})
	if err != nil || r.BaseOffset != first || r.LastOffset != x.m.end()-1 || r.Duplicate {
		x.t.Errorf("append at %d: %+v %v", first, r, err)
		return
	}
	if x.rng.IntN(10) > 0 {
		await(x.t, x.p, x.m.end())
		x.m.acked = x.m.end()
	}
}

func (x *metamorph) endTxn() {
	who := x.rng.IntN(len(x.m.producers))
	p := &x.m.producers[who]
	if p.txn < 0 {
		return
	}
	at := x.m.end()
	aborted := x.rng.IntN(2) == 0
	x.note("end txn of %d at %d, aborted %v", who, at, aborted)
	x.m.records = append(x.m.records, modelRecord{offset: at, ms: -1, control: true, producer: int64(who), txn: p.txn})
	t := &x.m.txns[p.txn]
	t.last, t.aborted = at, aborted
	t.stable = x.m.stable()
	p.txn = -1
	x.put(batch.EndTxnMarker(nil, int64(who), p.epoch, !aborted, 1, 0), OriginCoordinator, at)
}

func (x *metamorph) duplicate() {
	p := &x.m.producers[x.rng.IntN(len(x.m.producers))]
	if p.last == nil {
		return
	}
	x.note("duplicate of %d", p.lastAt)
	r, err := x.p.Append(slices.Clone(p.last), AppendOptions{})
	if err != nil || !r.Duplicate || r.BaseOffset != p.lastAt {
		x.t.Errorf("duplicate of %d: %+v %v", p.lastAt, r, err)
	}
}

func (x *metamorph) gap() {
	who := x.rng.IntN(len(x.m.producers))
	p := &x.m.producers[who]
	if p.last == nil {
		return
	}
	b := batch.Builder{HasProducer: true, ProducerID: int64(who), ProducerEpoch: p.epoch, BaseSequence: p.sequence + 7, Transactional: p.txn >= 0}
	b.Append(x.h.s.nowMs(), nil, []byte("gap"))
	if _, err := x.p.Append(build(&b), AppendOptions{}); !errors.Is(err, ErrOutOfOrderSequence) {
		x.t.Errorf("gap of producer %d: %v", who, err)
	}
}

// read fetches from a random offset and compares every record, and under read_committed the aborted transactions.
func (x *metamorph) read() {
	iso := Isolation(x.rng.IntN(3))
	at := x.m.start + x.rng.Int64N(x.m.end()-x.m.start+1)
	s, err := x.p.Read(at, x.rng.IntN(3000), x.rng.IntN(2) == 0, iso)
	if err != nil {
		x.t.Errorf("read at %d: %v", at, err)
		return
	}
	defer s.Release()
	limit := map[Isolation]int64{ReadLogEnd: x.m.end(), ReadUncommitted: x.p.HighWatermark(), ReadCommitted: x.p.LastStableOffset()}[iso]
	next := at
	for rest := content(x.t, &s); len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if err != nil || v.Validate() != nil {
			x.t.Errorf("read at %d: %v", at, err)
			return
		}
		rest = after
		it, err := v.Records(1 << 20)
		if err != nil {
			x.t.Error(err)
			return
		}
		for it.Next() {
			r := it.Record()
			if r.Offset < at {
				continue
			}
			want := x.m.records[r.Offset]
			if r.Offset != next || v.IsControl() != want.control || !want.control && (r.TimestampMs != want.ms || string(r.Value[:len(want.value)]) != want.value) {
				x.t.Errorf("read at %d: offset %d, expected %d: %q", at, r.Offset, next, r.Value)
			}
			next = r.Offset + 1
		}
		it.Close()
	}
	if next > limit && next > at {
		x.t.Errorf("read at %d with isolation %d sees %d, the limit is %d", at, iso, next-1, limit)
	}
	if iso == ReadCommitted && next > at {
		var want []AbortedTxn
		for _, t := range x.m.txns {
			if t.aborted && t.last >= at && t.first < next && t.last < x.p.LogEndOffset() {
				want = append(want, AbortedTxn{ProducerID: t.producer, FirstOffset: t.first, LastOffset: t.last, LastStableOffset: t.stable})
			}
		}
		got := abortedOf(x.t, x.p, at, next)
		slices.SortFunc(want, func(a, b AbortedTxn) int { return int(a.LastOffset - b.LastOffset) })
		if fmt.Sprint(got) != fmt.Sprint(want) {
			x.t.Errorf("aborted in [%d, %d): %v, want %v", at, next, got, want)
		}
	}
}

func (x *metamorph) lookup() {
	if x.m.acked != x.m.end() {
		return
	}
	stamp := x.h.s.nowMs() - x.rng.Int64N(1200)
	if len(x.m.records) > 0 && x.rng.IntN(2) == 0 {
		stamp = x.m.records[x.rng.IntN(len(x.m.records))].ms
	}
	want, largest := int64(-1), modelRecord{offset: -1, ms: -1}
	for _, r := range x.m.records[x.m.start:] {
		if want < 0 && r.ms >= stamp && !r.control {
			want = r.offset
		}
		if r.ms > largest.ms {
			largest = r
		}
	}
	if stamp <= 0 {
		return
	}
	got, ok, err := x.p.OffsetForTimestamp(context.Background(), stamp, ReadUncommitted)
	if !ok {
		got.Offset = -1
	}
	if err != nil || got.Offset != want {
		x.t.Errorf("lookup of %d: offset %d, want %d, %v", stamp, got.Offset, want, err)
	}
	got, ok, err = x.p.MaxTimestamp(context.Background(), ReadUncommitted)
	if !ok {
		got.Offset = -1
	}
	if err != nil || got.Offset != largest.offset && largest.ms >= 0 {
		x.t.Errorf("largest timestamp at %d, want %d, %v", got.Offset, largest.offset, err)
		for _, g := range x.p.segments.Load().all {
			x.t.Logf("segment %d: end %d, sealed %v, max %d at %d", g.BaseOffset, g.EndOffset.Load(), g.Sealed.Load(), g.MaxTimestampMs, g.MaxTimestampAt)
		}
		x.t.Log(x.h.logs)
	}
}

func (x *metamorph) deleteRecords() {
	limit := min(x.p.HighWatermark(), x.m.stable())
	if limit <= x.m.start {
		return
	}
	to := x.m.start + 1 + x.rng.Int64N(limit-x.m.start)
	x.note("delete records to %d", to)
	if low, err := x.p.DeleteRecords(to); err != nil || low != to {
		x.t.Errorf("delete records to %d: %d %v", to, low, err)
	}
	x.m.start = to
}

// crash takes a random legal outcome of a power failure and goes on with it.
func (x *metamorph) crash() {
	var choose func(int) int
	if x.rng.IntN(3) > 0 {
		choose = x.rng.IntN
	}
	clone, err := x.fs.Clone(choose)
	if err != nil {
		x.t.Fatal(err)
	}
	x.h.kill()
	if err := x.fs.Close(); err != nil {
		x.t.Error(err)
	}
	x.fs, x.h.o.FS = clone, clone
	x.h.open()
	x.ensure()
	end := x.p.LogEndOffset()
	x.note("crash: %d appended, %d acknowledged, %d recovered", x.m.end(), x.m.acked, end)
	if end < x.m.acked || end > x.m.end() {
		x.t.Errorf("crash: %d appended, %d acknowledged, %d recovered\n%s", x.m.end(), x.m.acked, end, x.h.logs)
		return
	}
	x.rewind(end)
	x.m.acked = end
}

// rewind forgets what was not acknowledged and did not survive.
func (x *metamorph) rewind(end int64) {
	x.m.records = x.m.records[:end]
	x.m.txns = slices.DeleteFunc(x.m.txns, func(t modelTxn) bool { return t.first >= end })
	for i := range x.m.txns {
		if x.m.txns[i].last >= end {
			x.m.txns[i].last, x.m.txns[i].aborted = -1, false
		}
	}
	for i := range x.m.producers {
		p := &x.m.producers[i]
		p.txn = slices.IndexFunc(x.m.txns, func(t modelTxn) bool { return t.producer == int64(i) && t.last < 0 })
		if p.last != nil && p.lastAt >= end {
			// What the producer would send again; a new epoch is simpler, and legal.
			p.epoch++
			p.sequence, p.last = 0, nil
		}
	}
}
