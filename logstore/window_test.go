package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/segment"
)

// eagerWindows let every log have a window from its first batch on, however small its segments are.
func eagerWindows() *segment.WindowRules {
	return &segment.WindowRules{Bytes: vfs.WindowPage, Eager: true}
}

// eagerPads let every log have zeros behind its end after whatever a system call writes, and no windows.
func eagerPads() *segment.WindowRules { return &segment.WindowRules{PadBytes: 256, PadEager: true} }

// mapped starts a store on a disk with room whose clock stands, so that every log gets small batches fast enough; it skips where
// the file system has no windows.
func mapped(t *testing.T, change ...func(*Options)) *harness {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.XFS_SUPER_MAGIC {
		t.Skipf("no windows on file systems of type %x", st.Type)
	}
	return start(t, append([]func(*Options){func(o *Options) {
		o.FS, o.Clock = roomy{vfs.OS}, func() time.Time { return time.UnixMilli(1_000_000) }
	}}, change...)...)
}

// relaxed lets commits not sync, so that a few batches are enough for a window.
func relaxed(c *Config) { c.FlushMessages = 1 << 62 }

func activeLog(p *Partition) string { return p.segments.Load().active().Path(".log") }

func fileSize(t testing.TB, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// fill appends numbered records and returns all that the log has then.
func fill(t testing.TB, p *Partition, from, n int) (values []string) {
	t.Helper()
	for i := range n {
		put(t, p, records(fmt.Sprint("value-", from+i)))
	}
	for i := range from + n {
		values = append(values, fmt.Sprint("value-", i))
	}
	return values
}

// TestMappedAppends: a log of many small batches is longer than it says while it is written to, and as long as it says when its
// segment is sealed, when it rests, and after a stop; what it holds can be read all the time, and nothing of it needs repair.
func TestMappedAppends(t *testing.T) {
	t.Parallel()
	h := mapped(t)
	p := h.partition("fast", relaxed, func(c *Config) { c.SegmentBytes = 200_000 })
	values := fill(t, p, 0, 100)
	first := activeLog(p)
	if size := p.SizeBytes(); fileSize(t, first) <= size || h.s.segments.AheadBytes() == 0 {
		t.Fatalf("the file has %d bytes, the log %d: nothing was mapped", fileSize(t, first), size)
	}
	expect(t, p, values...)
	large := strings.Repeat("x", 2*limits.WindowBytes) // over the end of the window
	put(t, p, records(large))
	put(t, p, records("behind"))
	expect(t, p, append(values, large, "behind")...)
	for activeLog(p) == first { // rolls
		put(t, p, records(strings.Repeat("y", 1000)))
	}
	fill(t, p, 0, 100)
	second := activeLog(p)
	atRest := func() bool { return fileSize(t, second) == p.segments.Load().active().SizeBytes.Load() }
	if atRest() {
		t.Error("nothing is mapped in the second segment")
	}
	h.s.giveBackAhead(false) // grew since the last time
	if atRest() {
		t.Error("a log that grows gave its window back")
	}
	h.s.giveBackAhead(false)
	if !atRest() || h.s.segments.AheadBytes() != 0 {
		t.Errorf("a log that rests has %d bytes in its file, %d of log, %d are held", fileSize(t, second), p.segments.Load().active().SizeBytes.Load(), h.s.segments.AheadBytes())
	}
	fill(t, p, 0, 100)
	if atRest() {
		t.Error("nothing is mapped after a rest")
	}
	size, end := p.segments.Load().active().SizeBytes.Load(), p.LogEndOffset()
	h.stop()
	if fileSize(t, second) != size {
		t.Errorf("the file has %d bytes after a stop, the log had %d", fileSize(t, second), size)
	}
	h.open()
	if p = h.partition("fast", relaxed); p.LogEndOffset() != end {
		t.Errorf("the log ends at %d, want %d", p.LogEndOffset(), end)
	}
	if maps := h.s.segments.MapsInUse(); maps != 0 {
		t.Errorf("%d maps of a store that has just opened", maps)
	}
	quiet(t, h)
}

// TestPaddedAppends: the file of a log that grows fast by large batches ends with whole pieces of limits.WindowBytes, and where the log
// does when its segment is sealed, when it rests, and after a stop.
func TestPaddedAppends(t *testing.T) {
	t.Parallel()
	h := mapped(t)
	p := h.partition("fast", relaxed, func(c *Config) { c.SegmentBytes = 10_000_000 })
	value := strings.Repeat("x", 100_000)
	first := activeLog(p)
	padded, whole, log := 0, true, []string{}
	for activeLog(p) == first {
		put(t, p, records(value))
		log = append(log, value)
		if size := fileSize(t, first); activeLog(p) == first && size > p.SizeBytes() {
			padded++
			whole = whole && size%limits.WindowBytes == 0 && size < p.SizeBytes()+limits.WindowBytes
		}
	}
	if sealed := p.segments.Load().all[0].SizeBytes.Load(); fileSize(t, first) != sealed {
		t.Errorf("sealed with %d bytes, the file has %d", sealed, fileSize(t, first))
	}
	if padded < 20 || !whole {
		t.Errorf("%d of %d batches had zeros behind them, want most; up to a multiple of %d: %t", padded, len(log), limits.WindowBytes, whole)
	}
	for fileSize(t, activeLog(p)) == p.segments.Load().active().SizeBytes.Load() {
		put(t, p, records(value))
		log = append(log, value)
	}
	put(t, p, records("small")) // into the zeros
	log = append(log, "small")
	expect(t, p, log...)
	h.s.giveBackAhead(false)
	h.s.giveBackAhead(false)
	if size := p.segments.Load().active().SizeBytes.Load(); fileSize(t, activeLog(p)) != size {
		t.Errorf("a log that rests has %d bytes, its file %d", size, fileSize(t, activeLog(p)))
	}
	for fileSize(t, activeLog(p)) == p.segments.Load().active().SizeBytes.Load() {
		put(t, p, records(value))
		log = append(log, value)
	}
	last, size := activeLog(p), p.segments.Load().active().SizeBytes.Load()
	h.kill() // cuts the file; a process that dies does not
	if err := os.Truncate(last, size+limits.WindowBytes); err != nil {
		t.Fatal(err)
	}
	h.open()
	p = h.partition("fast", relaxed)
	if fileSize(t, last) != size {
		t.Errorf("the file has %d bytes after a recovery, the log had %d", fileSize(t, last), size)
	}
	expect(t, p, log...)
	quiet(t, h)
}

// TestFilesEndAtTheRoll: an earlier release, or Kafka, that starts after a crash takes zeros at the end of a segment that is not the
// last for damage, and removes what comes behind them. So there are none from the moment when the next segment is there.
func TestFilesEndAtTheRoll(t *testing.T) {
	t.Parallel()
	h := mapped(t, func(o *Options) { o.windows = eagerWindows() })
	p := h.partition("rolls", relaxed, func(c *Config) { c.SegmentBytes = 5000 })
	for len(p.segments.Load().all) < 10 {
		put(t, p, records("value"))
		all := p.segments.Load().all
		for i, g := range all[:len(all)-1] {
			if size := fileSize(t, g.Path(".log")); size != g.SizeBytes.Load() {
				t.Fatalf("segment %d of %d is sealed, has %d bytes, and its file %d", i, len(all), g.SizeBytes.Load(), size)
			}
		}
	}
}

// TestZerosThatWereCutStayCut: a start that has nothing else to do than to cut the zeros behind the end makes that durable, so that a
// power failure after the next clean stop finds the file as it was noted.
func TestZerosThatWereCutStayCut(t *testing.T) {
	t.Parallel()
	m := vfs.NewRecording()
	makeDataDir(t, m)
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Cleaner, o.windows = []string{"/data"}, m, byHand, eagerWindows()
	})
	powerFailure := func(stop func()) { // stop comes too late to change anything
		clone, err := m.Clone(nil)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		m, h.o.FS = clone, clone
	}
	fileBytes := func(name string) int64 {
		st, err := m.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return st.SizeBytes
	}
	p := h.partition("t")
	put(t, p, records("value"))
	h.s.checkpoint()
	name, size := activeLog(p), p.SizeBytes()
	powerFailure(h.kill)
	if bytes := fileBytes(name); bytes <= size {
		t.Fatalf("the file has %d bytes: no zeros behind %d of the log", bytes, size)
	}
	h.open()
	h.stop()
	powerFailure(func() {})
	if bytes := fileBytes(name); bytes != size {
		t.Errorf("the file has %d bytes, want %d", bytes, size)
	}
	h.open()
	expect(t, h.partition("t"), "value")
	if logs := h.logs.String(); strings.Contains(logs, "the log changed after a clean stop") {
		t.Error(logs)
	}
}

