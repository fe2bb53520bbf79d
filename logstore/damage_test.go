package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// claiming lets a batch say that it has count records.
func claiming(count int32, b []byte) []byte {
	binary.BigEndian.PutUint32(b[23:], uint32(count-1))
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	return fixCRC(b)
}

// TestRecordCountsThatDoNotFit: a batch that claims more records than its bytes can hold would move the log end by them.
// Kafka answers INVALID_RECORD (e2e, TestLogAsKafkas).
func TestRecordCountsThatDoNotFit(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory)
	p := h.partition("t")
	two := func(codec batch.Compression, value string) []byte {
		b := batch.Builder{Compression: codec}
		b.Append(1000, nil, []byte(value))
		b.Append(1000, nil, []byte(value))
		return build(&b)
	}
	refused := func(what string, b []byte) {
		t.Helper()
		if r, err := p.Append(b, AppendOptions{}); !errors.Is(err, ErrInvalidRecord) {
			t.Errorf("%s: %+v %v", what, r, err)
		}
		if p.LogEndOffset() != 0 {
			t.Fatalf("%s: the log ends at %d", what, p.LogEndOffset())
		}
	}
	for codec := range batch.Zstd + 1 {
		for _, count := range []int32{1 << 30, 1<<31 - 1, 1 << 20, 1000} {
			refused(fmt.Sprintf("codec %d, %d records claimed", codec, count), claiming(count, two(codec, "v")))
		}
	}
	refused("three records claimed of two", claiming(3, two(0, "")))
	for _, count := range []int32{1, 3, 5, 10} {
		refused(fmt.Sprint(count, " records claimed of two that have the bytes of more"), claiming(count, two(0, strings.Repeat("v", 200))))
	}
	for what, change := range map[string]func(b []byte) []byte{
		"bytes that are no records": func(b []byte) []byte { copy(b[batch.HeaderBytes:], bytes.Repeat([]byte{0x55, 0xaa}, 25)); return b },
		"a byte behind the records": func(b []byte) []byte { return append(b, 0) },
		"a record cut short":        func(b []byte) []byte { return b[:len(b)-1] },
		"a record without fields":   func(b []byte) []byte { return append(b, 4, 0, 0) },
		"a length without an end":   func(b []byte) []byte { return append(b, 0xff) },
	} {
		b := change(two(0, strings.Repeat("v", 200)))
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batch.LogOverheadBytes))
		refused(what, fixCRC(b))
	}
	mostPacked := []byte(strings.Repeat("\x00", 16<<20))
	refused("too many to be counted", claiming(5<<20, two(batch.Zstd, string(mostPacked))))

	honest := batch.Builder{Compression: batch.Zstd}
	const many = 50_000
	for range many {
		honest.Append(1000, nil, nil)
	}
	if r := put(t, p, build(&honest)); r.LastOffset != many-1 {
		t.Fatalf("an honest batch: %+v", r)
	}
	if h.s.counters.CountCheckBatches.Load() == 0 {
		t.Error("nothing was counted: the batch is packed so well that it has to be")
	}
	before := h.s.counters.CountCheckBatches.Load()
	for codec := range batch.Zstd + 1 {
		put(t, p, two(codec, "an ordinary value"))
	}
	if n := h.s.counters.CountCheckBatches.Load() - before; n != 0 {
		t.Errorf("%d ordinary batches were decoded", n)
	}
}

