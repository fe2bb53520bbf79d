package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// cleanNow runs one round, whatever the dirty ratio is; false: there was nothing to clean.
func cleanNow(t *testing.T, p *Partition) bool {
	t.Helper()
	err := tryClean(t, p)
	if errors.Is(err, errNothingToClean) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	p.store.janitor.Doomed.Release(p.store.upMs())
	p.store.segments.Bury()
	return true
}

var errNothingToClean = errors.New("nothing to clean")

func tryClean(t *testing.T, p *Partition) error {
	t.Helper()
	c := p.store.compactor
	plan, ok := c.planOf(p)
	if !ok || plan.CleanableBytes == 0 {
		return errNothingToClean
	}
	ctx, taken := c.take(p)
	if !taken {
		t.Fatal("a round runs already")
	}
	err := p.clean(ctx, c, plan)
	c.mu.Lock()
	p.cleanState.cancel()
	p.cleanState.cancel = nil
	c.left.Broadcast()
	c.mu.Unlock()
	return err
}

// byHand: no thread cleans, only cleanNow does.
var byHand = CleanerOptions{Disabled: true}

func inMemory(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, vfs.NewMem(), byHand }

func compacted(c *Config) {
	c.CleanupCompact, c.CleanupDelete = true, false
	c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelayMs = 600, 100, 0
}

// keyed makes a batch of key=value pairs; "key" alone is a tombstone.
func keyed(codec batch.Compression, ms int64, pairs ...string) []byte {
	b := batch.Builder{Compression: codec}
	for _, pair := range pairs {
		key, value, has := strings.Cut(pair, "=")
		v := []byte(nil)
		if has {
			v = []byte(value)
		}
		b.Append(ms, []byte(key), v)
	}
	return build(&b)
}

type kept struct {
	offset     int64
	key, value string
	null       bool
	control    bool
	ms         int64
}

// everything reads a log from its start as a consumer does and checks every batch.
func everything(t *testing.T, p *Partition, iso Isolation) []kept {
	t.Helper()
	var out []kept
	next := p.LogStartOffset()
	for {
		s, err := p.Read(next, 1<<20, true, iso)
		if err != nil {
			t.Fatalf("read at %d: %v", next, err)
		}
		if s.Len == 0 {
			return out
		}
		for rest := s.Mem; len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err == nil {
				err = v.Validate()
			}
			if err != nil || v.LastOffset() < next {
				t.Fatalf("at %d: batch of %d to %d, %v", next, v.BaseOffset(), v.LastOffset(), err)
			}
			rest = after
			it, err := v.Records(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				r := it.Record()
				if r.Offset >= next {
					out = append(out, kept{r.Offset, string(r.Key), string(r.Value), r.Value == nil, v.IsControl(), r.TimestampMs})
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			it.Close()
			next = v.LastOffset() + 1
		}
		s.Release()
	}
}

// TestCompactionOfEveryCodec: the newest record of each key stays with offset, timestamp, key and value; offsets that are
// gone lead to the next one; so after a restart.
func TestCompactionOfEveryCodec(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory)
	p := h.partition("c", compacted)
	now := h.s.nowMs()
	for n := range 30 {
		put(t, p, keyed(batch.Compression(n%5), now+int64(n), fmt.Sprintf("k%d=v%d", n%4, n), fmt.Sprintf("k%d=w%d", (n+1)%4, n), "once"+fmt.Sprint(n)+"="+strings.Repeat("x", 40)))
	}
	end, before := p.LogEndOffset(), p.SizeBytes()
	all := everything(t, p, ReadUncommitted)
	active := p.segments.Load().active().BaseOffset
	if !cleanNow(t, p) {
		t.Fatal("nothing to clean")
	}
	newest := map[string]int64{}
	for _, r := range all {
		if r.offset < active {
			newest[r.key] = r.offset
		}
	}
	want := slices.DeleteFunc(slices.Clone(all), func(r kept) bool { return r.offset < active && newest[r.key] != r.offset })
	check := func() {
		t.Helper()
		got := everything(t, p, ReadUncommitted)
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if p.LogEndOffset() != end || p.LogStartOffset() != 0 {
			t.Fatalf("log from %d to %d", p.LogStartOffset(), p.LogEndOffset())
		}
	}
	check()
	if p.SizeBytes() >= before {
		t.Fatalf("%d bytes of %d are left", p.SizeBytes(), before)
	}
	if cleanNow(t, p) {
		t.Fatal("the same part is cleaned twice")
	}
	c := h.s.Counters()
	if rounds, read, written := c.CleanerRounds.Load(), c.CleanerReadBytes.Load(), c.CleanerWrittenBytes.Load(); rounds != 1 || written <= 0 || read <= 2*written {
		t.Fatalf("%d rounds are counted, %d bytes read and %d written", rounds, read, written)
	}
	for range 2 {
		h.restart()
		p = h.partition("c", compacted)
		check()
		h.crash()
		p = h.partition("c", compacted)
		check()
	}
	found, ok, err := p.OffsetForTimestamp(context.Background(), now, ReadUncommitted)
	if err != nil || !ok || found.Offset != want[0].offset {
		t.Fatalf("lookup by time: %+v %v %v, want offset %d", found, ok, err, want[0].offset)
	}
}