// quiet fails when something was repaired, or went wrong.
func quiet(t *testing.T, h *harness) {
	t.Helper()
	for _, word := range []string{"cut", "WARN", "ERROR"} {
		if strings.Contains(h.logs.String(), word) {
			t.Errorf("the log says %q:\n%s", word, h.logs)
		}
	}
}

// TestKilledWithWindows: a process that dies leaves zeros behind the ends of its logs, also of a segment that was sealed just now.
// The next start cuts them without a word: no batch is missing.
func TestKilledWithWindows(t *testing.T) {
	t.Parallel()
	h := mapped(t)
	p := h.partition("fast", relaxed, func(c *Config) { c.SegmentBytes = 100_000 })
	fill(t, p, 0, 100)
	first := activeLog(p)
	for activeLog(p) == first {
		put(t, p, records(strings.Repeat("y", 1000)))
	}
	values := fill(t, p, 0, 50)
	second, firstSize, secondSize, end := activeLog(p), p.segments.Load().all[0].SizeBytes.Load(), p.segments.Load().active().SizeBytes.Load(), p.LogEndOffset()
	if fileSize(t, second) == secondSize {
		t.Error("nothing is mapped")
	}
	h.kill() // what the files end with is cut by the janitor or by this; a process that dies leaves it
	for name, size := range map[string]int64{first: firstSize, second: secondSize} {
		if err := os.Truncate(name, size+limits.WindowBytes); err != nil {
			t.Fatal(err)
		}
	}
	h.open()
	p = h.partition("fast", relaxed)
	if p.LogEndOffset() != end {
		t.Errorf("the log ends at %d, want %d", p.LogEndOffset(), end)
	}
	if a, b := fileSize(t, first), fileSize(t, second); a != firstSize || b != secondSize {
		t.Errorf("the files have %d and %d bytes, the logs %d and %d", a, b, firstSize, secondSize)
	}
	all := allValues(t, p)
	if got := all[len(all)-len(values):]; fmt.Sprint(got) != fmt.Sprint(values) {
		t.Errorf("the last records are %v", got)
	}
	quiet(t, h)
}

