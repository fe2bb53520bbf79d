package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

var derivedSamples = flag.Int("derived.samples", 1, "at how many places each derived file is cut, and twice as many bits flipped; 0: at every length and every bit")

// derived is a log with everything in it that other files than the .log tell of, and what they told.
type derived struct {
	t     *testing.T
	h     *harness
	older *vfs.Mem // as it was some checkpoints earlier
	want  string   // what it says after a start from files that are whole
}

func (d *derived) options(o *Options) {
	o.Dirs, o.Cleaner, o.Clock = []string{"/data"}, byHand, func() time.Time { return time.UnixMilli(5_000_000) }
}

// derivedID is random, as ids of topics are.
var derivedID = checkpoint.RandomUUID()

func (d *derived) partition() *Partition {
	d.t.Helper()
	c := DefaultConfig()
	derivedConfig(&c)
	p, err := d.h.s.Ensure("t", derivedID, 0, c)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func derivedConfig(c *Config) {
	c.SegmentBytes, c.IndexIntervalBytes, c.RetentionMs = 900, 100, -1
}

func (d *derived) put(b []byte, epoch int32) AppendResult {
	d.t.Helper()
	p := d.partition()
	r, err := p.Append(b, AppendOptions{LeaderEpoch: epoch})
	if err != nil {
		d.t.Fatal(err)
	}
	await(d.t, p, r.LastOffset+1)
	return r
}

// fill writes plain records, two idempotent producers, and transactions that end both ways, in three leader epochs.
func (d *derived) fill(from, to int, epoch int32) {
	d.t.Helper()
	for i := from; i < to; i++ {
		ms := int64(1000 + 10*i)
		if i%5 == 0 {
			ms += 45 // not in order
		}
		d.put(stamped(ms, fmt.Sprint("plain-", i)), epoch)
		d.put(produced(100, 0, int32(2*i), false, fmt.Sprint("a", i), fmt.Sprint("b", i)), epoch)
		id := int64(200 + i%3)
		d.put(produced(id, 0, int32(i/3), true, fmt.Sprint("txn-", i)), epoch)
		if i%3 == 2 {
			for _, id := range []int64{200, 202, 201} {
				p := d.partition()
				marker := batch.EndTxnMarker(nil, id, 0, id == 201, 1, ms)
				r, err := p.Append(marker, AppendOptions{Origin: OriginCoordinator, LeaderEpoch: epoch})
				if err != nil {
					d.t.Fatal(err)
				}
				await(d.t, p, r.LastOffset+1)
			}
		}
	}
}

// state is everything that a client can ask about the log, as text.
func state(t testing.TB, p *Partition) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "start %d high %d stable %d end %d epoch %d id %x\n", p.LogStartOffset(), p.HighWatermark(), p.LastStableOffset(), p.LogEndOffset(), p.LeaderEpoch(), p.TopicID())
	for offset := p.LogStartOffset(); offset < p.LogEndOffset(); offset++ {
		s, err := p.Read(offset, 1, true, ReadUncommitted)
		if err != nil {
			return "", err
		}
		if s.Len == 0 {
			return "", fmt.Errorf("nothing at offset %d", offset)
		}
		v, _, err := batch.Next(content(t, &s))
		s.Release()
		if err == nil {
			err = v.Validate()
		}
		if err != nil {
			return "", fmt.Errorf("fetch of %d: %w", offset, err)
		}
		fmt.Fprintf(&b, "at %d: %d-%d crc %x\n", offset, v.BaseOffset(), v.LastOffset(), binary.BigEndian.Uint32(v[17:]))
		aborted, err := p.AbortedTransactions(offset, v.LastOffset()+1, nil)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "aborted %v\n", aborted)
	}
	for ms := int64(990); ms < 1250; ms += 5 {
		found, ok, err := p.OffsetForTimestamp(context.Background(), ms, ReadUncommitted)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "time %d: %+v %v\n", ms, found, ok)
	}
	newest, ok, err := p.MaxTimestamp(context.Background(), ReadUncommitted)
	fmt.Fprintf(&b, "newest %+v %v\n", newest, ok)
	for epoch := range int32(10) {
		e, end := p.EndOffsetForEpoch(epoch)
		fmt.Fprintf(&b, "epoch %d: %d %d\n", epoch, e, end)
	}
	return b.String(), err
}

