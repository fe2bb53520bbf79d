package groupcommit

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kaas/obs"
)

// TestRounds: everything that is enqueued is committed after it was enqueued, by a round or by a worker to which a round handed
// it, one commit of a task at a time; Wait and Close return when nothing is left.
func TestRounds(t *testing.T) {
	t.Parallel()
	counters := &Counters{}
	registry := obs.NewRegistry()
	counters.RoundSeconds.Store(registry.Histogram("kaas_commit_round_seconds"))
	counters.TaskSeconds.Store(registry.Histogram("kaas_commit_files_seconds"))
	c := New(4, func() int64 { return 1 }, counters)
	const tasks, enqueues = 20, 300
	type log struct {
		task                Task
		appended, committed atomic.Int64
		running             atomic.Bool
	}
	logs := make([]log, tasks)
	var byRounds, alone atomic.Int64
	commit := func(l *log) {
		if l.running.Swap(true) {
			t.Error("two commits of one task at a time")
		}
		l.committed.Store(l.appended.Load())
		l.running.Store(false)
	}
	var groups []*Group
	for range 2 {
		groups = append(groups, c.NewGroup(func(round []*Task) {
			for i, task := range round {
				l := task.Owner.(*log)
				if n := l.appended.Load(); n%3 == 0 {
					c.Direct(round, i)
					continue
				}
				byRounds.Add(1)
				commit(l)
			}
		}))
	}
	for i := range logs {
		l := &logs[i]
		l.task.Owner, l.task.Commit = l, func() { alone.Add(1); commit(l) }
		if i%5 > 0 { // the others have no group
			c.SetGroup(&l.task, groups[i%2])
		}
	}
	var work sync.WaitGroup
	for i := range logs {
		work.Go(func() {
			for range enqueues {
				logs[i].appended.Add(1)
				c.Enqueue(&logs[i].task)
				if i%7 == 0 {
					c.SetGroup(&logs[i].task, groups[(i+1)%2])
				}
			}
			c.Settle(&logs[i].task)
			if logs[i].committed.Load() != enqueues {
				t.Errorf("task %d: %d of %d", i, logs[i].committed.Load(), enqueues)
			}
		})
	}
	work.Wait()
	c.Wait()
	for i := range logs {
		logs[i].appended.Add(1)
		c.Enqueue(&logs[i].task)
	}
	c.Close()
	for i := range logs {
		if logs[i].committed.Load() != enqueues+1 {
			t.Errorf("task %d, queued before Close: %d", i, logs[i].committed.Load())
		}
	}
	var text strings.Builder
	registry.Write(&text)
	if n := counters.RoundTasks.Load(); n != byRounds.Load() || n == 0 || !strings.Contains(text.String(), fmt.Sprintf("kaas_commit_files_seconds_count %d\n", alone.Load())) {
		t.Errorf("%d committed by rounds were counted as %d, %d alone as in\n%s", byRounds.Load(), n, alone.Load(), text.String())
	}
}

// TestOneRoundForAll: what is enqueued while a round runs shares the next one.
func TestOneRoundForAll(t *testing.T) {
	t.Parallel()
	c := New(1, func() int64 { return 1 }, &Counters{})
	began, proceed := make(chan int, 10), make(chan struct{})
	g := c.NewGroup(func(round []*Task) {
		began <- len(round)
		<-proceed
	})
	tasks := make([]Task, 50)
	for i := range tasks {
		c.SetGroup(&tasks[i], g)
	}
	c.Enqueue(&tasks[0])
	if n := <-began; n != 1 {
		t.Fatalf("a round of %d", n)
	}
	for range 3 {
		for i := range tasks {
			c.Enqueue(&tasks[i])
		}
	}
	proceed <- struct{}{}
	if n := <-began; n != len(tasks) {
		t.Errorf("a round of %d", n)
	}
	close(proceed)
	c.Wait()
	c.Close()
	if len(began) != 0 {
		t.Errorf("%d more rounds", len(began))
	}
}
