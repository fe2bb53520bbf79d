package coordinators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/coord"
	"kaas/group"
	"kaas/internal/vfs"
	"kaas/logstore"
	"kaas/meta"
)

// offsetsPartition is a partition of __consumer_offsets on a file system of its own.
func offsetsPartition(t testing.TB, files vfs.FS) (*logstore.Store, *shardLog) {
	t.Helper()
	store, err := logstore.Open(context.Background(), logstore.Options{Dirs: []string{"/data"}, FS: files, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Ensure(meta.ConsumerOffsetsTopic, [16]byte{1}, 0, logstore.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return store, &shardLog{log: log}
}

func newGroupRuntime(log coord.Log) *coord.Runtime[*group.Machine] {
	machine := group.DefaultConfig()
	r := coord.NewRuntime(coord.Options[*group.Machine]{NewMachine: func(int32) *group.Machine { return group.NewMachine(&machine) }})
	r.Load(0, log)
	return r
}

// commitTo commits one offset and waits for the answer.
func commitTo(r *coord.Runtime[*group.Machine], name string, offset int64) int16 {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Version, request.Group, request.Generation = 8, name, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	request.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	done := make(chan int16, 1)
	r.Submit(0, coord.Event[*group.Machine]{
		Run: func(m *group.Machine, t *coord.Turn) {
			m.OffsetCommit(t, request, func(response *kmsg.OffsetCommitResponse) { done <- response.Topics[0].Partitions[0].ErrorCode })
		},
		Refused: func(err error) { done <- group.ErrorCode(err) },
	})
	return <-done
}

// loadedOffset is what a new machine makes of the log.
func loadedOffset(t testing.TB, s *coord.Steps[*group.Machine], name string) int64 {
	t.Helper()
	request := kmsg.NewOffsetFetchRequestGroup()
	request.Group = name
	request.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
	offset, answered := int64(-1), false
	eventually(t, "the loaded tail is committed", func() bool {
		err := s.Turn(1, 1, func(m *group.Machine, turn *coord.Turn) {
			m.OffsetFetch(turn, &request, false, func(r *kmsg.OffsetFetchResponseGroup) {
				answered, offset = true, r.Topics[0].Partitions[0].Offset
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return answered
	})
	return offset
}

// Crashes at many operations of the disk, each with a random share of what was not
// synced: an offset whose commit was acknowledged is there, and nothing that was
// not tried.
func TestCommittedOffsetsSurviveACrashAnywhere(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 3))
	const groups, commits = 6, 25
	var tried, acked [groups]atomic.Int64
	files := vfs.NewRecording()
	if err := files.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := files.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // serialises crash points and guards random
	crashes := 0
	var armed atomic.Bool
	crash := func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if !armed.Load() || random.IntN(4) != 0 {
			return nil
		}
		var before [groups]int64
		for i := range acked {
			before[i] = acked[i].Load()
		}
		clone, err := files.Clone(random.IntN)
		if err != nil {
			t.Error(err)
			return nil
		}
		crashes++
		store, log := offsetsPartition(t, clone)
		machine := group.DefaultConfig()
		steps, err := coord.NewSteps(group.NewMachine(&machine), log, 1, 1)
		if err != nil {
			t.Errorf("crash before %+v: %v", op, err)
			return nil
		}
		for i := range before {
			if offset := loadedOffset(t, steps, fmt.Sprint("g", i)); offset < before[i]-1 || offset >= tried[i].Load() {
				t.Errorf("crash before %+v: g%d has offset %d, %d were acknowledged, %d tried", op, i, offset, before[i], tried[i].Load())
			}
		}
		if err := errors.Join(store.Close(context.Background()), clone.Close()); err != nil {
			t.Error(err)
		}
		return nil
	}
	store, log := offsetsPartition(t, &vfs.Faulty{FS: files, Before: crash})
	runtime := newGroupRuntime(log)
	eventually(t, "the shard is loaded", func() bool { return commitTo(runtime, "first", 0) == 0 })
	armed.Store(true)
	var all sync.WaitGroup
	for i := range groups {
		all.Go(func() {
			for n := range int64(commits) {
				tried[i].Store(n + 1)
				if code := commitTo(runtime, fmt.Sprint("g", i), n); code != 0 {
					t.Errorf("g%d: commit %d: code %d", i, n, code)
					return
				}
				acked[i].Store(n + 1)
			}
		})
	}
	all.Wait()
	armed.Store(false)
	if err := errors.Join(runtime.Close(context.Background()), store.Close(context.Background())); err != nil {
		t.Error(err)
	}
	if crashes < 5 {
		t.Errorf("only %d crashes were tried", crashes)
	}
}

// A disk that refuses: nobody is told that an offset is committed, and nobody waits
// for ever.
func TestGroupsOnADiskThatFails(t *testing.T) {
	t.Parallel()
	files := vfs.NewMem()
	if err := files.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	var failing atomic.Bool
	store, log := offsetsPartition(t, &vfs.Faulty{FS: files, Before: func(op vfs.Op) error {
		if failing.Load() {
			return errors.New("input/output error")
		}
		return nil
	}})
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	runtime := newGroupRuntime(log)
	eventually(t, "the shard is loaded", func() bool { return commitTo(runtime, "g", 7) == 0 })
	failing.Store(true)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			switch code := commitTo(runtime, fmt.Sprint("g", i), 8); code {
			case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code:
			default:
				t.Errorf("a commit to a failing disk is answered %d", code)
			}
		})
	}
	all.Wait()
	failing.Store(false)
	eventually(t, "the coordinator serves again", func() bool { return commitTo(runtime, "g", 9) == 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := runtime.Close(ctx); err != nil {
		t.Errorf("the runtime does not end: %v", err)
	}
}

// eventually polls for what another goroutine does. Polls count, too: a machine that
// stood still has not waited.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for polls := 0; !condition(); polls++ {
		if polls > 2000 && time.Now().After(end) {
			t.Fatalf("not after 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