// TestGarbageDoesNotFailLookups: records are opaque, so a batch may hold anything. Nobody gets a record of it, and lookups
// by time find those of the others.
func TestGarbageDoesNotFailLookups(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory)
	p := h.partition("t")
	garbage := func(codec batch.Compression, ms int64) []byte {
		b := stamped(ms, strings.Repeat("x", 50))
		garbage := b[batch.HeaderBytes:]
		if codec == batch.None { // the lengths are looked at
			garbage = garbage[1:]
		}
		copy(garbage, bytes.Repeat([]byte{0x55, 0xaa}, 25))
		b[22] = byte(codec)
		return fixCRC(b)
	}
	put(t, p, stamped(1000, "a"))
	for codec := range batch.Zstd + 1 {
		put(t, p, garbage(codec, 2000+int64(codec)))
	}
	want := put(t, p, stamped(1500, "b")).BaseOffset
	last := put(t, p, stamped(1800, "c")).BaseOffset
	put(t, p, garbage(0, 9000))
	ctx := context.Background()
	for _, tc := range []struct{ ms, offset int64 }{{900, 0}, {1001, want}, {1600, last}, {2001, -1}, {9000, -1}} {
		got, ok, err := p.OffsetForTimestamp(ctx, tc.ms, ReadUncommitted)
		if !ok {
			got.Offset = -1
		}
		if err != nil || got.Offset != tc.offset {
			t.Errorf("lookup of %d: offset %d, want %d, %v", tc.ms, got.Offset, tc.offset, err)
		}
	}
	if got, ok, err := p.MaxTimestamp(ctx, ReadUncommitted); err != nil || !ok || got.Offset != last || got.TimestampMs != 1800 {
		t.Errorf("largest timestamp: %+v %v %v, want that of offset %d", got, ok, err, last)
	}
	if h.s.counters.UndecodableBatches.Load() == 0 {
		t.Error("the counter of undecodable batches did not move")
	}
}

// TestHeaderThatLiesAboutTime: the largest timestamp is that of a record, whatever a header says.
func TestHeaderThatLiesAboutTime(t *testing.T) {
	t.Parallel()
	p := start(t, inMemory).partition("t")
	want := put(t, p, stamped(5000, "a")).BaseOffset
	lie := stamped(1000, "b")
	binary.BigEndian.PutUint64(lie[35:], 9000)
	put(t, p, fixCRC(lie))
	if got, ok, err := p.MaxTimestamp(context.Background(), ReadUncommitted); err != nil || !ok || got.Offset != want || got.TimestampMs != 5000 {
		t.Errorf("%+v %v %v", got, ok, err)
	}
}

// TestDamagedProducerIDs: whatever becomes of the file, an id that was given out is not given out again, and the broker
// starts.
func TestDamagedProducerIDs(t *testing.T) {
	t.Parallel()
	fresh := start(t, inMemory)
	if id, err := fresh.s.NextProducerID(); id != 0 || err != nil {
		t.Fatalf("the first id is %d, %v", id, err)
	}
	for name, content := range map[string]string{
		"a digit is missing": "0\n300", "whole lines, no end": "0\n3000", "zeroes": string(make([]byte, 7)), "empty": "",
		"garbage": "x", "only the version": "0\n", "negative": "0\n-5\n", "another version": "1\n3000\n", "missing": "-",
	} {
		h := start(t)
		put(t, h.partition("t"), records("x"))
		highest := int64(-1)
		for range 2500 {
			id, err := h.s.NextProducerID()
			if err != nil || id <= highest {
				t.Fatalf("%s: %d after %d, %v", name, id, highest, err)
			}
			highest = id
		}
		h.kill()
		file := filepath.Join(h.o.Dirs[0], checkpoint.ProducerIDsName)
		err := vfs.WriteFileAtomic(h.s0(), file, h.o.Dirs[0], []byte(content))
		if content == "-" {
			err = h.s0().Remove(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			h.open()
			id, err := h.s.NextProducerID()
			if err != nil || id <= highest {
				t.Errorf("%s: %d after %d, %v", name, id, highest, err)
			}
			highest = id
			h.kill()
		}
		h.open()
	}
}

// TestDamagedPartitionMetadata: only the topic id is lost, and whoever asks for the partition knows it.
func TestDamagedPartitionMetadata(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "zeroes": string(make([]byte, 40)), "another text": "version: 0\ntopic_id: short\n"} {
		h := start(t)
		put(t, h.partition("t"), records("x"))
		put(t, h.partition("other"), records("y"))
		dir := h.partition("t").path()
		h.stop()
		if err := vfs.WriteFileAtomic(h.s0(), filepath.Join(dir, checkpoint.MetadataName), dir, []byte(content)); err != nil {
			t.Fatal(err)
		}
		h.open()
		expect(t, h.partition("t"), "x")
		expect(t, h.partition("other"), "y")
		if id, err := checkpoint.ReadPartitionMetadata(h.s0(), dir); err != nil || id != topicID {
			t.Errorf("%s: the file says %v, %v", name, id, err)
		}
		h.crash()
		if p := h.s.Get("t", 0); p == nil || p.TopicID() != topicID {
			t.Errorf("%s: after another start", name)
		}
	}
}