// TestUncleanable: a log that can't be read is left alone until the next start, and said to be.
func TestUncleanable(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory)
	p := h.partition("c", compacted)
	for n := range 30 {
		put(t, p, keyed(0, h.s.nowMs(), fmt.Sprintf("k%d=%d %s", n%3, n, strings.Repeat("x", 300))))
	}
	name := p.segments.Load().all[1].Path(layout.LogSuffix)
	f, err := h.s.fs.OpenFile(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 100); err != nil { // in a record
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if p.Uncleanable() || h.s.compactor.cleanFilthiest() || !p.Uncleanable() || h.s.compactor.cleanFilthiest() {
		t.Error("a damaged log was compacted, or is not said to be uncleanable")
	}
	if logs := h.logs.String(); !strings.Contains(logs, "level=ERROR") || !strings.Contains(logs, name) {
		t.Errorf("the log does not name %s: %s", name, logs)
	}
	if c := h.s.Counters(); c.CleanerRounds.Load() != 0 || c.CleanerReadBytes.Load() == 0 {
		t.Errorf("%d rounds, %d bytes read", c.CleanerRounds.Load(), c.CleanerReadBytes.Load())
	}
}

// TestTombstonesWaitForTheirHorizon: a tombstone stays for delete.retention.ms after it was first cleaned, then it goes.
func TestTombstonesWaitForTheirHorizon(t *testing.T) {
	t.Parallel()
	var offsetMs atomic.Int64
	base := time.Now()
	h := start(t, inMemory, func(o *Options) {
		o.Clock = func() time.Time { return base.Add(time.Duration(offsetMs.Load()) * time.Millisecond) }
	})
	p := h.partition("c", compacted, func(c *Config) { c.DeleteRetentionMs = 5000 })
	keys := func() string {
		var out []string
		for _, r := range everything(t, p, ReadUncommitted) {
			if !strings.HasPrefix(r.key, "pad") {
				out = append(out, fmt.Sprintf("%s%v%d", r.key, r.null, r.ms-base.UnixMilli()))
			}
		}
		return strings.Join(out, " ")
	}
	pads := 0
	pad := func() {
		t.Helper()
		for range 6 {
			pads++
			put(t, p, keyed(0, base.UnixMilli(), fmt.Sprintf("pad%d=%s", pads, strings.Repeat("p", 150))))
		}
	}
	put(t, p, keyed(batch.Gzip, base.UnixMilli()+7, "a=1", "b=2"))
	put(t, p, keyed(batch.Gzip, base.UnixMilli()+8, "a", "b=3"))
	for step, want := range []string{"atrue8 bfalse8", "atrue8 bfalse8", "bfalse8"} {
		pad()
		offsetMs.Store(int64(step) * 4000)
		if !cleanNow(t, p) {
			t.Fatal("nothing to clean")
		}
		if got := keys(); got != want {
			t.Fatalf("step %d: %q, want %q", step, got, want)
		}
	}
}

