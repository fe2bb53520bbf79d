package logstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

var (
	volumeFor  = flag.Duration("volume.for", 2*time.Second, "how long TestExactlyOnceOnASmallVolume runs")
	volumeSeed = flag.Uint64("volume.seed", 0, "its seed; 0: by the clock")
)

// smallVolume is a volume that runs full, and now and then says so when it is not.
type smallVolume struct {
	m *vfs.Mem

	mu       sync.Mutex
	rng      *rand.Rand
	capacity int64 // 0: the volume is large and well
	used     int64 // at most; looked up again when it passes the capacity
	refused  int
	failed   int // syncs
}

func (v *smallVolume) size(dir string) (bytes int64) {
	entries, err := v.m.List(dir)
	if err != nil {
		return 0 // gone meanwhile
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if e.Dir {
			bytes += v.size(name)
		} else if st, err := v.m.Stat(name); err == nil {
			bytes += 64 + st.SizeBytes
		}
	}
	return bytes
}

// before gives room away. What it refuses is a whole kind of operation, wherever it comes from: log, index, snapshot, journal,
// checkpoint, the next segment's file, or what compaction and recovery write.
func (v *smallVolume) before(op vfs.Op) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.capacity == 0 {
		return nil
	}
	need, unlucky := int64(0), v.rng.IntN(100) == 0
	switch op.Kind {
	case vfs.OpWrite:
		need = int64(op.Len)
		if st, err := v.m.Stat(op.Name); err == nil {
			need = max(op.Offset+int64(op.Len)-st.SizeBytes, 0)
		}
		unlucky = unlucky && need > 0 // what is allocated already is written
	case vfs.OpCreate:
		if _, err := v.m.Stat(op.Name); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		need = 64
	case vfs.OpMkdir:
		need = 64
	case vfs.OpDatasync: // of a file system that allocates only now
		if v.rng.IntN(400) == 0 {
			v.failed++
			return unix.ENOSPC
		}
		return nil
	default:
		return nil
	}
	if v.used+need > v.capacity {
		v.used = v.size("/data")
	}
	fits := max(v.capacity-v.used, 0)
	if need <= fits && !unlucky {
		v.used += need
		return nil
	}
	v.refused++
	if op.Kind == vfs.OpWrite {
		return &vfs.ShortWrite{Len: int(min(fits, int64(op.Len)/2)), Err: unix.ENOSPC}
	}
	return unix.ENOSPC
}

// client is an idempotent producer of one partition that sends again what failed, in order, and gives up waiting at times.
type client struct {
	id    int64
	acked []int64 // offset of each record
	sent  int     // records that were tried
}

func (c *client) record(i int) []byte {
	return produced(c.id, 0, int32(i), false, fmt.Sprintf("%d:%d", c.id, i))
}

// send tries some more records. Errors of the disk are the client's to bear; any other is the test's.
func (c *client) send(p *Partition, rng *rand.Rand) error {
	type one struct {
		at   int64
		done chan error
	}
	var window []one
	for range 1 + rng.IntN(3) {
		i := len(c.acked) + len(window)
		r, err := p.Append(c.record(i), AppendOptions{})
		switch {
		case errors.Is(err, ErrOutOfOrderSequence):
			return fmt.Errorf("record %d of %d, %d acknowledged: %w", i, c.id, len(c.acked), err)
		case errors.Is(err, ErrStorage) || errors.Is(err, ErrStalled) || errors.Is(err, ErrClosed):
			err = nil
		case err == nil:
			c.sent = max(c.sent, i+1)
			w := one{r.BaseOffset, make(chan error, 1)}
			p.WhenCommitted(&Waiter{Offset: r.LastOffset + 1, Done: func(_ *Waiter, err error) { w.done <- err }})
			window = append(window, w)
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	patience := rng.IntN(4) > 0
	for _, w := range window {
		if !patience { // a time-out: all of the window is sent again
			return nil
		}
		if err := <-w.done; err != nil {
			return nil // and everything behind it
		}
		c.acked = append(c.acked, w.at)
	}
	return nil
}

// verify reads the log: of each producer a run of records without a gap or a repetition, and what was acknowledged where it was.
func verifyVolume(t *testing.T, p *Partition, clients []*client) error {
	next, got := map[int64]int{}, map[string]int64{}
	start := p.LogStartOffset()
	for offset := start; offset < p.LogEndOffset(); {
		s, err := p.Read(offset, 1<<20, true, ReadLogEnd)
		if err != nil || s.Len == 0 {
			return fmt.Errorf("read of %d: %d bytes, %w", offset, s.Len, err)
		}
		all := content(t, &s)
		s.Release()
		for rest := all; len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err != nil || v.Validate() != nil {
				return fmt.Errorf("at %d: %v", offset, err)
			}
			it, err := v.Records(1 << 20)
			if err != nil {
				return err
			}
			for it.Next() {
				var id int64
				var i int
				if _, err := fmt.Sscanf(string(it.Record().Value), "%d:%d", &id, &i); err != nil {
					return fmt.Errorf("offset %d holds %q", it.Record().Offset, it.Record().Value)
				}
				if want, seen := next[id]; seen && i != want {
					return fmt.Errorf("offset %d holds %d:%d, want %d", it.Record().Offset, id, i, want)
				}
				next[id] = i + 1
				got[fmt.Sprint(id, i)] = it.Record().Offset
			}
			it.Close()
			offset, rest = v.LastOffset()+1, after
		}
	}
	for _, c := range clients {
		for i, offset := range c.acked {
			if at, is := got[fmt.Sprint(c.id, i)]; offset >= start && (!is || at != offset) {
				return fmt.Errorf("record %d of %d was acknowledged at %d, it is at %d (%v); the log goes from %d to %d", i, c.id, offset, at, is, start, p.LogEndOffset())
			}
		}
	}
	return nil
}

// TestExactlyOnceOnASmallVolume: a volume that is full most of the time, because retention makes little room, and clients that send
// again what failed, or what they did not wait for, over kills, power failures and clean stops: no value twice, none lost.
func TestExactlyOnceOnASmallVolume(t *testing.T) {
	t.Parallel()
	seed := *volumeSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-volume.seed)", seed)
	rounds, records, refused, failed := 0, 0, 0, 0
	for end := time.Now().Add(*volumeFor); rounds == 0 || time.Now().Before(end) && !t.Failed(); rounds++ {
		n, v := smallVolumeRound(t, rand.New(rand.NewPCG(seed, uint64(rounds))), rounds)
		records, refused, failed = records+n, refused+v.refused, failed+v.failed
	}
	t.Logf("%d rounds, %d records acknowledged, %d operations found no room, %d syncs failed", rounds, records, refused, failed)
}