// TestTxnIndexLostOnAFullDisk: the entries come back from the log, and the partition serves although they can't be written;
// they are, before anything lets a recovery begin behind them.
func TestTxnIndexLostOnAFullDisk(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	var full atomic.Bool
	fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		if full.Load() && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpCreate) {
			return unix.ENOSPC
		}
		return nil
	}}
	for name, damage := range map[string]func(file string) error{
		"missing": m.Remove,
		"the last entry is missing": func(file string) error {
			f, err := m.OpenFile(file, 0)
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(34), f.Close())
		},
		"zeroes": func(file string) error { return vfs.WriteFileAtomic(m, file, "/data", make([]byte, 68)) },
	} {
		h := start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, fsys, byHand })
		topic := strings.ReplaceAll(name, " ", "-")
		p := h.partition(topic)
		for i := range int64(3) {
			put(t, p, produced(i, 0, 0, true, fmt.Sprint(i)))
			if i > 0 {
				endTxn(t, p, i, 0, false)
			}
		}
		want := fmt.Sprint(abortedOf(t, p, 0, 100))
		file := layout.SegmentFile(p.path(), 0, layout.TxnIndexSuffix)
		h.kill()
		if err := damage(file); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		check := func(when string) {
			t.Helper()
			p = h.partition(topic)
			if got := fmt.Sprint(abortedOf(t, p, 0, 100)); got != want {
				t.Fatalf("%s, %s: aborted %s, want %s", name, when, got, want)
			}
		}
		h.open()
		check("on the full disk")
		h.s.checkpoint()
		h.crash()
		check("after a second start on the full disk")
		full.Store(false)
		endTxn(t, p, 0, 0, false) // behind those that are not in the file
		want = fmt.Sprint(abortedOf(t, p, 0, 100))
		h.restart()
		check("after a clean stop with room")
		h.crash()
		check("after a kill")
		if st, err := m.Stat(file); err != nil || st.SizeBytes != 3*34 {
			t.Errorf("%s: %d bytes in the file, %v", name, st.SizeBytes, err)
		}
		h.stop()
	}
}