// TestMinCompactionLag: what is younger is not touched.
func TestMinCompactionLag(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory)
	p := h.partition("c", compacted, func(c *Config) { c.MinCompactionLagMs = 60_000 })
	now := h.s.nowMs()
	for n := range 20 {
		put(t, p, keyed(0, now-120_000*int64(1-n/10), fmt.Sprintf("k=%d %s", n, strings.Repeat("x", 200))))
	}
	if !cleanNow(t, p) {
		t.Fatal("nothing to clean")
	}
	got := everything(t, p, ReadUncommitted)
	if len(got) < 11 || len(got) > 13 || got[0].offset < 7 {
		t.Fatalf("%d records are left from %d on", len(got), got[0].offset)
	}
}

// TestCompactionAgainstModel: random keys, tombstones, codecs, transactions and idempotent producers; rounds of cleaning,
// restarts and crashes in between. A consumer always sees, of each key, the newest committed value; the log goes on where it
// was; a producer's last batch, sent again, is known.
func TestCompactionAgainstModel(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rounds := 0
	for end := time.Now().Add(*metamorphicFor / 3); time.Now().Before(end) && !t.Failed(); rounds++ {
		runCompactionModel(t, rand.New(rand.NewPCG(seed, uint64(rounds))), rounds)
	}
	t.Logf("%d rounds", rounds)
}

type cleanModel struct {
	t    *testing.T
	rng  *rand.Rand
	h    *harness
	fs   *vfs.Mem
	p    *Partition
	last map[string]kept // newest committed record of each key
	open [3][]kept       // records of the open transactions
	who  [3]struct {
		sequence int32
		last     []byte
		lastAt   int64
	}
	ms int64
}

func runCompactionModel(t *testing.T, rng *rand.Rand, round int) {
	t.Helper()
	m := &cleanModel{t: t, rng: rng, fs: vfs.NewRecording(), last: map[string]kept{}}
	if err := m.fs.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := m.fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	m.h = start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, m.fs, byHand })
	m.ms = m.h.s.nowMs()
	m.ensure()
	for step := range 120 {
		switch n := rng.IntN(100); {
		case n < 60:
			m.append()
		case n < 72:
			m.endTxn()
		case n < 88:
			cleanNow(t, m.p)
		case n < 92:
			m.h.s.checkpoint()
		case n < 94:
			m.deleteRecords()
		case n < 97:
			m.h.restart()
			m.ensure()
		default:
			m.crash()
		}
		if step%8 == 0 {
			m.lookup()
		}
		m.check(fmt.Sprintf("round %d step %d", round, step))
		if t.Failed() {
			return
		}
	}
	m.h.stop()
	if err := m.fs.Close(); err != nil {
		t.Error(err)
	}
	m.h.o.FS = nil
}

func (m *cleanModel) ensure() {
	m.p = m.h.partition("c", compacted, func(c *Config) { c.SegmentBytes, c.DeleteRetentionMs = 700, 1<<40 })
}

func (m *cleanModel) append() {
	who := m.rng.IntN(len(m.who)+2) - 2
	b := batch.Builder{Compression: batch.Compression(m.rng.IntN(5))}
	if who >= 0 {
		b.HasProducer, b.ProducerID, b.BaseSequence = true, int64(who), m.who[who].sequence
		b.Transactional = m.open[who] != nil || m.rng.IntN(3) == 0
	}
	var batchRecords []kept
	at := m.p.LogEndOffset()
	for i := range 1 + m.rng.IntN(3) {
		r := kept{offset: at + int64(i), key: fmt.Sprint("k", m.rng.IntN(6)), value: fmt.Sprint(at, strings.Repeat("x", m.rng.IntN(60))), null: m.rng.IntN(6) == 0, ms: m.ms}
		value := []byte(r.value)
		if r.null {
			r.value, value = "", nil
		}
		b.Append(r.ms, []byte(r.key), value)
		batchRecords = append(batchRecords, r)
	}
	encoded := build(&b)
	if who >= 0 {
		m.who[who].last, m.who[who].lastAt = slices.Clone(encoded), at
		m.who[who].sequence += int32(len(batchRecords))
	}
	put(m.t, m.p, encoded)
	if b.Transactional {
		m.open[who] = append(m.open[who], batchRecords...)
		return
	}
	m.commit(batchRecords)
}

