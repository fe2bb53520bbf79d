package logstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas/internal/vfs"
)

// TestCrashAroundDeletion: whatever moment a crash takes while a topic is made, deleted and made again, the new topic never
// sees bytes, offsets or the log start of the old one, keeps what it acknowledged, and no producer id comes twice.
func TestCrashAroundDeletion(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	m := vfs.NewRecording()
	var armed atomic.Bool
	var acked, newest atomic.Int64 // records of the new topic; largest producer id
	newest.Store(-1)
	first, second := [16]byte{1}, [16]byte{2}
	var mu sync.Mutex
	verify := func(choose func(int) int) error {
		want, id := acked.Load(), newest.Load()
		clone, err := m.Clone(choose)
		if err != nil {
			return err
		}
		s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone})
		if err != nil {
			return err
		}
		p, err := s.Ensure("a", second, 0, DefaultConfig())
		if err != nil {
			return err
		}
		if p.LogStartOffset() != 0 || p.LogEndOffset() < want || p.LogEndOffset() > 2 {
			return fmt.Errorf("log from %d to %d, %d acknowledged", p.LogStartOffset(), p.LogEndOffset(), want)
		}
		for _, v := range values(t, p, 0, ReadUncommitted) {
			if v != "new" {
				return fmt.Errorf("the new topic holds %q", v)
			}
		}
		if next, err := s.NextProducerID(); err != nil || next <= id {
			return fmt.Errorf("producer id %d after %d: %w", next, id, err)
		}
		if err := s.Close(context.Background()); err != nil {
			return err
		}
		return clone.Close()
	}
	fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		if !armed.Load() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		for _, choose := range []func(int) int{nil, rng.IntN, rng.IntN} {
			if err := verify(choose); err != nil {
				t.Errorf("crash before %+v: %v", op, err)
			}
		}
		return nil
	}}
	if err := m.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	armed.Store(true)
	for round := range 3 {
		p, err := h.s.Ensure("a", first, 0, DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			put(t, p, records("old"))
		}
		if _, err := p.DeleteRecords(3); err != nil {
			t.Fatal(err)
		}
		h.s.checkpoint()
		if err := h.s.Delete("a", 0); err != nil {
			t.Fatal(err)
		}
		if p, err = h.s.Ensure("a", second, 0, DefaultConfig()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			put(t, p, records("new"))
			acked.Add(1)
		}
		id, err := h.s.NextProducerID()
		if err != nil {
			t.Fatal(err)
		}
		newest.Store(id)
		if round == 1 {
			h.restart()
		}
		acked.Store(0)
		if err := h.s.Delete("a", 0); err != nil {
			t.Fatal(err)
		}
	}
	armed.Store(false)
}
