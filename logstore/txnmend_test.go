package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// aborts is a log of some segments with aborted transactions in each of them, after a clean stop.
type aborts struct {
	t     *testing.T
	m     *vfs.Mem
	full  atomic.Bool
	h     *harness
	want  string
	all   []AbortedTxn
	files map[string][]byte // both files of every segment, as they were written
}

func newAborts(t *testing.T) *aborts {
	t.Helper()
	a := &aborts{t: t, m: vfs.NewRecording(), files: map[string][]byte{}}
	t.Cleanup(func() {
		if err := a.m.Close(); err != nil {
			t.Error(err)
		}
	})
	makeDataDir(t, a.m)
	fsys := &vfs.Faulty{FS: a.m, Before: func(op vfs.Op) error {
		if a.full.Load() && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpCreate) && strings.Contains(op.Name, "txnindex") {
			return unix.ENOSPC
		}
		return nil
	}}
	a.h = start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, fsys, byHand })
	p := a.partition()
	put(t, p, produced(9, 0, 0, true, "open over all of it"))
	for i := range int32(8) {
		for id := range int64(2) {
			put(t, p, produced(id, 0, i, true, fmt.Sprint("txn-", i)))
			endTxn(t, p, id, 0, id == 0)
		}
	}
	endTxn(t, p, 9, 0, false)
	a.all = abortedOf(t, p, 0, 100)
	a.want = fmt.Sprint(a.all)
	a.h.stop()
	a.files = a.now()
	if len(a.files) < 6 || len(a.files)%2 != 0 {
		t.Fatalf("%d files", len(a.files))
	}
	return a
}

func (a *aborts) partition() *Partition {
	return a.h.partition("a", func(c *Config) { c.SegmentBytes = 500 })
}

// now is what the files hold.
func (a *aborts) now() map[string][]byte {
	a.t.Helper()
	entries, err := a.m.List("/data/a-0")
	if err != nil {
		a.t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		name := filepath.Join("/data/a-0", e.Name)
		if strings.HasSuffix(name, layout.TxnIndexSuffix) || strings.HasSuffix(name, layout.TxnCopySuffix) {
			if files[name], err = vfs.ReadFile(a.m, name, 1<<20); err != nil {
				a.t.Fatal(err)
			}
		}
	}
	return files
}

