package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

var topicID = [16]byte{1, 2, 3}

// logBuffer collects log lines; slog handlers are called from several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// harness is a store in a directory of its own that can be stopped, killed and started.
type harness struct {
	t    testing.TB
	o    Options
	s    *Store
	logs *logBuffer
}

func start(t testing.TB, change ...func(*Options)) *harness {
	t.Helper()
	logs := new(logBuffer)
	h := &harness{t: t, logs: logs, o: Options{JournalBytes: -1, ProbeIntervalMs: -1, Dirs: []string{t.TempDir()}, Logger: slog.New(slog.NewTextHandler(logs, nil))}}
	for _, c := range change {
		c(&h.o)
	}
	h.open()
	t.Cleanup(func() {
		if h.s != nil {
			h.stop()
		}
	})
	return h
}

func (h *harness) open() {
	h.t.Helper()
	s, err := Open(context.Background(), h.o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = s
}

func (h *harness) stop() {
	h.t.Helper()
	if err := h.s.Close(context.Background()); err != nil {
		h.t.Error(err)
	}
	h.s = nil
}

// kill leaves everything as it is: no checkpoint, no snapshot, no clean mark.
func (h *harness) kill() {
	h.t.Helper()
	s := h.s
	s.compactor.cancel()
	s.healer.Stop()
	s.compactor.wait()
	s.healer.Wait()
	s.mover.stop()
	s.mover.work.Wait()
	s.probes.Stop()
	s.probes.Wait()
	s.janitor.Stop()
	s.committer.Close()
	for _, d := range s.dirs {
		if err := d.journal.stop(false); err != nil {
			h.t.Error(err)
		}
	}
	for _, p := range s.All() {
		p.close()
	}
	s.segments.StopAhead()
	s.janitor.Doomed.Release(1 << 62)
	s.segments.Bury()
	if err := s.unlock(); err != nil {
		h.t.Error(err)
	}
	h.s = nil
}

// smallJournal is the size of a half that wraps after a few blocks.
const smallJournal = 32 << 10

// makeJournals has the commit journal of every directory made, by a commit there.
func (h *harness) makeJournals() {
	h.t.Helper()
	for i := range h.s.dirs {
		put(h.t, h.partition(fmt.Sprint("warm", i)), records("x"))
	}
	for _, d := range h.s.dirs {
		awaitWriteBack(h.t, d.journal)
		if d.journal.state != journalReady {
			h.t.Fatalf("no journal in %s: %d", d.path, d.journal.state)
		}
	}
}

func (h *harness) restart() { h.t.Helper(); h.stop(); h.open() }
func (h *harness) crash()   { h.t.Helper(); h.kill(); h.open() }

func (h *harness) partition(topic string, change ...func(*Config)) *Partition {
	h.t.Helper()
	c := DefaultConfig()
	for _, f := range change {
		f(&c)
	}
	p, err := h.s.Ensure(topic, topicID, 0, c)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// records makes one batch of values.
func records(values ...string) []byte { return stamped(1000, values...) }

func stamped(ms int64, values ...string) []byte {
	var b batch.Builder
	for _, v := range values {
		b.Append(ms, nil, []byte(v))
	}
	return build(&b)
}

func produced(id int64, epoch int16, sequence int32, transactional bool, values ...string) []byte {
	b := batch.Builder{HasProducer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence, Transactional: transactional}
	for _, v := range values {
		b.Append(1000, nil, []byte(v))
	}
	return build(&b)
}

func build(b *batch.Builder) []byte {
	out, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return out
}

func put(t testing.TB, p *Partition, b []byte) AppendResult {
	t.Helper()
	r, err := p.Append(b, AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, p, r.LastOffset+1)
	return r
}

// eventually asks until there is no error: what the janitor has taken off its lists it gives back in its own time.
func eventually(t testing.TB, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for polls := 0; ; polls++ { // which count, too: a machine that stood still has not waited
		err := ask()
		if err == nil {
			return
		}
		if polls > 2000 && time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func await(t testing.TB, p *Partition, offset int64) {
	t.Helper()
	if err := awaitErr(p, offset); err != nil {
		t.Fatal(err)
	}
}

func awaitErr(p *Partition, offset int64) error {
	done := make(chan error, 1)
	p.WhenCommitted(&Waiter{Offset: offset, Done: func(_ *Waiter, err error) { done <- err }})
	return <-done
}

// content copies the bytes of a slice; what is not durable is not mapped.
func content(t testing.TB, s *Slice) []byte {
	t.Helper()
	if s.Mem != nil {
		return bytes.Clone(s.Mem)
	}
	b := make([]byte, s.Len)
	if s.Len > 0 {
		if _, err := (&osRead{s.FD}).ReadAt(b, s.Offset); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// values reads everything from offset on.
func values(t testing.TB, p *Partition, offset int64, iso Isolation) []string {
	t.Helper()
	var out []string
	for {
		s, err := p.Read(offset, 1<<20, true, iso)
		if err != nil {
			t.Fatal(err)
		}
		if s.Len == 0 {
			return out
		}
		for rest := content(t, &s); len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Validate(); err != nil {
				t.Fatal(err)
			}
			rest = after
			it, err := v.Records(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				if r := it.Record(); r.Offset >= offset && !v.IsControl() {
					out = append(out, string(r.Value))
				}
			}
			it.Close()
			offset = v.LastOffset() + 1
		}
		s.Release()
	}
}

func expect(t testing.TB, p *Partition, want ...string) {
	t.Helper()
	got := values(t, p, p.LogStartOffset(), ReadUncommitted)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s-%d holds %v, want %v", p.topic, p.id, got, want)
	}
}

func TestAppendCommitReadRestart(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a")
	for i := range 10 {
		if r := put(t, p, records(fmt.Sprint(2*i), fmt.Sprint(2*i+1))); r.BaseOffset != int64(2*i) || r.LastOffset != int64(2*i+1) {
			t.Fatalf("append %d: %+v", i, r)
		}
	}
	want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"}
	expect(t, p, want...)
	for name, again := range map[string]func(){"clean stop": h.restart, "kill": h.crash} {
		before := h.s.counters.RecoveredBytes.Load()
		again()
		p = h.partition("a")
		if p.LogEndOffset() != 20 || p.HighWatermark() != 20 || p.LastStableOffset() != 20 {
			t.Fatalf("%s: end %d, high watermark %d, stable %d", name, p.LogEndOffset(), p.HighWatermark(), p.LastStableOffset())
		}
		expect(t, p, want...)
		_ = before
	}
	h.restart()
	if n := h.s.counters.RecoveredBytes.Load(); n != 0 {
		t.Fatalf("a clean stop, and %d bytes were scanned", n)
	}
}

func TestTornTailsAreCut(t *testing.T) {
	t.Parallel()
	h := start(t)
	wrong := records("torn")
	wrong[len(wrong)-1] ^= 0xff
	large := records(strings.Repeat("x", 200<<10))
	interrupted := append(bytes.Clone(large[:100<<10]), make([]byte, 150<<10)...)
	rotten := bytes.Clone(large)
	rotten[len(rotten)-1] ^= 0xff
	tails := map[string]struct {
		bytes      []byte
		unfinished bool // the log says so, and does not warn
	}{
		"half":        {records(strings.Repeat("x", 200))[:90], true},
		"length":      {records("torn")[:12], true},
		"zeroes":      {make([]byte, 1<<20), true}, // more than a broker has behind the end of a log that it serves
		"interrupted": {interrupted, true},         // zeros, then a part of the batch over them
		"crc":         {wrong, false},
		"rotten":      {rotten, false},
		"followed":    {append(bytes.Clone(wrong), records("behind it")...), false},
		"none":        {nil, false},
		"text":        {[]byte(strings.Repeat("no batch at all ", 20)), false},
	}
	for name := range tails {
		p := h.partition(name)
		for i := range 5 {
			put(t, p, records(fmt.Sprint("good-", i)))
		}
	}
	h.kill()
	for name, tail := range tails {
		f, err := os.OpenFile(filepath.Join(h.o.Dirs[0], name+"-0", "00000000000000000000.log"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		v := batch.View(bytes.Clone(tail.bytes))
		if len(v) > 8 && name != "zeroes" && name != "text" {
			v.SetBaseOffset(5)
		}
		if _, err := f.Write(v); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h.open()
	for name, tail := range tails {
		p := h.partition(name)
		if p.LogEndOffset() != 5 {
			t.Fatalf("%s: end is %d", name, p.LogEndOffset())
		}
		if r := put(t, p, records("after")); r.BaseOffset != 5 {
			t.Fatalf("%s: %+v", name, r)
		}
		expect(t, p, "good-0", "good-1", "good-2", "good-3", "good-4", "after")
		if len(tail.bytes) == 0 {
			continue
		}
		want := `level=WARN msg="log tail cut"`
		if tail.unfinished {
			want = `level=INFO msg="unfinished append cut, nobody was told that it is durable"`
		}
		want += " file=" + filepath.Join(h.o.Dirs[0], name+"-0", "00000000000000000000.log") + " bytes=" + fmt.Sprint(len(tail.bytes))
		if !strings.Contains(h.logs.String(), want) {
			t.Fatalf("%s: no line says what was cut, and how much:\n%s", name, h.logs)
		}
	}
}

func TestIdempotenceAcrossRestarts(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a")
	send := func(sequence int32) (AppendResult, error) {
		return p.Append(produced(7, 0, sequence, false, "x", "y"), AppendOptions{})
	}
	for i := int32(0); i < 12; i += 2 {
		if r, err := send(i); err != nil || r.BaseOffset != int64(i) || r.Duplicate {
			t.Fatalf("sequence %d: %+v %v", i, r, err)
		}
	}
	if r, err := send(4); err != nil || r.BaseOffset != 4 || r.LastOffset != 5 || !r.Duplicate {
		t.Fatalf("a duplicate in the window: %+v %v", r, err)
	}
	if _, err := send(20); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Fatalf("a gap: %v", err)
	}
	if _, err := p.Append(produced(9, 3, 1000, false, "z"), AppendOptions{}); err != nil {
		t.Fatalf("an unknown producer may begin anywhere: %v", err)
	}
	if _, err := p.Append(produced(9, 2, 1001, false, "z"), AppendOptions{}); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Fatalf("an old epoch: %v", err)
	}
	await(t, p, 13)
	for name, again := range map[string]func(){"clean stop": h.restart, "kill": h.crash, "kill again": h.crash} {
		again()
		p = h.partition("a")
		for _, sequence := range []int32{2, 4, 6, 8, 10} { // all that a client may have under way; Kafka knows the last one only
			if r, err := send(sequence); err != nil || !r.Duplicate || r.BaseOffset != int64(sequence) {
				t.Fatalf("%s: batch %d of the window again: %+v %v", name, sequence, r, err)
			}
		}
		if _, err := send(0); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Fatalf("%s: a batch before the window: %v", name, err)
		}
		if _, err := send(30); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Fatalf("%s: a gap: %v", name, err)
		}
		if p.LogEndOffset() != 13 {
			t.Fatalf("%s: end %d", name, p.LogEndOffset())
		}
	}
}

func TestSequenceWrapsInTheLog(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a")
	for _, sequence := range []int32{1<<31 - 2, 0, 2} {
		if _, err := p.Append(produced(7, 0, sequence, false, "x", "y"), AppendOptions{}); err != nil {
			t.Fatalf("sequence %d: %v", sequence, err)
		}
	}
	if r, err := p.Append(produced(7, 0, 1<<31-2, false, "x", "y"), AppendOptions{}); err != nil || !r.Duplicate || r.BaseOffset != 0 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestBadBatches(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a", func(c *Config) { c.MaxMessageBytes = 1000 })
	now := h.s.nowMs()
	change := func(f func(v batch.View)) []byte {
		v := batch.View(stamped(now, "a", "b"))
		f(v)
		v.SetBaseOffset(v.BaseOffset())
		return v
	}
	old := records("x")
	old[16] = 1
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":       {nil, ErrInvalidRecord},
		"flipped":       {change(func(v batch.View) { v[70] ^= 4 }), ErrCorruptMessage},
		"short":         {records("x")[:65], ErrCorruptMessage},
		"magic 1":       {old, ErrUnsupportedMagic},
		"too large":     {records(strings.Repeat("x", 1000)), ErrMessageTooLarge},
		"two batches":   {append(records("x"), records("y")...), ErrInvalidRecord},
		"base offset":   {change(func(v batch.View) { v.SetBaseOffset(5) }), ErrInvalidRecord},
		"future":        {stamped(now+3_700_000, "x"), ErrInvalidTimestamp},
		"control":       {batch.EndTxnMarker(nil, 1, 0, true, 0, now), ErrInvalidRecord},
		"no sequence":   {produced(1, 0, -1, false, "x"), ErrInvalidRecord},
		"count":         {recount(stamped(now, "a", "b"), 3), ErrInvalidRecord},
		"codec 5":       {recode(stamped(now, "a"), 5), ErrUnsupportedCompression},
		"codec 7":       {recode(stamped(now, "a"), 7), ErrUnsupportedCompression},
		"zero records":  {recount(stamped(now, "a"), 0), ErrInvalidRecord},
		"only a header": {records("x")[:61], ErrCorruptMessage},
	} {
		_, err := p.Append(c.b, AppendOptions{})
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), "a-0") {
			t.Errorf("%s: %v, want %v with the partition's name", name, err, c.want)
		}
	}
	if p.LogEndOffset() != 0 || p.SizeBytes() != 0 {
		t.Fatalf("end %d, %d bytes", p.LogEndOffset(), p.SizeBytes())
	}
	if r := put(t, p, records("good")); r.BaseOffset != 0 {
		t.Fatalf("%+v", r)
	}
}

func put32(b []byte, v int32) { binary.BigEndian.PutUint32(b, uint32(v)) }

func recount(b []byte, n int32) []byte { put32(b[57:], n); return fixCRC(b) }

func recode(b []byte, codec byte) []byte { b[22] |= codec; return fixCRC(b) }

// A transactional batch without a producer is in no transaction: Kafka appends it, and
// it holds nothing back.
func TestTransactionalWithoutProducer(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("topic")
	b := batch.Builder{Transactional: true}
	b.Append(1000, nil, []byte("x"))
	result, err := p.Append(build(&b), AppendOptions{Origin: OriginClient, Verify: true})
	if err != nil || result.BaseOffset != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	await(t, p, 1)
	if producers := p.Producers(); len(producers) != 0 || p.LastStableOffset() != p.LogEndOffset() {
		t.Errorf("%+v, stable %d of %d", producers, p.LastStableOffset(), p.LogEndOffset())
	}
}

func TestSecondBrokerIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, err := Open(context.Background(), h.o)
	var locked *vfs.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("%v", err)
	}
}