// retries asks what the log knows of its producers: it changes the log, so it comes last.
func retries(p *Partition) (string, error) {
	var b strings.Builder
	try := func(what string, records []byte) {
		r, err := p.Append(records, AppendOptions{LeaderEpoch: p.LeaderEpoch()})
		fmt.Fprintf(&b, "%s: base %d duplicate %v, %v\n", what, r.BaseOffset, r.Duplicate, err)
	}
	try("newest batch again", produced(100, 0, 28, false, "a14", "b14"))
	try("a gap", produced(100, 0, 60, false, "x"))
	try("open transaction", produced(200, 0, 5, true, "open"))
	try("outside of a transaction", produced(202, 0, 6, false, "x"))
	try("older epoch", produced(300, 0, 0, false, "x"))
	err := awaitErr(p, p.LogEndOffset())
	return b.String(), err
}

func newDerived(t *testing.T) *derived {
	t.Helper()
	d := &derived{t: t}
	m := vfs.NewRecording()
	t.Cleanup(func() { d.drop(m) }) // after the store's
	makeDataDir(t, m)
	d.h = start(t, d.options, func(o *Options) { o.FS = m })
	d.fill(0, 6, 0)
	d.h.s.checkpoint()
	d.h.restart() // a snapshot in the middle of a segment
	d.older = d.clone(m)
	d.put(produced(300, 2, 0, false, "epoch 2"), 0)
	d.fill(6, 9, 3)
	if _, err := d.partition().DeleteRecords(7); err != nil {
		t.Fatal(err)
	}
	if _, err := d.h.s.NextProducerID(); err != nil {
		t.Fatal(err)
	}
	d.h.s.checkpoint()
	d.fill(9, 15, 5)
	for i := range int64(2) { // open at the stop
		d.put(produced(200+2*i, 0, 5, true, "open"), 5)
	}
	return d
}

// clone is the file system as it is after a power failure now that takes what was not synced.
func (d *derived) clone(m *vfs.Mem) *vfs.Mem {
	d.t.Helper()
	c, err := m.Clone(func(int) int { return 0 })
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (d *derived) drop(m *vfs.Mem) {
	d.t.Helper()
	if err := m.Close(); err != nil {
		d.t.Error(err)
	}
}

// files are those that are not the log itself.
func derivedFiles(t *testing.T, m *vfs.Mem, dir string) (names []string) {
	t.Helper()
	entries, err := m.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		switch {
		case e.Dir:
			names = append(names, derivedFiles(t, m, path)...)
		case !strings.HasSuffix(e.Name, layout.LogSuffix) && e.Name != layout.LockName:
			names = append(names, path)
		}
	}
	return names
}

// damage is one thing that can become of a file; nil: it is gone.
type damage struct {
	name string
	of   func(b []byte) []byte
}

func damages(rng *rand.Rand, file string, size int, older []byte) []damage {
	all := []damage{
		{"missing", func([]byte) []byte { return nil }},
		{"empty", func([]byte) []byte { return []byte{} }},
		{"garbage", func(b []byte) []byte {
			b = bytes.Clone(b)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			return b
		}},
		{"zeroes", func(b []byte) []byte { return make([]byte, len(b)) }},
		{"with a tail", func(b []byte) []byte { return append(bytes.Clone(b), "tail"...) }},
	}
	if older != nil {
		all = append(all, damage{"of an older generation", func([]byte) []byte { return older }})
	}
	cut := func(n int) {
		all = append(all, damage{fmt.Sprint("cut at ", n), func(b []byte) []byte { return b[:n] }})
	}
	flip := func(bit int) {
		all = append(all, damage{fmt.Sprint("bit flipped: ", bit), func(b []byte) []byte {
			b = bytes.Clone(b)
			b[bit/8] ^= 1 << (bit % 8)
			return b
		}})
	}
	if *derivedSamples == 0 {
		for n := 1; n < size; n++ {
			cut(n)
		}
		for bit := range size * 8 {
			flip(bit)
		}
		return all
	}
	if size > 1 {
		for range *derivedSamples {
			cut(1 + rng.IntN(size-1))
			flip(rng.IntN(size * 8))
			flip(rng.IntN(size * 8))
		}
		for _, entry := range []int{8, 12, 34} { // whole entries are left
			if size > entry && size%entry == 0 {
				cut(size - entry)
			}
		}
	}
	if *derivedSamples == 1 && strings.HasPrefix(file, "0") { // there are many of a kind
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:3]
	}
	return all
}