// TestReadBeyondTheDurableEnd: what a commit has not covered may be cut off under a reader, so it is never handed out as
// mapped memory, whose end would raise SIGBUS.
func TestReadBeyondTheDurableEnd(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	hold := make(chan struct{})
	fsys := &vfs.Faulty{FS: vfs.OS, Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpDatasync {
			<-hold
			return unix.EIO
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.FS, o.ReopenIntervalMs = fsys, 1 })
	p := h.partition("t")
	big := strings.Repeat("x", 20_000)
	put(t, p, records(big))
	s, err := p.Read(0, 1<<20, true, ReadLogEnd)
	if err != nil || s.Mem == nil {
		t.Fatalf("durable bytes are mapped: %v", err)
	}
	defer s.Release()
	failing.Store(true)
	if _, err := p.Append(records(big), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	tail, err := p.Read(1, 1<<20, true, ReadLogEnd)
	if err != nil || tail.Len < len(big) || tail.Mem != nil {
		t.Fatalf("%d bytes, mapped %v, %v", tail.Len, tail.Mem != nil, err)
	}
	defer tail.Release()
	close(hold)
	if err := awaitErr(p, 2); !errors.Is(err, ErrStorage) {
		t.Fatal(err)
	}
	failing.Store(false)
	for r, err := p.Append(records("again"), AppendOptions{}); ; r, err = p.Append(records("again"), AppendOptions{}) {
		if err == nil && r.BaseOffset == 1 && awaitErr(p, 2) == nil {
			break
		}
		if err != nil && !errors.Is(err, ErrStorage) {
			t.Fatal(err)
		}
	}
	b := make([]byte, tail.Len)
	if n, err := (&osRead{tail.FD}).ReadAt(b, tail.Offset); err == nil && n == tail.Len {
		t.Error("the cut bytes are still there: the test proves nothing")
	}
	if v, _, err := batch.Next(s.Mem); err != nil || v.Validate() != nil {
		t.Errorf("the durable part: %v", err)
	}
}

// TestSnapshotsOfEarlierStopsGo: as in Kafka, those of segments stay, and of the others the newest.
func TestSnapshotsOfEarlierStopsGo(t *testing.T) {
	t.Parallel()
	h := start(t)
	small := func(c *Config) { c.SegmentBytes = 400 }
	p := h.partition("t", small)
	for i := range 14 {
		put(t, p, produced(7, 0, int32(i), false, fmt.Sprint(i)))
		if i%3 == 2 {
			h.restart()
			p = h.partition("t", small)
		}
	}
	h.restart()
	p = h.partition("t", small)
	bases := map[int64]bool{}
	for _, g := range p.segments.Load().all {
		bases[g.BaseOffset] = true
	}
	entries, err := h.s0().List(p.path())
	if err != nil {
		t.Fatal(err)
	}
	var strays []int64
	for _, e := range entries {
		if at, suffix, ok := layout.ParseSegmentFile(e.Name); ok && suffix == layout.SnapshotSuffix && !bases[at] {
			strays = append(strays, at)
		}
	}
	if !slices.Equal(strays, []int64{14}) {
		t.Fatalf("snapshots that belong to no segment: %v, segments %v", strays, bases)
	}
	if r, err := p.Append(produced(7, 0, 13, false, "13"), AppendOptions{}); err != nil || !r.Duplicate {
		t.Fatalf("%+v %v", r, err)
	}
}

// TestTimestampsOfCutRecordsAreForgotten: the largest timestamp after a recovery is that of a record which is there.
func TestTimestampsOfCutRecordsAreForgotten(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("t", func(c *Config) { c.IndexIntervalBytes = 1 })
	put(t, p, stamped(3000, "a"))
	put(t, p, stamped(2000, "b"))
	h.s.checkpoint()
	put(t, p, stamped(9000, "c"))
	put(t, p, stamped(9500, "d"))
	file := layout.SegmentFile(p.path(), 0, layout.LogSuffix)
	h.kill()
	st, err := h.s0().Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := h.s0().OpenFile(file, 0)
	if err == nil {
		err = errors.Join(f.Truncate(st.SizeBytes-int64(len(stamped(1, "d")))-1), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []func(){h.open, h.restart, h.crash} {
		again()
		p = h.partition("t")
		got, ok, err := p.MaxTimestamp(context.Background(), ReadUncommitted)
		if err != nil || !ok || got.Offset != 0 || got.TimestampMs != 3000 {
			t.Fatalf("%+v %v %v", got, ok, err)
		}
		if got, ok, err := p.OffsetForTimestamp(context.Background(), 3001, ReadUncommitted); err != nil || ok {
			t.Fatalf("%+v %v", got, err)
		}
	}
	put(t, p, stamped(4000, "e"))
	if got, _, err := p.MaxTimestamp(context.Background(), ReadUncommitted); err != nil || got.Offset != 2 {
		t.Fatalf("%+v %v", got, err)
	}
}

// TestStopIsParallel: partitions are finished side by side, so a stop waits for the slowest disk operation and not for the sum.
func TestStopIsParallel(t *testing.T) {
	t.Parallel()
	const partitions = 20
	var stopping atomic.Bool
	var inside, most atomic.Int32
	all := make(chan struct{})
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if !stopping.Load() || op.Kind != vfs.OpCreate || !strings.HasSuffix(op.Name, layout.SnapshotSuffix+layout.TemporarySuffix) {
			return nil
		}
		if n := inside.Add(1); n == partitions {
			close(all)
		}
		<-all // each waits for all the others: one after the other would never end
		most.Add(1)
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	for i := range partitions {
		put(t, h.partition(fmt.Sprint("t", i)), produced(7, 0, 0, false, "x"))
	}
	stopping.Store(true)
	h.stop()
	if most.Load() != partitions {
		t.Errorf("%d snapshots were written", most.Load())
	}
	stopping.Store(false)
	h.open()
	for i := range partitions {
		expect(t, h.partition(fmt.Sprint("t", i)), "x")
	}
	if n := h.s.counters.RecoveredBytes.Load(); n != 0 {
		t.Errorf("a clean stop, and %d bytes were scanned", n)
	}
}

// futureDirs counts copies that are not complete.
func futureDirs(t *testing.T, fsys vfs.FS, dirs ...string) (n int) {
	t.Helper()
	for _, d := range dirs {
		entries, err := fsys.List(d)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name, layout.FutureDirSuffix) {
				n++
			}
		}
	}
	return n
}

// TestMoveGoesOnAfterARestart: a move that a stop or a kill interrupts is begun again by the next start, at the rate of now.
func TestMoveGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	dirs := []string{"/a", "/b"}
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.MoveMaxBytesPerSecond = dirs, m, 1 })
	p := h.partition("t", func(c *Config) { c.SegmentBytes = 300 })
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(i))
		put(t, p, records(fmt.Sprint(i)))
	}
	to := map[string]string{"/a": "/b", "/b": "/a"}[p.Dir()]
	if err := h.s.MoveTo("t", 0, to); err != nil {
		t.Fatal(err)
	}
	for futureDirs(t, m, dirs...) == 0 { // made by the move's goroutine
		if dir, _, _ := p.Future(); dir == "" {
			t.Fatal("the move ended")
		}
	}
	for name, again := range map[string]func(){"stop": h.restart, "kill": h.crash} {
		again()
		p = h.partition("t")
		if dir, _, _ := p.Future(); dir != to || p.Dir() == to {
			t.Fatalf("after a %s it lies in %s and is moved to %q", name, p.Dir(), dir)
		}
		for futureDirs(t, m, dirs...) == 0 {
			if dir, _, _ := p.Future(); dir == "" {
				t.Fatal("the move ended")
			}
		}
	}
	h.s.SetMoveMaxBytesPerSecond(0)
	settled(p)
	if p.Dir() != to {
		t.Fatalf("it lies in %s", p.Dir())
	}
	expect(t, p, want...)
	h.crash()
	expect(t, h.partition("t"), want...)
	if n := futureDirs(t, m, dirs...); n != 0 {
		t.Errorf("%d copies are left", n)
	}
}

