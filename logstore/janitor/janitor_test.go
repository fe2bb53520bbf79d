package janitor

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kaas/internal/vfs"
	"kaas/logstore/segment"
)

// TestChores: each is done when it is asked for, once, or in its time; what was asked for before a stop is done by it.
func TestChores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		upMs := func() int64 { return time.Since(begun).Milliseconds() }
		var did []string
		note := func(what string) { did = append(did, fmt.Sprint(upMs(), " ", what)) }
		env := segment.NewEnv(vfs.NewMem(), slog.New(slog.DiscardHandler), time.Now, new(segment.LookupCounters), nil)
		j := New(env, Chores[int]{
			WriteOut:   func(p int) { note(fmt.Sprint("write out ", p)) },
			MakeSpare:  func(p int) { note(fmt.Sprint("spare ", p)) },
			Remove:     func(dir string) { note("remove " + dir) },
			DiskFull:   func() { note("full") },
			LetGo:      func() { note("let go") },
			Checkpoint: func() { note("checkpoint") },
			Retention:  func() { note("retention") },

			CheckpointMs: 100, FirstRetentionMs: 130, RetentionMs: 300, UpMs: upMs,
		})
		j.Sealed(1)
		j.Sealed(1)
		j.Start()
		at := func(ms int64) {
			<-time.After(time.Duration(ms-upMs()) * time.Millisecond)
			synctest.Wait()
		}
		g := segment.New(env, "/d", 0)
		g.Acquire() // a reader
		at(10)
		j.Doom(250, []*segment.Segment{g})
		j.Full()
		j.Spare(2)
		j.Remove("a")
		at(249)
		if env.Bury(); !g.Acquire() {
			t.Error("a doomed segment went before its time")
		}
		g.Release()
		at(251)
		g.Release() // the reader's, the last one
		if g.Acquire() {
			t.Error("a doomed segment stays")
		}
		at(450)
		j.Remove("b")
		j.Stop()
		want := []string{
			"0 write out 1", "10 full", "10 spare 2", "10 remove a", "100 checkpoint", "130 retention", "200 checkpoint", "300 checkpoint",
			"400 checkpoint", "430 retention", "450 remove b",
		}
		if !slices.Equal(did, want) {
			t.Errorf("did  %q\nwant %q", did, want)
		}
	})
}
