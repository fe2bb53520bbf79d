package segment

import (
	"testing"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

type room struct {
	vfs.FS
	usable int64
}

func (r room) Usage(string) (totalBytes, usableBytes int64, err error) {
	return 100 << 30, r.usable, nil
}

// TestWindowsAreBounded: nobody gets one when windows and space ahead have their bound, or the disk is nearly full.
func TestWindowsAreBounded(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name          string
		usable        int64
		held, windows int64
		want          bool
	}{
		{"none", 50 << 30, 0, 0, true},
		{"nearly full", limits.AllocateFreeBytes - 1, 0, 0, false},
		{"last", 50 << 30, limits.AllocatedBytes - limits.WindowBytes, 0, true},
		{"space ahead", 50 << 30, limits.AllocatedBytes - limits.WindowBytes + 1, 0, false},
		{"windows", 50 << 30, 0, limits.AllocatedBytes / limits.WindowBytes, false},
	} {
		e := NewEnv(room{vfs.NewMem(), x.usable}, nil, nil, new(LookupCounters), nil)
		e.ahead.held.Store(x.held)
		e.windows.Store(x.windows)
		if got := e.roomForWindow("/"); got != x.want {
			t.Errorf("%s: room: %v, want %v", x.name, got, x.want)
		}
	}
}