// TestDerivedFiles: whatever becomes of a file that the log can tell anew, or of one that stands twice, every record, offset,
// producer, transaction and epoch comes back exactly, after a clean stop and after a crash. Where what is damaged is the only
// place, the start is refused by the name of the file, and with what to do.
func TestDerivedFiles(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, clean := range []bool{true, false} {
		name := map[bool]string{true: "after a clean stop", false: "after a crash"}[clean]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDerived(t)
			m := d.h.o.FS.(*vfs.Mem)
			if clean {
				d.h.stop()
			}
			m = d.clone(m)
			defer d.drop(m)
			defer d.drop(d.older)
			d.want = d.whole(m)
			rng := rand.New(rand.NewPCG(seed, 1))
			states := 0
			for _, file := range derivedFiles(t, m, "/data") {
				whole, err := vfs.ReadFile(m, file, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				older, err := vfs.ReadFile(d.older, file, 1<<20)
				if err != nil && !errors.Is(err, fs.ErrNotExist) || bytes.Equal(older, whole) {
					older = nil
				}
				for _, x := range damages(rng, filepath.Base(file), len(whole), older) {
					states++
					d.try(m, file, x, whole)
				}
			}
			t.Logf("%d states", states)
		})
	}
}

// whole is what a store says whose files are whole.
func (d *derived) whole(m *vfs.Mem) string {
	d.t.Helper()
	c := d.clone(m)
	defer d.drop(c)
	said, err := d.look(c)
	if err != nil {
		d.t.Fatal(err)
	}
	return said
}

// look starts a store and returns what it says, then once more after a clean stop.
func (d *derived) look(m *vfs.Mem) (string, error) {
	logs := new(logBuffer)
	o := Options{FS: m, Logger: slog.New(slog.NewTextHandler(logs, nil)), JournalBytes: -1}
	d.options(&o)
	var said [2]string
	for i := range said {
		s, err := Open(context.Background(), o)
		if err != nil {
			return "", err
		}
		c := DefaultConfig()
		derivedConfig(&c)
		p, err := s.Ensure("t", derivedID, 0, c)
		if err == nil {
			said[i], err = state(d.t, p)
		}
		if err == nil && i == 1 {
			id, idErr := s.NextProducerID()
			if idErr != nil || id < 1 {
				err = fmt.Errorf("producer id %d: %v", id, idErr)
			}
		}
		if err == nil && i == 1 {
			var more string
			more, err = retries(p)
			said[i] += more
		}
		if closeErr := s.Close(context.Background()); err == nil {
			err = closeErr
		}
		if err != nil {
			return "", err
		}
	}
	if !strings.HasPrefix(said[1], said[0]) {
		return "", fmt.Errorf("the second start says something else: %s", difference(said[1], said[0]))
	}
	return said[1], nil
}

// difference is the first line that differs.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q, want %q", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// mayRefuse are files that are the only place of what they say.
var mayRefuse = []string{checkpoint.MetaName}

func (d *derived) try(m *vfs.Mem, file string, x damage, whole []byte) {
	d.t.Helper()
	c := d.clone(m)
	defer d.drop(c)
	b := x.of(whole)
	err := c.Remove(file)
	if err == nil && b != nil {
		err = vfs.WriteFileAtomic(c, file, filepath.Dir(file), b)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	got, err := d.look(c)
	switch {
	case err != nil && slices.Contains(mayRefuse, filepath.Base(file)) && strings.Contains(err.Error(), file):
	case err != nil:
		d.t.Errorf("%s, %s: %v", file, x.name, err)
	case got != d.want:
		d.t.Errorf("%s, %s: %s", file, x.name, difference(got, d.want))
	}
}