func (m *cleanModel) commit(records []kept) {
	for _, r := range records {
		if r.offset > m.last[r.key].offset || m.last[r.key].key == "" {
			m.last[r.key] = r
		}
	}
}

func (m *cleanModel) endTxn() {
	who := m.rng.IntN(len(m.who))
	if m.open[who] == nil {
		return
	}
	commit := m.rng.IntN(2) == 0
	if _, err := m.p.Append(batch.EndTxnMarker(nil, int64(who), 0, commit, 1, m.ms), AppendOptions{Origin: OriginCoordinator}); err != nil {
		m.t.Fatal(err)
	}
	await(m.t, m.p, m.p.LogEndOffset())
	if commit {
		m.commit(m.open[who])
	}
	m.open[who] = nil
}

// deleteRecords takes the beginning of the log away, but not of an open transaction.
func (m *cleanModel) deleteRecords() {
	from, to := m.p.LogStartOffset(), m.p.LastStableOffset()
	if to <= from {
		return
	}
	to = from + 1 + m.rng.Int64N(to-from)
	if low, err := m.p.DeleteRecords(to); err != nil || low != to {
		m.t.Errorf("delete records to %d: %d %v", to, low, err)
	}
}

// lookup compares lookups by time and by offset with what a reader of the whole log sees.
func (m *cleanModel) lookup() {
	all := everything(m.t, m.p, ReadUncommitted)
	stamp := m.ms - m.rng.Int64N(100)
	want := int64(-1)
	for _, r := range all {
		if r.ms >= stamp && !r.control {
			want = r.offset
			break
		}
	}
	got, ok, err := m.p.OffsetForTimestamp(context.Background(), stamp, ReadUncommitted)
	if !ok {
		got.Offset = -1
	}
	marker := slices.ContainsFunc(all, func(r kept) bool { return r.control && r.offset == got.Offset && r.ms >= stamp })
	if err != nil || got.Offset != want && !marker {
		m.t.Errorf("lookup of %d: offset %d, want %d, %v", stamp, got.Offset, want, err)
	}
	if len(all) == 0 {
		return
	}
	from := m.rng.IntN(len(all)) // a read from any offset begins with the first record that is there
	s, err := m.p.Read(all[from].offset, 1, true, ReadUncommitted)
	if err != nil || s.Len == 0 {
		m.t.Fatalf("read at %d: %d bytes, %v", all[from].offset, s.Len, err)
	}
	if v, _, err := batch.Next(content(m.t, &s)); err != nil || v.BaseOffset() > all[from].offset || v.LastOffset() < all[from].offset {
		m.t.Errorf("read at %d: %v", all[from].offset, err)
	}
	s.Release()
}

func (m *cleanModel) crash() {
	clone, err := m.fs.Clone(m.rng.IntN)
	if err != nil {
		m.t.Fatal(err)
	}
	m.h.kill()
	if err := m.fs.Close(); err != nil {
		m.t.Error(err)
	}
	m.fs, m.h.o.FS = clone, clone
	m.h.open()
	m.ensure()
}

