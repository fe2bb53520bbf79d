package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// flipped changes one bit of a file in place, or, with the bit -1, nothing, and returns the file as it was.
func flipped(t *testing.T, m *vfs.Mem, file string, bit int) []byte {
	t.Helper()
	b, err := vfs.ReadFile(m, file, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if bit >= 0 {
		changed := bytes.Clone(b)
		changed[bit/8] ^= 1 << (bit % 8)
		if err := vfs.WriteFileAtomic(m, file, filepath.Dir(file), changed); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestDamageBelowTheRecoveryPoint: what was synced is not cut because a header there says nothing any more. The partition
// is offline, others are not, and what the error says gives up what can't be read and nothing else.
func TestDamageBelowTheRecoveryPoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		bit  int
	}{{"length", 8 * 9}, {"magic", 8 * 16}, {"base offset, forwards", 8*7 + 4}, {"base offset, far away", 8 * 2}} {
		m := vfs.NewMem()
		h := start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, m, byHand })
		p := h.partition("t")
		put(t, h.partition("other"), records("y"))
		var at [6]int64
		for i := range at {
			at[i] = p.SizeBytes()
			put(t, p, records(fmt.Sprint(i)))
		}
		h.s.checkpoint()
		put(t, p, records("behind the checkpoint"))
		file := layout.SegmentFile(p.path(), 0, layout.LogSuffix)
		h.kill()
		const damaged = 3
		whole := flipped(t, m, file, int(at[damaged])*8+tc.bit)
		h.open()
		_, err := h.s.Ensure("t", topicID, 0, DefaultConfig())
		if !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "truncate -s ") {
			t.Fatalf("%s: %v", tc.name, err)
		}
		expect(t, h.partition("other"), "y")
		if st, err := m.Stat(file); err != nil || st.SizeBytes != int64(len(whole)) {
			t.Fatalf("%s: the log has %d bytes, had %d, %v", tc.name, st.SizeBytes, len(whole), err)
		}
		var size int64
		_, command, _ := strings.Cut(err.Error(), "truncate -s ")
		if _, err := fmt.Sscan(command, &size); err != nil || size < at[damaged] || size > at[damaged+1] {
			t.Fatalf("%s: %q: the damaged batch stands at %d, %v", tc.name, command, at[damaged], err)
		}
		h.kill()
		if err := vfs.WriteFileAtomic(m, file, "/data", whole); err != nil { // the copy
			t.Fatal(err)
		}
		h.open()
		expect(t, h.partition("t"), "0", "1", "2", "3", "4", "5", "behind the checkpoint")
		h.stop()
	}
}

// TestBitFlipsInSealedSegments: a reader gets the batch that holds what it asked for, or bytes that do not fit their
// checksum, or CORRUPT_MESSAGE, as from Kafka. It never gets something else, nothing, or what stands behind.
func TestBitFlipsInSealedSegments(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	m := vfs.NewMem()
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, m, byHand })
	small := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 700, 200 }
	p := h.partition("t", small)
	var want []uint32 // checksum of the batch that holds an offset
	for i := range 30 {
		b := stamped(int64(1000+i), fmt.Sprintf("a%02d", i), fmt.Sprintf("b%02d", i))
		put(t, p, b)
		want = append(want, batch.View(b).CRC(), batch.View(b).CRC())
	}
	file := layout.SegmentFile(p.path(), p.segments.Load().all[1].BaseOffset, layout.LogSuffix)
	h.restart() // the index files are there
	whole := flipped(t, m, file, -1)
	size, batchBytes := len(whole), batch.View(whole).SizeBytes()
	// No checksum is about base offsets and leader epochs. Offsets are compared with their neighbours'; but of a batch that the
	// index names nobody knows a better one.
	named := map[int]bool{}
	for index := flipped(t, m, strings.TrimSuffix(file, layout.LogSuffix)+layout.IndexSuffix, -1); len(index) > 0; index = index[8:] {
		named[int(binary.BigEndian.Uint32(index[4:]))] = true
	}
	var headers []int
	for at := 0; at < size; at += batchBytes {
		for bit := range batch.HeaderBytes * 8 {
			headers = append(headers, at*8+bit)
		}
	}
	counts := map[string]int{}
	for range 60 {
		bit := rng.IntN(size * 8)
		if rng.IntN(2) == 0 {
			bit = headers[rng.IntN(len(headers))]
		}
		if in := bit / 8 % batchBytes; in < 8 && named[bit/8/batchBytes*batchBytes] || in >= 12 && in < 16 {
			continue
		}
		h.stop()
		flipped(t, m, file, bit)
		h.open()
		p = h.partition("t", small)
		for offset := int64(0); offset < p.LogEndOffset(); offset += 2 { // where batches begin, as consumers do
			what, err := fetched(t, p, offset, want[offset])
			if err != nil {
				t.Errorf("bit %d, fetch of %d: %v", bit, offset, err)
			}
			counts[what]++
		}
		h.stop()
		if err := vfs.WriteFileAtomic(m, file, "/data", whole); err != nil {
			t.Fatal(err)
		}
		h.open()
	}
	t.Logf("%v", counts)
	if counts["corrupt message"] == 0 || counts["checksum"] == 0 {
		t.Error("the bits were flipped where nothing sees them: the test proves nothing")
	}
}