func allValues(t testing.TB, p *Partition) []string {
	t.Helper()
	return values(t, p, p.LogStartOffset(), ReadUncommitted)
}

// TestWindowIsCutBehindItsBack: when a page of the window can't be written, here because somebody has cut the file, the append
// fails as any other does on a bad disk, nothing of it has happened, and the next one works.
func TestWindowIsCutBehindItsBack(t *testing.T) {
	t.Parallel()
	h := mapped(t)
	p := h.partition("t", relaxed)
	values := fill(t, p, 0, 50)
	size := p.SizeBytes()
	whole := (size + vfs.WindowPage - 1) / vfs.WindowPage * vfs.WindowPage
	for size < whole-200 { // so that the next batch reaches into a page that has gone
		put(t, p, records("pad"))
		values, size = append(values, "pad"), p.SizeBytes()
	}
	if err := os.Truncate(activeLog(p), whole); err != nil {
		t.Fatal(err)
	}
	end := p.LogEndOffset()
	_, err := p.Append(records(strings.Repeat("x", 1000)), AppendOptions{})
	var fault *vfs.WindowFault
	if !errors.Is(err, ErrStorage) || !errors.As(err, &fault) || !strings.Contains(err.Error(), activeLog(p)) {
		t.Fatalf("append: %v", err)
	}
	if p.LogEndOffset() != end || p.SizeBytes() != size || fileSize(t, activeLog(p)) != size {
		t.Errorf("after a failed append the log ends at %d and has %d bytes, its file %d; want %d, %d, %d", p.LogEndOffset(), p.SizeBytes(), fileSize(t, activeLog(p)), end, size, size)
	}
	expect(t, p, values...)
	put(t, p, records("after"))
	expect(t, p, append(values, "after")...)
}