// check reads as a read_committed consumer does.
func (m *cleanModel) check(when string) {
	m.t.Helper()
	end := m.p.LastStableOffset()
	aborted := abortedOf(m.t, m.p, 0, end)
	got := map[string]kept{}
	next := m.p.LogStartOffset()
	for next < end {
		s, err := m.p.Read(next, 1<<20, true, ReadCommitted)
		if err != nil || s.Len == 0 {
			m.t.Fatalf("%s: read at %d below %d: %d bytes, %v", when, next, end, s.Len, err)
		}
		for rest := s.Mem; len(rest) > 0; {
			v, after, _ := batch.Next(rest)
			if v.LastOffset() < next || v.Validate() != nil {
				m.t.Fatalf("%s: batch of %d to %d at %d", when, v.BaseOffset(), v.LastOffset(), next)
			}
			rest, next = after, v.LastOffset()+1
			if v.IsControl() || v.IsTransactional() && slices.ContainsFunc(aborted, func(a AbortedTxn) bool {
				return a.ProducerID == v.ProducerID() && a.FirstOffset <= v.BaseOffset() && a.LastOffset > v.LastOffset()
			}) {
				continue
			}
			it, err := v.Records(1 << 20)
			if err != nil {
				m.t.Fatal(err)
			}
			for it.Next() {
				r := it.Record()
				got[string(r.Key)] = kept{offset: r.Offset, key: string(r.Key), value: string(r.Value), null: r.Value == nil, ms: r.TimestampMs}
			}
			it.Close()
		}
		s.Release()
	}
	for key, want := range m.last {
		if want.offset < end && want.offset >= m.p.LogStartOffset() && got[key] != want {
			m.t.Errorf("%s: %s is %+v, want %+v", when, key, got[key], want)
		}
	}
	for who := range m.who {
		w := &m.who[who]
		if w.last == nil {
			continue
		}
		if r, err := m.p.Append(slices.Clone(w.last), AppendOptions{}); err != nil || !r.Duplicate || r.BaseOffset != w.lastAt {
			m.t.Errorf("%s: the last batch of producer %d at %d sent again: %+v %v", when, who, w.lastAt, r, err)
		}
	}
}

// TestCrashInCompaction takes clones before every file system operation of rounds of cleaning, and recovers each with
// several outcomes: of every key the newest value is there, nothing comes back, and the log goes on.
func TestCrashInCompaction(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	m := vfs.NewRecording()
	var armed atomic.Bool
	var mu sync.Mutex // guards rng, and lets one crash point be looked at at a time
	states, end := 0, int64(0)
	want := map[string]string{}
	hook := func(op vfs.Op) error {
		if !armed.Load() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !armed.Load() {
			return nil
		}
		for _, choose := range []func(int) int{nil, rng.IntN} {
			clone, err := m.Clone(choose)
			if err != nil {
				t.Error(err)
				return nil
			}
			states++
			checkCompactedClone(t, fmt.Sprintf("crash before %+v", op), clone, end, want)
		}
		return nil
	}
	if err := m.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Cleaner = []string{"/data"}, &vfs.Faulty{FS: m, Before: hook}, byHand
	})
	p := h.partition("c", compacted)
	now := h.s.nowMs()
	for round := range 2 {
		for n := range 12 {
			key, value := fmt.Sprint("k", n%5), fmt.Sprint(round, n, strings.Repeat("x", 60))
			put(t, p, keyed(batch.Compression(n%5), now, key+"="+value))
			want[key] = value
		}
		id := int64(round)
		r := put(t, p, transactional(id, "k0", "never"))
		if _, err := p.Append(batch.EndTxnMarker(nil, id, 0, false, 1, now), AppendOptions{Origin: OriginCoordinator}); err != nil {
			t.Fatal(err)
		}
		await(t, p, r.LastOffset+2)
		put(t, p, keyed(0, now, fmt.Sprint("fill", round, "=", strings.Repeat("f", 450))))
		want[fmt.Sprint("fill", round)] = strings.Repeat("f", 450)
		end = p.LogEndOffset()
		if err := p.writeOut(); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		if !cleanNow(t, p) {
			t.Fatal("nothing to clean")
		}
		mu.Lock() // the store's own goroutines may be at a crash point yet
		armed.Store(false)
		mu.Unlock()
	}
	t.Logf("%d states", states)
}

func transactional(id int64, key, value string) []byte {
	b := batch.Builder{HasProducer: true, ProducerID: id, Transactional: true}
	b.Append(time.Now().UnixMilli(), []byte(key), []byte(value))
	return build(&b)
}