// fetched says what a fetch got; an error is what it must not get.
func fetched(t *testing.T, p *Partition, offset int64, want uint32) (what string, err error) {
	t.Helper()
	s, err := p.Read(offset, 1<<20, true, ReadUncommitted)
	if errors.Is(err, ErrCorruptMessage) {
		return "corrupt message", nil
	}
	if err != nil {
		return "", err
	}
	defer s.Release()
	if s.Len == 0 {
		return "", errors.New("nothing")
	}
	v, _, err := batch.Next(content(t, &s))
	if err != nil {
		return "checksum", nil // a client says so, too
	}
	switch {
	case v.Validate() != nil:
		return "checksum", nil
	case v.BaseOffset() > offset || v.LastOffset() < offset:
		return "", fmt.Errorf("offsets %d to %d", v.BaseOffset(), v.LastOffset())
	case v.CRC() != want:
		return "", fmt.Errorf("another batch, %d to %d", v.BaseOffset(), v.LastOffset())
	}
	return "right", nil
}

// TestCleanerMeetsBitFlips: a round that meets a flipped bit ends, and the log is as it was: nothing is summed up anew, and
// nothing is dropped.
func TestCleanerMeetsBitFlips(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	m := vfs.NewMem()
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, m, byHand })
	p := h.partition("t", compacted)
	for i := range 20 {
		put(t, p, keyed(batch.Compression(i%5), int64(1000+i), fmt.Sprintf("k%d=v%d", i%4, i), "same=x"))
	}
	g := p.segments.Load().all[1]
	file := layout.SegmentFile(p.path(), g.BaseOffset, layout.LogSuffix)
	size := int(g.SizeBytes.Load())
	for range 25 {
		bit := rng.IntN(size * 8)
		if in := bit / 8 % size; in < 16 { // base offset and leader epoch of the first batch: no checksum is about them
			continue
		}
		h.stop()
		whole := flipped(t, m, file, bit)
		before := logBytes(t, m, "/data/t-0")
		h.open()
		p = h.partition("t", compacted)
		err := tryClean(t, p)
		if errors.Is(err, errNothingToClean) {
			t.Fatal("nothing was cleaned")
		}
		h.stop()
		if after := logBytes(t, m, "/data/t-0"); err != nil && !bytes.Equal(before, after) {
			t.Errorf("bit %d: the round failed with %v and changed the log", bit, err)
		} else if err == nil && !unchecked(whole, bit) {
			t.Errorf("bit %d was not seen", bit)
		}
		if err != nil {
			if err := vfs.WriteFileAtomic(m, file, "/data", whole); err != nil {
				t.Fatal(err)
			}
			h.open()
			continue
		}
		return // cleaned: the segments are others
	}
}

// unchecked says that a bit stands where no checksum is.
func unchecked(b []byte, bit int) bool {
	for at := 0; at < len(b); at += batch.View(b[at:]).SizeBytes() {
		if in := bit/8 - at; in >= 0 && in < batch.View(b[at:]).SizeBytes() {
			return in < 8 || in >= 12 && in < 16
		}
	}
	return false
}

func logBytes(t *testing.T, m *vfs.Mem, dir string) (all []byte) {
	t.Helper()
	entries, err := m.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, layout.LogSuffix) {
			all = append(all, flipped(t, m, filepath.Join(dir, e.Name), -1)...)
		}
	}
	return all
}

