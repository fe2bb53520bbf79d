package logstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/logstore/layout"
)

// Measurements on a real disk, for docs/design/logstore-figures.md. They want the machine alone:
//
//	go test -c ./logstore && ./logstore.test -test.v -test.run Figure -figures.dir=/some/disk
var (
	figuresDir        = flag.String("figures.dir", "", "directory for the measurements; \"\": they are skipped")
	figuresBytes      = flag.Int64("figures.bytes", 10<<30, "size of the logs that TestFigureRecovery recovers")
	figuresPartitions = flag.Int("figures.partitions", 10_000, "partitions of TestFigureIdle")
	figuresFor        = flag.Duration("figures.for", 10*time.Second, "length of the timed phases")
)

func figures(t *testing.T, change ...func(*Options)) *harness {
	t.Helper()
	if *figuresDir == "" {
		t.Skip("a measurement: -figures.dir")
	}
	dir, err := os.MkdirTemp(*figuresDir, "figures")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return start(t, append([]func(*Options){func(o *Options) { o.Dirs, o.Cleaner = []string{dir}, byHand }}, change...)...)
}

// quantiles sorts samples.
func quantiles(samples []time.Duration) string {
	if len(samples) == 0 {
		return "no sample"
	}
	slices.SortFunc(samples, cmp.Compare)
	at := func(q float64) time.Duration {
		return samples[int(q*float64(len(samples)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, largest %v of %d", at(0.5), at(0.99), at(0.999), at(1), len(samples))
}

// evict drops a directory's files from the page cache.
func evict(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read from
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func residentBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// TestFigureRecovery: time to open logs of 10 GB after kill -9, cold: with the recovery checkpoint of a running broker, which
// leaves only what came after it to be scanned, and with no checkpoint at all, which is the worst that can happen.
func TestFigureRecovery(t *testing.T) {
	h := figures(t)
	const partitions = 8
	one := make([]byte, 900<<10)
	_, _ = rand.Read(one) // never fails
	b := records(string(one))
	each := *figuresBytes / partitions
	var writers sync.WaitGroup
	started := time.Now()
	for i := range partitions {
		p := h.partition(fmt.Sprint("t", i))
		writers.Go(func() {
			for p.SizeBytes() < each {
				batch.View(b).SetBaseOffset(0)
				mine := slices.Clone(b)
				for range 32 {
					batch.View(mine).SetBaseOffset(0)
					if _, err := p.Append(mine, AppendOptions{}); err != nil {
						t.Error(err)
						return
					}
				}
				if err := awaitErr(p, p.LogEndOffset()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	t.Logf("%d MB in %d partitions written in %v", *figuresBytes>>20, partitions, time.Since(started).Round(time.Millisecond))
	h.s.checkpoint()
	for i := range partitions {
		put(t, h.s.Get(fmt.Sprint("t", i), 0), slices.Clone(b)) // behind the checkpoint
	}
	h.kill()
	for _, checkpointed := range []bool{true, false} {
		if !checkpointed {
			if err := os.Remove(filepath.Join(h.o.Dirs[0], layout.RecoveryPointName)); err != nil {
				t.Fatal(err)
			}
		}
		evict(t, h.o.Dirs[0])
		started, cpu := time.Now(), cpuTime()
		h.open()
		t.Logf("recovery checkpoint %v: opened in %v with %v of CPU, %d MB scanned", checkpointed,
			time.Since(started).Round(time.Millisecond), (cpuTime() - cpu).Round(time.Millisecond), h.s.counters.RecoveredBytes.Load()>>20)
		if checkpointed && h.s.counters.RecoveredBytes.Load() > *figuresBytes/10 {
			t.Error("more was scanned than lies behind the checkpoint")
		}
		h.kill()
	}
	h.open()
}

// TestFigureIdle: what idle partitions cost: time to make and to open them, memory, CPU while nothing happens.
func TestFigureIdle(t *testing.T) {
	h := figures(t, func(o *Options) { o.Cleaner = CleanerOptions{} })
	n := *figuresPartitions
	started := time.Now()
	var makers sync.WaitGroup
	queue := make(chan int)
	for range 64 {
		makers.Go(func() {
			for i := range queue {
				if _, err := h.s.Ensure("idle", topicID, int32(i), DefaultConfig()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	makers.Wait()
	t.Logf("%d partitions made in %v", n, time.Since(started).Round(time.Millisecond))
	for _, killed := range []bool{false, true} {
		if killed {
			h.kill()
		} else {
			started = time.Now()
			h.stop()
			t.Logf("clean stop in %v", time.Since(started).Round(time.Millisecond))
		}
		debug.FreeOSMemory()
		before := residentBytes(t)
		started, cpu := time.Now(), cpuTime()
		h.open()
		took, used := time.Since(started), cpuTime()-cpu
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("opened in %v with %v of CPU (killed before: %v); %d bytes of heap, %d bytes resident a partition", took.Round(time.Millisecond),
			used.Round(time.Millisecond), killed, int64(m.HeapAlloc)/int64(n), (residentBytes(t)-before)/int64(n))
	}
	cpu := cpuTime()
	<-time.After(*figuresFor) // the measurement: nothing happens meanwhile
	t.Logf("idle: %.4f %% of one CPU over %v", 100*float64(cpuTime()-cpu)/float64(*figuresFor), *figuresFor)
}

// TestFigureStop: a clean stop of 1,000 partitions that were written to, and one right after a recovery.
func TestFigureStop(t *testing.T) {
	h := figures(t)
	const n = 1000
	fill := func(from int32) {
		var writers sync.WaitGroup
		for i := range n {
			p := h.partition(fmt.Sprint("t", i))
			writers.Go(func() { put(t, p, produced(7, 0, from, false, "x")) })
		}
		writers.Wait()
	}
	fill(0)
	h.kill()
	h.open()
	for _, what := range []string{"after a recovery", "after a write to each", "after nothing"} {
		if what == "after a write to each" {
			fill(1)
		}
		started := time.Now()
		h.stop()
		t.Logf("%d partitions, %s: stopped in %v", n, what, time.Since(started).Round(time.Millisecond))
		h.open()
	}
}

// TestFigureFlat: latency of producers, append to commit, at a steady rate; alone, and while retention deletes segments of
// 256 MB and a compaction reads and writes at full speed beside them.
func TestFigureFlat(t *testing.T) {
	h := figures(t)
	const producers = 4
	one := make([]byte, 900<<10)
	_, _ = rand.Read(one) // never fails
	big := records(string(one))
	fill := func(p *Partition, bytes int64) {
		for p.SizeBytes() < bytes {
			b := slices.Clone(big)
			if _, err := p.Append(b, AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		await(t, p, p.LogEndOffset())
	}
	measure := func(stop <-chan struct{}) string {
		var mu sync.Mutex
		var all []time.Duration
		var running sync.WaitGroup
		for i := range producers {
			p := h.partition(fmt.Sprint("p", i))
			running.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				var mine []time.Duration
				for {
					select {
					case <-stop:
						mu.Lock()
						all = append(all, mine...)
						mu.Unlock()
						return
					case <-tick.C:
					}
					began := time.Now()
					put(t, p, records("a small record"))
					mine = append(mine, time.Since(began))
				}
			})
		}
		running.Wait()
		return quantiles(all)
	}
	after := func(d time.Duration) <-chan struct{} {
		stop := make(chan struct{})
		time.AfterFunc(d, func() { close(stop) })
		return stop
	}
	for round := range 2 {
		old := h.partition(fmt.Sprint("old", round), func(c *Config) { c.SegmentBytes, c.FileDeleteDelayMs = 256<<20, 0 })
		fill(old, 1<<30)
		dirty := h.partition(fmt.Sprint("dirty", round), compacted, func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 64<<20, 4096 })
		value := strings.Repeat("v", 900)
		for i := 0; dirty.SizeBytes() < 256<<20; i++ {
			var b batch.Builder
			b.Compression = batch.LZ4
			for k := range 500 {
				b.Append(1000, fmt.Appendf(nil, "key-%d", (i*500+k)%50_000), fmt.Appendf(nil, "%d %s", i, value))
			}
			if _, err := dirty.Append(build(&b), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
			if i > 20_000 {
				break
			}
		}
		await(t, dirty, dirty.LogEndOffset())
		unix.Sync()
		alone := measure(after(*figuresFor))
		stop := make(chan struct{})
		var latency string
		var measuring sync.WaitGroup
		measuring.Go(func() { latency = measure(stop) })
		began := time.Now()
		c := old.Config()
		c.RetentionBytes = 1
		old.SetConfig(c)
		h.s.applyRetention()
		retention := time.Since(began)
		began = time.Now()
		cleanNow(t, dirty)
		compaction := time.Since(began)
		if left := *figuresFor - retention - compaction; left > 0 {
			<-after(left)
		}
		close(stop)
		measuring.Wait()
		t.Logf("alone: %s", alone)
		t.Logf("beside retention (%v) and compaction (%v): %s", retention.Round(time.Millisecond), compaction.Round(time.Millisecond), latency)
		if err := h.s.Delete(old.Topic(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	h.open()
}