// TestNoRoomForAWindow: a disk without room for zeros takes the batch nevertheless, and has nothing else in the file then.
func TestNoRoomForAWindow(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	h := mapped(t, func(o *Options) {
		o.FS = &vfs.Faulty{FS: o.FS, Before: func(op vfs.Op) error {
			if full.Load() && op.Kind == vfs.OpWrite && op.Len > 4000 && strings.HasSuffix(op.Name, ".log") {
				return &vfs.ShortWrite{Len: 4000, Err: unix.ENOSPC}
			}
			return nil
		}}
	})
	p := h.partition("t", relaxed)
	full.Store(true)
	values := fill(t, p, 0, 50)
	if size := fileSize(t, activeLog(p)); size != p.SizeBytes() || h.s.segments.AheadBytes() != 0 || h.s.segments.MapsInUse() != 0 {
		t.Errorf("the file has %d bytes, the log %d; %d are held, %d maps", size, p.SizeBytes(), h.s.segments.AheadBytes(), h.s.segments.MapsInUse())
	}
	expect(t, p, values...)
	full.Store(false)
	values = fill(t, p, 50, 50)
	if h.s.segments.AheadBytes() == 0 {
		t.Error("no window when there is room again")
	}
	full.Store(true)
	for p.SizeBytes() < 2*limits.WindowBytes { // to the end of the window, and over it
		put(t, p, records(strings.Repeat("z", 500)))
		values = append(values, strings.Repeat("z", 500))
	}
	if size := fileSize(t, activeLog(p)); size != p.SizeBytes() || h.s.segments.AheadBytes() != 0 {
		t.Errorf("at the end the file has %d bytes, the log %d; %d are held", size, p.SizeBytes(), h.s.segments.AheadBytes())
	}
	expect(t, p, values...)
}

// TestWhoGetsAWindow: many small batches in a short time, where commits don't sync; much more of them where they do.
func TestWhoGetsAWindow(t *testing.T) {
	t.Parallel()
	small, large := records("small"), records(strings.Repeat("x", limits.WindowBatchBytes))
	synced := func(c *Config) { c.FlushMessages = 1 }
	for _, x := range []struct {
		name   string
		config func(*Config)
		batch  []byte
		n      int
		gapMs  int64
		want   bool
	}{
		{"fast", relaxed, small, limits.WindowAfterBatches, limits.WindowAfterMs / limits.WindowAfterBatches, true},
		{"few", relaxed, small, limits.WindowAfterBatches - 1, 0, false},
		{"slow", relaxed, small, 5 * limits.WindowAfterBatches, 2 * limits.WindowAfterMs / limits.WindowAfterBatches, false},
		{"large", relaxed, large, 20, 0, false},
		{"short-segment", func(c *Config) { relaxed(c); c.SegmentBytes = limits.WindowLeastBytes }, small, 20, 0, false},
		{"synced", synced, small, 20, 0, false},
		{"synced-fast", synced, records(strings.Repeat("x", 1000)), 70, 0, true},
		{"synced-slow", synced, records(strings.Repeat("x", 1000)), 140, 100, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			var nowMs atomic.Int64
			nowMs.Store(1_000_000)
			h := mapped(t, func(o *Options) { o.Clock = func() time.Time { return time.UnixMilli(nowMs.Load()) } })
			p := h.partition(x.name, x.config)
			for range x.n {
				put(t, p, bytes.Clone(x.batch))
				nowMs.Add(x.gapMs)
			}
			if got := fileSize(t, activeLog(p)) > p.segments.Load().active().SizeBytes.Load(); got != x.want {
				t.Errorf("has a window: %v, want %v", got, x.want)
			}
		})
	}
}