// A missing permission is no second broker.
func TestDirectoryThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Dirs: []string{file}, BrokerID: 1})
	if err == nil || !strings.Contains(err.Error(), file+" can't be used") || strings.Contains(err.Error(), "in use") {
		t.Fatalf("%v", err)
	}
}

func TestForeignFilesStay(t *testing.T) {
	t.Parallel()
	h := start(t)
	put(t, h.partition("a"), records("mine"))
	h.stop()
	dir := h.o.Dirs[0]
	for _, name := range []string{"lost+found", "old copy of topic"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "#123"), []byte("orphan"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.txt"), []byte("do not delete"), 0o644); err != nil {
		t.Fatal(err)
	}
	inside := []string{ // directories with names of files that a start removes, or takes for its own
		"a-0/backup.tmp", "a-0/00000000000000000007.log", "a-0/00000000000000000003.index.5.deleted", "a-0/00000000000000000000.log.swap",
		"a-0/00000000000000000004.index.swap", "a-0/00000000000000000000.log.cleaned", "a-0/00000000000000000009.snapshot",
		"a-0/00000000000000000001.5.log",
	}
	for _, name := range inside {
		if err := os.MkdirAll(filepath.Join(dir, name, "kept"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.open()
	expect(t, h.partition("a"), "mine")
	for _, name := range append([]string{"lost+found", "old copy of topic", "README.txt"}, inside...) {
		if n := strings.Count(h.logs.String(), name); n != 1 {
			t.Errorf("%s is named %d times in:\n%s", name, n, h.logs)
		}
	}
	h.crash()
	expect(t, h.partition("a"), "mine")
	h.stop()
	for _, name := range inside {
		if _, err := os.Stat(filepath.Join(dir, name, "kept")); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"lost+found/#123", "old copy of topic/#123", "README.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestProducerIDsAreNeverReused(t *testing.T) {
	t.Parallel()
	h := start(t)
	seen := map[int64]bool{}
	for range 4 {
		for range 600 {
			id, err := h.s.NextProducerID()
			if err != nil || seen[id] {
				t.Fatalf("%d %v", id, err)
			}
			seen[id] = true
		}
		h.crash()
	}
}

// fixCRC sums a batch up after a test changed it.
func fixCRC(b []byte) []byte {
	put32(b[17:], int32(crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))))
	return b
}

// s0 is the file system under a stopped store.
func (h *harness) s0() vfs.FS {
	if h.o.FS != nil {
		return h.o.FS
	}
	return vfs.OS
}