// TestCleanerConfigChangesWhileItRuns: a round that would take years at the old rate ends at the new one, and threads come
// and go.
func TestCleanerConfigChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	h := start(t, inMemory, func(o *Options) { o.Cleaner = CleanerOptions{BackoffMs: 1, IOMaxBytesPerSecond: 0.001} })
	p, clock := h.partition("c", compacted), h.partition("clock")
	for n := range 60 {
		put(t, p, keyed(batch.Zstd, h.s.nowMs(), fmt.Sprintf("k%d=%d %s", n%3, n, strings.Repeat("x", 300))))
	}
	for p.store.compactor.rounds(p) == 0 {
		put(t, clock, records("tick")) // the thread takes the log meanwhile
	}
	h.s.SetCleanerConfig(CleanerOptions{Threads: 3, BackoffMs: 1})
	for h.s.counters.CleanerRounds.Load() == 0 {
		put(t, clock, records("tick"))
	}
	threads := func() int {
		h.s.compactor.mu.Lock()
		defer h.s.compactor.mu.Unlock()
		return h.s.compactor.running
	}
	if n := threads(); n != 3 {
		t.Errorf("%d threads run, 3 are configured", n)
	}
	h.s.SetCleanerConfig(CleanerOptions{Threads: 1, BackoffMs: 1})
	for threads() != 1 {
		put(t, clock, records("tick"))
	}
	if o := h.s.CleanerConfig(); o.Threads != 1 || o.DedupeBufferBytes != 128<<20 {
		t.Errorf("%+v", o)
	}
}

