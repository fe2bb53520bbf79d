package logstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
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

// TestFewDescriptors: a log of many more segments than the process may have files open is written, read, looked up by time, compacted,
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
	h := start(t, func(o *Options) { o.FS, o.OpenFiles, o.Cleaner = unsynced{vfs.OS}, limit, byHand })
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
