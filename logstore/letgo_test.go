package logstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// unsynced is a file system that syncs nothing.
type unsynced struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (u unsynced) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	f, err := u.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsynced) SyncDir(string) error      { return nil }
func (unsyncedFile) Datasync() error       { return nil }
func descriptors(t testing.TB) (count int) { t.Helper(); return len(listDescriptors(t)) }

func listDescriptors(t testing.TB) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

const fewDescriptors = "KAAS_TEST_FEW_DESCRIPTORS"

// TestFewDescriptors: a log of many more segments than the process may have files open is written, read, looked up by time, moved, compacted,
// cut by retention, and found again by a start, after a crash, too.
func TestFewDescriptors(t *testing.T) {
	if os.Getenv(fewDescriptors) != "" {
		withFewDescriptors(t)
		return
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestFewDescriptors$", "-test.v")
	c.Env = append(os.Environ(), fewDescriptors+"=1", "TMPDIR="+t.TempDir())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

func withFewDescriptors(t *testing.T) {
	const segments, limit, keys = 600, 30, 10
	began := descriptors(t)
	rlimit := unix.Rlimit{Cur: uint64(began + 2*limit), Max: uint64(began + 2*limit)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &rlimit); err != nil {
		t.Fatal(err)
	}
	h := start(t, func(o *Options) {
		o.FS, o.OpenFiles, o.Cleaner, o.Dirs = unsynced{vfs.OS}, limit, byHand, []string{t.TempDir(), t.TempDir()}
	})
	config := func(c *Config) {
		c.SegmentBytes, c.FileDeleteDelayMs, c.RetentionMs, c.MinCleanableDirtyRatio = 100, 0, -1, 0
	}
	p := h.partition("t", config)
	value := func(i int) string { return fmt.Sprintf("%06d", i) }
	most := int64(0)
	look := func(when string) {
		t.Helper()
		open := h.s.segments.OpenFiles()
		if most = max(most, open); open > limit*3/2 {
			t.Errorf("%s: %d logs are open, the limit is %d", when, open, limit)
		}
	}
	for i := range segments {
		put(t, p, keyed(batch.None, int64(1000+i), fmt.Sprintf("%d=%s", i%keys, value(i))))
		p.store.roomForFiles() // the janitor's turn may be late
		look("written")
	}
	readAll := func(when string, from int) {
		t.Helper()
		for i := from; i < segments; i++ {
			s, err := p.Read(int64(i), 1, true, ReadCommitted)
			if err != nil || s.Len == 0 {
				t.Fatalf("%s: read of %d: %d bytes, %v", when, i, s.Len, err)
			}
			s.Release()
			look(when)
		}
		if got := values(t, p, int64(from), ReadUncommitted); len(got) != segments-from || got[0] != value(from) {
			t.Fatalf("%s: %d values from %d on", when, len(got), from)
		}
		for _, i := range []int{from, (from + segments) / 2, segments - 1} {
			if found, ok, err := p.OffsetForTimestamp(t.Context(), int64(1000+i), ReadUncommitted); err != nil || !ok || found.Offset != int64(i) {
				t.Fatalf("%s: record %d by its time: %+v %v %v", when, i, found, ok, err)
			}
		}
	}
	readAll("written", 0)
	pinned, err := p.Read(5, 1, true, ReadCommitted)
	if err != nil {
		t.Fatal(err)
	}
	before := string(content(t, &pinned))
	for _, to := range []string{h.o.Dirs[1], h.o.Dirs[0]} {
		moveTo(t, p, to)
		look("moved")
		readAll("after a move", 0)
	}
	h.kill()
	h.open()
	p = h.partition("t", config)
	readAll("after a kill", 0)
	h.restart()
	p = h.partition("t", config)
	readAll("after a clean stop", 0)
	for range 3 {
		h.s.letGo()
	}
	if got := string(content(t, &pinned)); got != before {
		t.Error("a slice that outlived its store changed")
	}
	pinned.Release()

	if _, err := p.DeleteRecords(segments / 3); err != nil {
		t.Fatal(err)
	}
	look("retention")
	readAll("after retention", segments/3)
	if n := len(p.segments.Load().all); n != segments-segments/3 {
		t.Errorf("%d segments after retention", n)
	}
	compacted := *p.config.Load()
	compacted.CleanupCompact, compacted.CleanupDelete, compacted.SegmentBytes = true, false, 1<<20
	p.SetConfig(compacted)
	for h.s.compactor.cleanFilthiest() {
	}
	look("compaction")
	if n := len(p.segments.Load().all); n != 2 {
		plan, ok := h.s.compactor.planOf(p)
		t.Errorf("%d segments after compaction, %+v %v, synced %d of %d: %s", n, plan, ok, p.synced.Load(), p.LogEndOffset(), h.logs)
	}
	var want []string
	for i := segments - keys - 1; i < segments; i++ { // the active segment is not compacted
		want = append(want, value(i))
	}
	if got := values(t, p, segments/3, ReadUncommitted); !slices.Equal(got, want) {
		t.Errorf("compacted: %v, want %v", got, want)
	}
	t.Logf("%d segments with at most %d descriptors for logs, limit %d of %d", segments, most, limit, rlimit.Cur)
}

// TestLetGoBesideCompaction: who plans a round, or begins one, opens a file, and meanwhile all that nobody reads is let go of. The lag
// holds for segments that gave way as for others, and the round needs no second try.
func TestLetGoBesideCompaction(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	var h *harness
	letGo := func() {
		h.s.segments.LimitFiles(1)
		h.s.letGo()
		h.s.segments.LimitFiles(limits.OpenFiles)
	}
	h = start(t, func(o *Options) {
		o.Cleaner = byHand
		o.FS = &vfs.Faulty{FS: vfs.OS, Before: func(op vfs.Op) error {
			if op.Kind == vfs.OpOpen && strings.Contains(op.Name, "/t-0/") && armed.Swap(false) {
				letGo()
			}
			return nil
		}}
	})
	config := func(lagMs int64) func(*Config) {
		return func(c *Config) {
			c.SegmentBytes, c.RetentionMs, c.CleanupCompact, c.CleanupDelete = 200, -1, true, false
			c.MinCleanableDirtyRatio, c.MinCompactionLagMs = 0, lagMs
		}
	}
	p := h.partition("t", config(0))
	now := h.s.nowMs()
	for i := range 20 {
		ms := now
		if p.segments.Load().active().BaseOffset == 0 {
			ms = now - 2*3600_000
		}
		put(t, p, keyed(batch.None, ms, fmt.Sprint("k=", i)))
	}
	if err := p.writeOut(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.DeleteRecords(1); err != nil { // within the first segment: a round looks up where it begins
		t.Fatal(err)
	}
	second := p.segments.Load().all[1].BaseOffset
	if second < 2 {
		t.Fatalf("the second segment begins at %d", second)
	}
	h.partition("t", config(3600_000))
	armed.Store(true)
	plan, ok := h.s.compactor.planOf(p)
	if armed.Load() || !ok || plan.UncleanableOffset > second {
		t.Errorf("armed %v, %+v %v: what lies behind offset %d may not be touched yet", armed.Load(), plan, ok, second)
	}
	h.partition("t", config(0), func(c *Config) { c.SegmentBytes = 1 << 20 })
	letGo()
	if got := values(t, p, second, ReadUncommitted); len(got) != int(20-second) { // opens them again, but for those of the first segment
		t.Fatalf("read %v", got)
	}
	armed.Store(true)
	if !h.s.compactor.cleanFilthiest() || armed.Load() || len(p.segments.Load().all) != 2 {
		t.Errorf("armed %v, %d segments after a round: %s", armed.Load(), len(p.segments.Load().all), h.logs)
	}
}