// rounds is 1 while a round of p runs.
func (c *compactor) rounds(p *Partition) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.cleanState.cancel != nil {
		return 1
	}
	return 0
}

// TestSegmentsOfTerms: a directory that had leaders of several terms is read: the newest term's segments count, and what a
// deposed leader wrote behind their beginning is dead.
func TestSegmentsOfTerms(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("t", func(c *Config) { c.IndexIntervalBytes = 1 })
	for i := range 6 {
		put(t, p, records(fmt.Sprint(i)))
	}
	dir := p.path()
	h.kill()
	fsys := h.s0()
	read := func(name string) []byte {
		b, err := vfs.ReadFile(fsys, filepath.Join(dir, name), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	write := func(name string, b []byte) {
		if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, name), dir, b); err != nil {
			t.Fatal(err)
		}
	}
	const zero, four = "00000000000000000000", "00000000000000000004"
	log := read(zero + ".log")
	one := len(log) / 6
	later := slices.Clone(log[:2*one]) // what terms 5 and 7 wrote from offset 4 on
	for i, value := range []string{"x", "y"} {
		b := records(value)
		batch.View(b).SetBaseOffset(int64(4 + i))
		batch.View(b).SetPartitionLeaderEpoch(7)
		copy(later[i*one:], b)
	}
	if err := fsys.Remove(filepath.Join(dir, zero+".log")); err != nil {
		t.Fatal(err)
	}
	write(zero+".3.log", log)                      // a deposed leader went on to offset 6
	write(four+".5.log", bytes.Clone(later[:one])) // another one, which term 7 did not follow
	write(four+".7.log", later)
	for _, again := range []func(){h.open, h.restart, h.crash} {
		again()
		p = h.partition("t")
		expect(t, p, "0", "1", "2", "3", "x", "y")
		if p.LeaderEpoch() != 7 || p.LogEndOffset() != 6 {
			t.Fatalf("epoch %d, end %d", p.LeaderEpoch(), p.LogEndOffset())
		}
	}
	if r, err := p.Append(records("z"), AppendOptions{LeaderEpoch: 7}); err != nil || r.BaseOffset != 6 {
		t.Fatalf("%+v %v", r, err)
	}
	entries, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if base, term, _, ok := layout.ParseTermFile(e.Name); ok && (term != 0 || base != 0 && base != 4 && base != 6) {
			t.Errorf("%s is left", e.Name)
		}
	}
}