// TestLyingCountsAreHarmless: records of compressed batches are not counted when they are appended, so one may hold fewer, or
// more, than its header says, or none. Its offsets are those of the header everywhere; readers get it as it was sent; the cleaner keeps
// it as it is and goes on with the others.
func TestLyingCountsAreHarmless(t *testing.T) {
	t.Parallel()
	for codec := batch.Gzip; codec <= batch.Zstd; codec++ {
		m := vfs.NewMem()
		h := start(t, func(o *Options) { o.Dirs, o.FS, o.Cleaner = []string{"/data"}, m, byHand })
		plain := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 600, 100 }
		p := h.partition("t", plain)
		pairs := []string{"a=1", "b=1", "c=1", "d=1"}
		put(t, p, keyed(codec, 1000, pairs...))
		lies := map[int64]batch.View{}
		next := p.LogEndOffset()
		for _, count := range []int32{1, 3, 5, 8} {
			b := claiming(count, keyed(codec, 2000, "lie=1", "b=2", "lie=3", "lie=4"))
			r := put(t, p, b)
			if r.BaseOffset != next || r.LastOffset != next+int64(count)-1 {
				t.Fatalf("codec %d, %d records claimed: %+v", codec, count, r)
			}
			lies[r.BaseOffset] = b
			next = r.LastOffset + 1
		}
		garbage := keyed(codec, 2500, "lie=5", "lie=6")
		copy(garbage[batch.HeaderBytes:], bytes.Repeat([]byte{0x5a}, 12))
		lies[put(t, p, fixCRC(garbage)).BaseOffset] = garbage
		for i := range 12 {
			put(t, p, keyed(codec, int64(3000+i), fmt.Sprint("a=", i), fmt.Sprint("c=", i)))
		}
		p = h.partition("t", compacted)
		if !cleanNow(t, p) {
			t.Fatal("nothing was cleaned")
		}
		check := func() {
			t.Helper()
			for offset, sent := range lies {
				s, err := p.Read(offset, 1, true, ReadUncommitted)
				if err != nil {
					t.Fatal(err)
				}
				if got := content(t, &s); !bytes.Equal(got[8:], sent[8:]) || batch.View(got).BaseOffset() != offset {
					t.Errorf("codec %d: the batch at %d is not what was sent", codec, offset)
				}
				s.Release()
			}
			if got, ok, err := p.OffsetForTimestamp(context.Background(), 2900, ReadUncommitted); err != nil || !ok || got.TimestampMs < 2900 {
				t.Errorf("codec %d: %+v %v %v", codec, got, ok, err)
			}
		}
		check()
		if s, err := p.Read(0, 1, true, ReadUncommitted); err != nil || batch.View(content(t, &s)).RecordCount() != 2 {
			t.Errorf("codec %d: b and d of the first batch should be left: %v", codec, err)
		} else {
			s.Release()
		}
		for _, again := range []func(){h.restart, h.crash} {
			again()
			p = h.partition("t", compacted)
			check()
		}
		h.stop()
	}
}

// wrappedLogs is a file system whose logs are seen through what wrap returns.
type wrappedLogs struct {
	vfs.FS
	wrap func(vfs.File) vfs.File
}

func (w wrappedLogs) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	f, err := w.FS.OpenFile(name, flag)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return w.wrap(f), nil
}

// unreadableFile can't be read for a while.
type unreadableFile struct {
	vfs.File
	now *atomic.Bool
}

func (f unreadableFile) ReadAt(p []byte, off int64) (int, error) {
	if f.now.Load() {
		return 0, unix.EIO
	}
	return f.File.ReadAt(p, off)
}

// TestUnreadableLogIsNoWrongIndex: a disk that does not answer says nothing of an index, which stays and is used afterwards.
func TestUnreadableLogIsNoWrongIndex(t *testing.T) {
	t.Parallel()
	var now atomic.Bool
	h := start(t, func(o *Options) {
		o.FS = wrappedLogs{vfs.OS, func(f vfs.File) vfs.File { return unreadableFile{f, &now} }}
	})
	p := h.partition("t", func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 1000, 100 })
	for i := range 30 {
		put(t, p, records(fmt.Sprint(i)))
	}
	g := p.segments.Load().all[0]
	last := g.EndOffset.Load() - 1
	want, err := g.Locate(last)
	if err != nil || want == 0 {
		t.Fatalf("position %d, %v: the test proves nothing", want, err)
	}
	now.Store(true)
	if at, err := g.Locate(last); !errors.Is(err, unix.EIO) {
		t.Errorf("position %d, %v on a disk that can't be read", at, err)
	}
	now.Store(false)
	if at, err := g.Locate(last); at != want || err != nil {
		t.Errorf("position %d, %v afterwards, want %d", at, err, want)
	}
	if strings.Contains(h.logs.String(), "index rebuilt") {
		t.Errorf("the index was made anew:\n%s", h.logs)
	}
}
