package volume

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSharedSync(t *testing.T) {
	t.Parallel()
	var s sharedSync
	failed := errors.New("the disk")
	begun, proceed := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int32
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.sync(func() error { syncs.Add(1); close(begun); <-proceed; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-begun
	// They come while one runs: none of them may be content with it, all share the next.
	const waiters = 20
	var joined sync.WaitGroup
	joined.Add(waiters)
	for range waiters {
		group.Go(func() {
			joined.Done()
			if err := s.sync(func() error { syncs.Add(1); return failed }); !errors.Is(err, failed) {
				t.Error(err)
			}
		})
	}
	joined.Wait()
	if syncs.Load() != 1 {
		t.Error("two at a time")
	}
	close(proceed)
	group.Wait()
	if n := syncs.Load(); n < 2 || n > waiters+1 {
		t.Errorf("%d syncs", n)
	}
}

// What was done before a call is covered by the sync that it waits for.
func TestSharedSyncCovers(t *testing.T) {
	t.Parallel()
	var s sharedSync
	var written, durable atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				mine := written.Add(1)
				err := s.sync(func() error {
					durable.Store(written.Load())
					return nil
				})
				if err != nil || durable.Load() < mine {
					t.Error("not covered")
					return
				}
			}
		})
	}
	group.Wait()
}