func smallVolumeConfig(c *Config) {
	c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelayMs, c.RetentionBytes, c.RetentionMs = 700, 100, 0, 2500, -1
}

func smallVolumeRound(t *testing.T, rng *rand.Rand, round int) (records int, v *smallVolume) {
	const partitions, producers = 3, 2
	v = &smallVolume{m: vfs.NewRecording(), rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
	makeDataDir(t, v.m)
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.ReopenIntervalMs, o.Cleaner, o.JournalBytes = []string{"/data"}, &vfs.Faulty{FS: v.m, Before: v.before}, 1, byHand, -1
		if round%2 == 1 {
			o.JournalBytes = smallJournal
		}
	})
	var clients [partitions][]*client
	for i := range partitions {
		h.partition(fmt.Sprint("t", i), smallVolumeConfig)
		for k := range producers {
			clients[i] = append(clients[i], &client{id: int64(10*i + k)})
		}
	}
	if round%2 == 1 {
		h.makeJournals()
	}
	v.mu.Lock()
	v.capacity = v.size("/data") + int64(rng.IntN(12_000))
	v.mu.Unlock()
	for range 4 {
		busy(t, h, &clients, rng.Uint64())
		if t.Failed() {
			break
		}
		v.stopAndStart(t, h, rng)
		for i := range partitions {
			p := h.s.Get(fmt.Sprint("t", i), 0)
			eventually(t, p.Err)
			if err := verifyVolume(t, p, clients[i]); err != nil {
				t.Errorf("round %d, partition %d: %v\n%s", round, i, err, h.logs)
			}
		}
	}
	for i := range partitions {
		for _, c := range clients[i] {
			records += len(c.acked)
		}
	}
	v.mu.Lock()
	v.capacity = 0
	v.mu.Unlock()
	h.kill()
	if err := v.m.Close(); err != nil {
		t.Error(err)
	}
	return records, v
}

// awaitWell is the back-off of a client: it does not wait for ever, since a recovery may need room that nobody makes.
func awaitWell(p *Partition) bool {
	for range 5 {
		if p.Err() == nil {
			return true
		}
		<-time.After(time.Millisecond)
	}
	return false
}

// busy has the clients send for a while, each partition's on a goroutine of its own, beside retention and checkpoints.
func busy(t *testing.T, h *harness, clients *[3][]*client, seed uint64) {
	var work sync.WaitGroup
	for i := range clients {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			p := h.s.Get(fmt.Sprint("t", i), 0)
			for range 25 {
				if !awaitWell(p) {
					continue
				}
				if err := clients[i][rng.IntN(len(clients[i]))].send(p, rng); err != nil {
					t.Errorf("partition %d: %v\n%s", i, err, h.logs)
					return
				}
			}
		})
	}
	work.Go(func() {
		for range 5 {
			h.s.applyRetention()
			h.s.checkpoint()
		}
	})
	work.Wait()
}

// stopAndStart ends the store in one of three ways and opens it again.
func (v *smallVolume) stopAndStart(t *testing.T, h *harness, rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		return
	case 1:
		_ = h.s.Close(context.Background()) // it says what the volume has refused, and marks nothing as clean then
	case 2:
		h.kill()
	case 3:
		clone, err := v.m.Clone(rand.New(rand.NewPCG(rng.Uint64(), 0)).IntN)
		if err != nil {
			t.Fatal(err)
		}
		h.kill()
		if err := v.m.Close(); err != nil {
			t.Error(err)
		}
		v.mu.Lock()
		v.m = clone
		v.mu.Unlock()
		h.o.FS = &vfs.Faulty{FS: clone, Before: v.before}
	}
	more := func(again func() error) { // until it works: somebody makes room
		t.Helper()
		err := again()
		for try := 0; errors.Is(err, unix.ENOSPC) && try < 100; try++ {
			v.mu.Lock()
			v.capacity += 2000
			v.mu.Unlock()
			err = again()
		}
		if err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	more(func() (err error) {
		h.s, err = Open(context.Background(), h.o)
		return err
	})
	for i := range 3 {
		more(func() error {
			c := DefaultConfig()
			smallVolumeConfig(&c)
			_, err := h.s.Ensure(fmt.Sprint("t", i), topicID, 0, c)
			return err
		})
	}
}
