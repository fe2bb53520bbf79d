package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore"
)

// TestReadinessNamesStorageFaults: a partition whose disk does not answer, or fails, is named until the disk is back; then
// it serves again without a restart.
func TestReadinessNamesStorageFaults(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	var hold atomic.Pointer[chan struct{}]
	var offsetMs atomic.Int64
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind != vfs.OpDatasync || !strings.HasSuffix(op.Name, ".log") {
			return nil
		}
		if wait := hold.Load(); wait != nil {
			<-*wait
		}
		if failing.Load() {
			return unix.EIO
		}
		return nil
	}}
	base := time.Now()
	store, err := logstore.Open(context.Background(), logstore.Options{
		Dirs: []string{"/data"}, FS: fsys, ReopenIntervalMs: 1, ProbeIntervalMs: -1,
		Clock: func() time.Time { return base.Add(time.Duration(offsetMs.Load()) * time.Millisecond) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p, err := store.Ensure("t", [16]byte{1}, 0, logstore.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		var b batch.Builder
		b.Append(1, nil, []byte("x"))
		records, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Append(records, logstore.AppendOptions{})
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		p.WhenCommitted(&logstore.Waiter{Offset: r.LastOffset + 1, Done: func(_ *logstore.Waiter, err error) { done <- err }})
		return <-done
	}
	if err := put(); err != nil || storageFaults(store) != "" {
		t.Fatalf("%v %q", err, storageFaults(store))
	}

	release := make(chan struct{})
	hold.Store(&release)
	stalled := make(chan error, 1)
	go func() { stalled <- put() }()
	for p.LogEndOffset() < 2 || storageFaults(store) == "" { // the clock moves on until the commit, once begun, is late
		offsetMs.Add(limits.CommitStalledMs)
	}
	if faults := storageFaults(store); !strings.Contains(faults, "t-0") {
		t.Errorf("while the disk does not answer: %q", faults)
	}
	hold.Store(nil)
	close(release)
	if err := <-stalled; err != nil || storageFaults(store) != "" {
		t.Fatalf("when it answers: %v, %q", err, storageFaults(store))
	}

	failing.Store(true)
	if err := put(); err == nil {
		t.Fatal("a failed sync was answered as a success")
	}
	if faults := storageFaults(store); !strings.Contains(faults, "t-0") {
		t.Errorf("after a failed sync: %q", faults)
	}
	failing.Store(false)
	for put() != nil {
		continue // until the partition has been recovered
	}
	if faults := storageFaults(store); faults != "" {
		t.Errorf("when the disk is back: %q", faults)
	}
}

// TestReadinessNamesIdleDirectories: a directory that nobody writes to is named when it can't be written to, until it can.
func TestReadinessNamesIdleDirectories(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	store, err := logstore.Open(context.Background(), logstore.Options{Dirs: dirs, ProbeIntervalMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	awaitFaults(t, store, "")
	away := dirs[1] + ".away"
	if err := errors.Join(os.Rename(dirs[1], away), os.Mkdir(dirs[1], 0o755)); err != nil {
		t.Fatal(err)
	}
	awaitFaults(t, store, dirs[1]+": meta.properties is gone")
	if err := errors.Join(os.Remove(dirs[1]), os.Rename(away, dirs[1])); err != nil { // nothing was made in it
		t.Fatal(err)
	}
	awaitFaults(t, store, "")
}

// awaitFaults waits until the faults begin with want, or until there are none.
func awaitFaults(t *testing.T, store *logstore.Store, want string) {
	t.Helper()
	eventually(t, func() bool {
		faults := storageFaults(store)
		return want == "" && faults == "" || want != "" && strings.HasPrefix(faults, want)
	})
}