// TestNoWindowOnANearlyFullDisk: what is left is for batches.
func TestNoWindowOnANearlyFullDisk(t *testing.T) {
	t.Parallel()
	h := mapped(t, func(o *Options) { o.FS = nearlyFull{vfs.OS} })
	p := h.partition("t", relaxed)
	expect(t, p, fill(t, p, 0, 50)...)
	if h.s.segments.AheadBytes() != 0 {
		t.Error("there is one")
	}
}

type nearlyFull struct{ vfs.FS }

func (nearlyFull) Usage(string) (totalBytes, usableBytes int64, err error) {
	return 100 << 30, 1 << 30, nil
}

// TestWindowsAskNowAndThen: a batch is written by a system call although there is a window when the page may have been written back:
// a second after the last such batch, after a sync, and when the clock has jumped.
func TestWindowsAskNowAndThen(t *testing.T) {
	t.Parallel()
	var nowMs, asked atomic.Int64
	nowMs.Store(1_000_000)
	h := mapped(t, func(o *Options) {
		o.Clock = func() time.Time { return time.UnixMilli(nowMs.Load()) }
		o.FS = wrappedLogs{o.FS, func(f vfs.File) vfs.File { return countedFile{f, &asked} }}
	})
	p := h.partition("t", relaxed)
	values := fill(t, p, 0, 20)
	sync := func() {
		if err := p.segments.Load().active().Sync(); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func() {}
	after := func(ms int64) func() { return func() { nowMs.Add(ms) } }
	for i, x := range []struct {
		meanwhile func()
		want      int64
	}{
		{nothing, 0}, {after(limits.WindowStaleMs), 0}, {after(1), 1}, {nothing, 0}, {after(limits.WindowStaleMs), 0},
		{sync, 1}, {nothing, 0}, {after(-10_000), 1}, {nothing, 0},
	} {
		x.meanwhile()
		before := asked.Load()
		value := fmt.Sprint("step-", i)
		put(t, p, records(value))
		values = append(values, value)
		if got := asked.Load() - before; got != x.want {
			t.Errorf("step %d: %d system calls wrote a batch, want %d", i, got, x.want)
		}
	}
	expect(t, p, values...)
}

// countedFile counts what is written to it, but for zeros, and not through a window.
type countedFile struct {
	vfs.File
	writes *atomic.Int64
}

func (c countedFile) WriteAt(p []byte, off int64) (int, error) {
	if len(bytes.Trim(p, "\x00")) > 0 {
		c.writes.Add(1)
	}
	return c.File.WriteAt(p, off)
}

// TestWindowsOfAVolumeAskTogether: of the appends to many logs of a volume one in a moment asks whether it is frozen.
func TestWindowsOfAVolumeAskTogether(t *testing.T) {
	t.Parallel()
	var now, asks atomic.Int64 // now in µs
	rules := eagerWindows()
	rules.Clock = func() time.Duration { return time.Duration(now.Load()) * time.Microsecond }
	h := mapped(t, func(o *Options) {
		o.windows = rules
		o.FS = &vfs.Faulty{FS: o.FS, Before: func(op vfs.Op) error {
			if op.Kind == vfs.OpAsk {
				asks.Add(1)
			}
			return nil
		}}
	})
	logs := []*Partition{h.partition("a", relaxed), h.partition("b", relaxed), h.partition("c", relaxed)}
	round := func() int64 {
		before := asks.Load()
		for _, p := range logs {
			put(t, p, records("value"))
		}
		return asks.Load() - before
	}
	if got := round(); got != 3 {
		t.Errorf("%d asks of 3 appends to a volume that is new", got)
	}
	for range vfs.WaryMs + 1 {
		now.Add(1000)
		round()
	}
	switch round() {
	case 3:
		t.Skip("this kernel's freezes are too fast")
	case 0:
	default:
		t.Error("some appends ask when one has a moment ago")
	}
	now.Add(vfs.AskUs + 1)
	if got := round(); got != 1 {
		t.Errorf("%d asks of 3 appends a moment later", got)
	}
	if got := h.s.Counters().WindowAsks.Load(); got != asks.Load() {
		t.Errorf("%d asks are counted of %d", got, asks.Load())
	}
}

// TestCutWhereTheLogEnds: a file that somebody cuts exactly where its log ends takes what fits into the rest of that page without a fault. When
// that is seen, at the next page, at a sync, when the log rests or rolls, the partition is offline, and its recovery goes on with what the
// file has; what it has not is not served as zeros.
func TestCutWhereTheLogEnds(t *testing.T) {
	t.Parallel()
	write := func(p *Partition, b []byte) { _, _ = p.Append(b, AppendOptions{}) } // how it ends is seen from the log
	for name, notice := range map[string]func(h *harness, p *Partition, nowMs *atomic.Int64){
		"fault": func(_ *harness, p *Partition, _ *atomic.Int64) {
			for range 5 {
				write(p, records(strings.Repeat("x", 1000)))
			}
		},
		"a batch a second": func(_ *harness, p *Partition, nowMs *atomic.Int64) {
			nowMs.Add(limits.WindowStaleMs + 1)
			write(p, records("late"))
		},
		"large batch": func(_ *harness, p *Partition, _ *atomic.Int64) {
			write(p, records(strings.Repeat("x", 2*limits.WindowBytes)))
		},
		"roll": func(_ *harness, p *Partition, _ *atomic.Int64) {
			c := p.Config()
			c.SegmentBytes = 100
			p.SetConfig(c)
			write(p, records("next"))
		},
		"rest": func(h *harness, p *Partition, _ *atomic.Int64) {
			h.s.giveBackAhead(true)
			write(p, records("next"))
		},
		"sync": func(_ *harness, p *Partition, _ *atomic.Int64) { p.syncFiles() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nowMs atomic.Int64
			nowMs.Store(1_000_000)
			h := mapped(t, func(o *Options) {
				o.Clock, o.ReopenIntervalMs = func() time.Time { return time.UnixMilli(nowMs.Load()) }, 1
			})
			p := h.partition("t", relaxed)
			kept := fill(t, p, 0, 20)
			size := p.SizeBytes()
			if size%vfs.WindowPage > vfs.WindowPage-500 {
				t.Fatalf("the log ends at %d: no room in its page", size)
			}
			if err := os.Truncate(activeLog(p), size); err != nil {
				t.Fatal(err)
			}
			put(t, p, records("lost")) // acknowledged
			end := p.SizeBytes()
			notice(h, p, &nowMs)
			eventually(t, func() error {
				if err := p.Err(); err != nil {
					return err
				}
				if !strings.Contains(h.logs.String(), "partition is back") {
					return errors.New("it was not taken offline")
				}
				return nil
			})
			for _, want := range []string{"somebody has cut the file", activeLog(p), fmt.Sprintf("has %d bytes and its log ", size), "the disk lost records that were visible"} {
				if !strings.Contains(h.logs.String(), want) {
					t.Errorf("the log does not say %q:\n%s", want, h.logs)
				}
			}
			if strings.Contains(h.logs.String(), "invalid memory address") || end == size {
				t.Error(h.logs)
			}
			expect(t, p, kept...)
			put(t, p, records("after"))
			expect(t, p, append(kept, "after")...)
		})
	}
}