// damage does something to the files of a kind, of every segment.
func (a *aborts) damage(suffix string, of func([]byte) []byte) {
	a.t.Helper()
	for name, b := range a.files {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		err := a.m.Remove(name)
		if b = of(bytes.Clone(b)); err == nil && b != nil {
			err = vfs.WriteFileAtomic(a.m, name, "/data/a-0", b)
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

// mended says what a start has left of a damage.
func (a *aborts) mended(when string) {
	a.t.Helper()
	now := a.now()
	for name, b := range a.files {
		if !bytes.Equal(now[name], b) {
			a.t.Errorf("%s: %s has %d bytes that are not those that were written", when, name, len(now[name]))
		}
	}
	if len(now) != len(a.files) {
		a.t.Errorf("%s: %d files, want %d", when, len(now), len(a.files))
	}
}

func (a *aborts) told(when string) {
	a.t.Helper()
	if got := fmt.Sprint(abortedOf(a.t, a.partition(), 0, 100)); got != a.want {
		a.t.Errorf("%s: aborted %s, want %s", when, got, a.want)
	}
}

// txnDamages are those of which the format of an entry says nothing, and others. A copy that is missing is not among them: that
// it was there nobody knows.
var txnDamages = map[string]func([]byte) []byte{
	"another producer": func(b []byte) []byte { b[9] ^= 4; return b },
	"another offset":   func(b []byte) []byte { b[17] ^= 1; return b },
	"the checksum":     func(b []byte) []byte { b[len(b)-1] ^= 128; return b },
	"an entry gone":    func(b []byte) []byte { return b[:len(b)-34] },
	"half an entry":    func(b []byte) []byte { return b[:len(b)-17] },
	"empty":            func(b []byte) []byte { return b[:0] },
	"zeroes":           func(b []byte) []byte { clear(b); return b },
}

// TestTransactionIndexIsMended: of the index and its copy one may be damaged, and after the next start the other one, in either
// order, or both at once: a start has put both right, whether anybody asked for them or not.
func TestTransactionIndexIsMended(t *testing.T) {
	t.Parallel()
	missing := func([]byte) []byte { return nil }
	for what, of := range txnDamages {
		for order, steps := range map[string][][]string{
			"index, copy": {{layout.TxnIndexSuffix}, {layout.TxnCopySuffix}},
			"copy, index": {{layout.TxnCopySuffix}, {layout.TxnIndexSuffix}},
			"both":        {{layout.TxnIndexSuffix, layout.TxnCopySuffix}},
			"index lost":  {{"lost"}, {layout.TxnCopySuffix}, {"lost"}},
		} {
			t.Run(what+"/"+order, func(t *testing.T) {
				t.Parallel()
				a := newAborts(t)
				for i, clean := range []bool{true, false} {
					for _, step := range steps {
						for _, suffix := range step {
							if suffix == "lost" {
								a.damage(layout.TxnIndexSuffix, missing)
							} else {
								a.damage(suffix, of)
							}
						}
						when := fmt.Sprint("round ", i, ", ", step)
						a.h.open()
						a.mended(when) // before anybody asks
						if clean {
							a.h.stop()
						} else {
							a.told(when)
							a.h.kill()
						}
					}
				}
				a.h.open()
				a.told("at the end")
				a.h.stop()
				a.mended("at the end")
				said := strings.Count(a.h.logs.String(), "transaction index made anew from the log")
				if want := 2 * len(steps) * len(a.files) / 2; said != want {
					t.Errorf("said %d times, want %d:\n%s", said, want, a.h.logs)
				}
			})
		}
	}
}

// TestTransactionIndexMendedOnAFullDisk: what is wrong stays to be seen as wrong until there is room.
func TestTransactionIndexMendedOnAFullDisk(t *testing.T) {
	t.Parallel()
	for what, of := range txnDamages {
		for _, suffixes := range [][]string{{layout.TxnIndexSuffix}, {layout.TxnCopySuffix}, {layout.TxnIndexSuffix, layout.TxnCopySuffix}} {
			a := newAborts(t)
			for _, suffix := range suffixes {
				a.damage(suffix, of)
			}
			when := fmt.Sprint(what, " of ", suffixes)
			a.full.Store(true)
			for range 2 {
				a.h.open()
				a.told(when + " on a full disk")
				a.h.kill()
			}
			a.full.Store(false)
			a.h.open()
			a.told(when + " with room")
			a.h.stop()
			a.mended(when + " with room")
		}
	}
}

// TestPowerFailureWhileATransactionIndexIsMended: after every step of a start that mends, the next one tells what was aborted, and
// has mended the rest.
func TestPowerFailureWhileATransactionIndexIsMended(t *testing.T) {
	t.Parallel()
	for what, suffixes := range map[string][]string{
		"index": {layout.TxnIndexSuffix}, "copy": {layout.TxnCopySuffix}, "both": {layout.TxnIndexSuffix, layout.TxnCopySuffix},
	} {
		a := newAborts(t)
		for _, suffix := range suffixes {
			a.damage(suffix, txnDamages["another producer"])
		}
		states, damaged := 0, a.m
		for step := 0; ; step++ {
			reached := a.failAt(damaged, step)
			for i, m := range reached {
				states++
				a.m, a.h.o.FS = m, m
				when := fmt.Sprintf("%s, step %d, outcome %d", what, step, i)
				a.h.open()
				a.told(when)
				a.mended(when)
				a.h.kill()
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
			if reached == nil {
				break
			}
		}
		a.m = damaged
		if states < 3*5*len(a.files)/2 { // of each segment one file at least is made, written, synced, renamed, and the directory synced
			t.Errorf("%s: %d states", what, states)
		}
	}
}

// failAt is what a power failure leaves before a step of a start from m, in some of its outcomes; nil: the start has fewer steps.
func (a *aborts) failAt(m *vfs.Mem, step int) (states []*vfs.Mem) {
	a.t.Helper()
	m, err := m.Clone(func(int) int { return 0 })
	if err != nil {
		a.t.Fatal(err)
	}
	var steps atomic.Int64
	a.h.o.FS = &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		if !strings.Contains(op.Name, "/a-0") || op.Kind == vfs.OpOpen || steps.Add(1) != int64(step+1) {
			return nil
		}
		for _, choose := range []func(int) int{nil, func(int) int { return 0 }, func(n int) int { return n - 1 }} {
			c, cloneErr := m.Clone(choose)
			err = errors.Join(err, cloneErr)
			states = append(states, c)
		}
		return nil
	}}
	a.h.open()
	a.h.kill() // waits for whoever may have been at the step
	if err = errors.Join(err, m.Close()); err != nil {
		a.t.Fatal(err)
	}
	return states
}

// TestTransactionIndexCopiedBeforeTheSnapshot: behind a snapshot no recovery makes the entries before it anew, so by then their copy
// has to tell when the index is lost.
func TestTransactionIndexCopiedBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string // what got its name; owner: mu
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if name := strings.TrimSuffix(filepath.Base(op.Name), layout.TemporarySuffix); op.Kind == vfs.OpRename && strings.HasPrefix(name, "0") {
			order = append(order, name)
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, fsys, byHand })
	p := h.partition("a", func(c *Config) { c.SegmentBytes = 250 })
	for i := range int32(6) {
		put(t, p, produced(1, 0, i, true, "x"))
		endTxn(t, p, 1, 0, false)
	}
	if err := p.writeOut(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	all := p.segments.Load().all
	for i, g := range all[:len(all)-1] {
		copied := slices.Index(order, fmt.Sprintf("%020d%s", g.BaseOffset, layout.TxnCopySuffix))
		snapshot := slices.Index(order, fmt.Sprintf("%020d%s", all[i+1].BaseOffset, layout.SnapshotSuffix))
		if copied < 0 || snapshot < copied {
			t.Errorf("segment %d: copy %d, snapshot behind it %d of %v", g.BaseOffset, copied, snapshot, order)
		}
	}
	if len(all) < 3 {
		t.Errorf("%d segments", len(all))
	}
}

// TestBothTransactionIndexFilesLost: Kafka takes a transaction index that is missing for one without entries. Here the sums of a sealed
// segment know that it had some, and the log tells which; of the segment that was active nobody knows.
func TestBothTransactionIndexFilesLost(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"clean", "crash", "crash, epochs lost"} { // without the epochs all of the log is replayed
		a := newAborts(t)
		if start != "clean" {
			a.h.open()
			a.h.kill()
		}
		if start == "crash, epochs lost" {
			if err := a.m.Remove("/data/a-0/" + checkpoint.EpochsName); err != nil {
				t.Fatal(err)
			}
		}
		missing := func([]byte) []byte { return nil }
		a.damage(layout.TxnIndexSuffix, missing)
		a.damage(layout.TxnCopySuffix, missing)
		a.h.open()
		p := a.partition()
		all := p.segments.Load().all
		sealed := all[len(all)-1].BaseOffset
		var want []AbortedTxn
		for _, x := range a.all {
			if x.LastOffset < sealed {
				want = append(want, x)
			}
		}
		if len(want) < 4 {
			t.Fatalf("only %d of %v in sealed segments", len(want), a.all)
		}
		if got := abortedOf(t, p, 0, sealed); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: aborted %v, want %v\n%s", start, got, want, a.h.logs)
		}
	}
}
