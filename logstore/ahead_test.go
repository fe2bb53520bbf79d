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

	"kaas/internal/vfs"
)

// behind is how much room a file has behind its end.
func behind(t testing.TB, name string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks*512 - st.Size
}

// roomy is a file system with room, whatever the machine's has.
type roomy struct{ vfs.FS }

func (roomy) Usage(string) (totalBytes, usableBytes int64, err error) {
	return 100 << 30, 50 << 30, nil
}

// TestSpaceAheadOfALog: a log that grows fast gets it, and none is left behind a sealed segment, after a stop, or when a crash
// has left some.
func TestSpaceAheadOfALog(t *testing.T) {
	t.Parallel()
	// The clock stands: every log grows fast.
	h := start(t, func(o *Options) {
		o.FS, o.Clock = roomy{vfs.OS}, func() time.Time { return time.UnixMilli(1_000_000) }
	})
	probe, err := vfs.OS.OpenFile(filepath.Join(t.TempDir(), "probe"), vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(probe.Allocate(0, 4096), probe.Close())
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("not on this file system:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := h.partition("fast", func(c *Config) { c.SegmentBytes = 10_000_000 })
	value := string(bytes.Repeat([]byte{7}, 900_000))
	const few, slack = 8, 64 << 10 // slack: the last block, and what the file system needs for itself
	for range few {
		put(t, p, records(value))
	}
	first := filepath.Join(p.path(), "00000000000000000000.log")
	eventually(t, func() error { // the last of several wishes; what came of the ones before is written over
		if n := behind(t, first); n < 1<<20-slack {
			return fmt.Errorf("%d bytes behind the end of a log that grows fast", n)
		}
		return nil
	})
	if h.s.segments.AheadBytes() == 0 {
		t.Error("what was allocated ahead is not counted")
	}
	for range few { // a second segment
		put(t, p, records(value))
	}
	eventually(t, func() error {
		if n := behind(t, first); n > slack {
			return fmt.Errorf("%d bytes behind the end of a sealed segment", n)
		}
		return nil
	})
	second := filepath.Join(p.path(), fmt.Sprintf("%020d.log", p.segments.Load().active().BaseOffset))
	h.stop()
	if n := behind(t, second); n > slack {
		t.Errorf("%d bytes behind the end after a stop", n)
	}
	h.open()
	p = h.partition("fast", func(c *Config) { c.SegmentBytes = 10_000_000 })
	put(t, p, records("small"))
	h.kill()
	f, err := os.OpenFile(second, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size(), 3<<20)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if n := behind(t, second); n < 2<<20 {
		t.Fatalf("%d bytes behind the end of what a crash left", n)
	}
	h.open()
	if n := behind(t, second); n > slack {
		t.Errorf("%d bytes behind the end after a recovery", n)
	}
	p = h.partition("fast")
	if got := p.LogEndOffset(); got != 2*few+1 {
		t.Errorf("the log ends at %d, want %d", got, 2*few+1)
	}
}

// TestFullDiskGetsSpaceAheadBack: when an append meets a full disk, logs that do not grow have nothing behind their ends any
// more, and what they hold is whole.
func TestFullDiskGetsSpaceAheadBack(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{unix.ENOSPC, unix.EDQUOT} {
		t.Run(reason.Error(), func(t *testing.T) {
			t.Parallel()
			fullDiskGetsSpaceAheadBack(t, reason)
		})
	}
}

func fullDiskGetsSpaceAheadBack(t *testing.T, reason error) {
	var full atomic.Bool
	fsys := &vfs.Faulty{FS: roomy{vfs.OS}, Before: func(op vfs.Op) error {
		if full.Load() && op.Kind == vfs.OpWrite && strings.Contains(op.Name, "slow-0") && strings.HasSuffix(op.Name, ".log") {
			return reason
		}
		return nil
	}}
	h := start(t, func(o *Options) { // the clock stands: every log grows fast
		o.FS, o.Clock = fsys, func() time.Time { return time.UnixMilli(1_000_000) }
	})
	fast, slow := h.partition("fast"), h.partition("slow")
	put(t, slow, records("a"))
	value := string(bytes.Repeat([]byte{7}, 900_000))
	const few = 8
	for range few {
		put(t, fast, records(value))
	}
	if !h.s.segments.AllocatesAhead() {
		t.Skip("not on this file system")
	}
	eventually(t, func() error {
		if h.s.segments.AheadBytes() == 0 {
			return errors.New("nothing is allocated ahead")
		}
		return nil
	})
	full.Store(true)
	eventually(t, func() error { // a wish of before may be granted after the first
		if _, err := slow.Append(records("b"), AppendOptions{}); !errors.Is(err, ErrStorage) || !errors.Is(err, reason) {
			t.Fatalf("append on a full disk: %v", err)
		}
		if n := h.s.segments.AheadBytes(); n != 0 {
			return fmt.Errorf("%d bytes are still held", n)
		}
		return nil
	})
	full.Store(false)
	put(t, slow, records("b"))
	put(t, fast, records(value))
	if slow.LogEndOffset() != 2 || fast.LogEndOffset() != few+1 {
		t.Errorf("the logs end at %d and %d", slow.LogEndOffset(), fast.LogEndOffset())
	}
}