func checkCompactedClone(t *testing.T, when string, clone *vfs.Mem, end int64, want map[string]string) {
	t.Helper()
	s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	c := DefaultConfig()
	compacted(&c)
	p, err := s.Ensure("c", topicID, 0, c)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	if p.LogEndOffset() != end || p.HighWatermark() != end {
		t.Errorf("%s: end %d, high watermark %d, want %d", when, p.LogEndOffset(), p.HighWatermark(), end)
	}
	m := &cleanModel{t: t, p: p, last: map[string]kept{}}
	m.check(when)
	got := map[string]string{}
	for _, r := range everything(t, p, ReadCommitted) {
		if !r.control && r.value != "never" {
			got[r.key] = r.value
		}
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s is %q, want %q", when, key, got[key], value)
		}
	}
	entries, err := clone.List("/data/c-0")
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, layout.CleanedSuffix) || strings.HasSuffix(e.Name, layout.SwapSuffix) {
			t.Errorf("%s: %s is left", when, e.Name)
		}
	}
	put(t, p, keyed(0, time.Now().UnixMilli(), "next=1"))
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	if err := clone.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadersInsideSwaps: readers go over the log, some holding on to what they have, while it is compacted and appended to.
// None fails, none skips a record that is the newest of its key, and what a reader holds stays as it was.
func TestReadersInsideSwaps(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory)
	p := h.partition("c", compacted)
	now := h.s.nowMs()
	put(t, p, keyed(0, now, "k0=0"))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var pinned []Slice
			var copies [][]byte
			for {
				select {
				case <-stop:
					for i := range pinned {
						if !slices.Equal(pinned[i].Mem, copies[i]) {
							t.Error("bytes changed below a reader")
						}
						pinned[i].Release()
					}
					return
				default:
				}
				next := int64(0)
				for end := p.HighWatermark(); next < end; {
					s, err := p.Read(next, 300, true, ReadUncommitted)
					if err != nil || s.Len == 0 {
						t.Errorf("read at %d below %d: %d bytes, %v", next, end, s.Len, err)
						return
					}
					for rest := s.Mem; len(rest) > 0; {
						v, after, err := batch.Next(rest)
						if err != nil || v.Validate() != nil || v.LastOffset() < next {
							t.Errorf("at %d: %v", next, err)
							return
						}
						rest, next = after, v.LastOffset()+1
					}
					if len(pinned) < 20 {
						pinned, copies = append(pinned, s), append(copies, slices.Clone(s.Mem))
					} else {
						s.Release()
					}
				}
			}
		})
	}
	for n := range 200 {
		put(t, p, keyed(batch.Compression(n%5), now, fmt.Sprintf("k%d=%d %s", n%7, n, strings.Repeat("x", 80))))
		if n%10 == 9 {
			cleanNow(t, p)
		}
	}
	close(stop)
	readers.Wait()
	if got := everything(t, p, ReadUncommitted); len(got) > 7+20 {
		t.Errorf("%d records are left of 200 with 7 keys", len(got))
	}
}

// TestCleanerThreads: threads of their own clean what is dirty enough, and nothing else, throttled, until the store stops.
func TestCleanerThreads(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory, func(o *Options) {
		o.Cleaner = CleanerOptions{Threads: 2, BackoffMs: 1, IOMaxBytesPerSecond: 10 << 20, DedupeBufferBytes: 1 << 16, IOBufferBytes: 8 << 10}
	})
	dirty, clean := h.partition("dirty", compacted), h.partition("clean", compacted, func(c *Config) { c.MinCleanableDirtyRatio = 1 })
	now := h.s.nowMs()
	for n := range 60 {
		for _, p := range []*Partition{dirty, clean} {
			put(t, p, keyed(batch.Zstd, now, fmt.Sprintf("k%d=%d %s", n%3, n, strings.Repeat("x", 300))))
		}
	}
	for tries := 0; len(everything(t, dirty, ReadUncommitted)) > 40; tries++ {
		if tries == 20_000 {
			t.Fatal("not cleaned")
		}
		put(t, dirty, keyed(0, now, "tick=t")) // the threads go on meanwhile
	}
	if got := len(everything(t, clean, ReadUncommitted)); got != 60 {
		t.Fatalf("%d records are left where the dirty ratio is never above 1", got)
	}
}