// TestSilentProducersAreForgotten: after producer.id.expiration.ms a producer is unknown, unless its transaction is open.
func TestSilentProducersAreForgotten(t *testing.T) {
	t.Parallel()
	clock, _, advance := movable()
	h := start(t, inMemory, clock, func(o *Options) { o.ProducerIDExpirationMs = 10_000 })
	p := h.partition("t", func(c *Config) { c.RetentionMs = -1 })
	put(t, p, produced(1, 0, 0, false, "silent"))
	put(t, p, produced(2, 0, 0, true, "open"))
	advance(6000)
	put(t, p, produced(3, 0, 0, false, "heard"))
	advance(6000)
	h.s.applyRetention()
	known := map[int64]bool{}
	for _, producer := range p.Producers() {
		known[producer.ID] = true
	}
	if known[1] || !known[2] || !known[3] {
		t.Fatalf("known: %v", known)
	}
	if p.LastStableOffset() != 1 {
		t.Errorf("stable offset %d", p.LastStableOffset())
	}
	if r, err := p.Append(produced(1, 0, 0, false, "again"), AppendOptions{}); err != nil || r.Duplicate {
		t.Errorf("a forgotten producer begins anew: %+v %v", r, err)
	}
}

// TestRecoveryIsParallel: num.recovery.threads.per.data.dir logs are recovered at the same time.
func TestRecoveryIsParallel(t *testing.T) {
	t.Parallel()
	const threads = 5
	var opening atomic.Bool
	var inside atomic.Int32
	all := make(chan struct{})
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if opening.Load() && op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, layout.LogSuffix) {
			if inside.Add(1) == threads {
				close(all)
			}
			<-all // each waits for the others
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.NumRecoveryThreadsPerDataDir = []string{"/data"}, fsys, threads })
	for i := range threads {
		put(t, h.partition(fmt.Sprint("t", i)), records("x"))
	}
	h.kill()
	opening.Store(true)
	h.open()
	opening.Store(false)
	for i := range threads {
		expect(t, h.partition(fmt.Sprint("t", i)), "x")
	}
}

// TestIndexMapsOutliveARecovery: a lookup in a segment as it was before a recovery in place goes on in the old index files,
// also when the new ones are shorter.
func TestIndexMapsOutliveARecovery(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	fsys := &vfs.Faulty{FS: vfs.OS, Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpDatasync {
			return unix.EIO
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.FS, o.ReopenIntervalMs = fsys, 1 })
	dense := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 150_000, 0 }
	p := h.partition("t", dense)
	for i := range 2500 { // the index of the first segment has more than a page of entries
		if _, err := p.Append(records(fmt.Sprint(i)), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, p, 2500)
	if err := p.writeOut(); err != nil {
		t.Fatal(err)
	}
	g := p.segments.Load().all[0]
	if !g.Acquire() {
		t.Fatal("the segment is gone")
	}
	defer g.Release()
	want, err := g.PositionBefore(1500)
	if err != nil || g.Writable() != nil || g.IndexBytes() < 2*4096 {
		t.Fatalf("not mapped: %v", err)
	}
	p.SetConfig(func() Config { c := p.Config(); c.IndexIntervalBytes = 100_000; return c }())
	p.recoveryPoint.Store(0) // all of it is scanned, and indexed sparsely
	failing.Store(true)
	if _, err := p.Append(records("lost"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := awaitErr(p, 2501); !errors.Is(err, ErrStorage) {
		t.Fatal(err)
	}
	failing.Store(false)
	for r, err := p.Append(records("again"), AppendOptions{}); ; r, err = p.Append(records("again"), AppendOptions{}) {
		if err == nil && awaitErr(p, r.LastOffset+1) == nil {
			break
		}
		if err != nil && !errors.Is(err, ErrStorage) {
			t.Fatal(err)
		}
	}
	if err := p.writeOut(); err != nil {
		t.Fatal(err)
	}
	if st, err := fsys.Stat(g.Path(layout.IndexSuffix)); err != nil || st.SizeBytes > 100 {
		t.Fatalf("the index was to become short: %d bytes, %v", st.SizeBytes, err)
	}
	if got, err := g.PositionBefore(1500); err != nil || got != want {
		t.Errorf("position %d, want %d, %v", got, want, err)
	}
}
