package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"kaas/internal/vfs"
)

// Contents is what the files of a journal hold.
type Contents struct {
	fs      vfs.FS
	dir     string
	files   [2]vfs.File // nil: missing
	older   int         // the half that was written first
	entries map[key][]stored
	// Blocks is how many there are, Torn whether one follows that does not hold, as a crash leaves it.
	Blocks int
	Torn   bool
	// Gap says that blocks between two others are missing: the disk lost what it had synced.
	Gap bool
	// stale counts entries that are older than the log they are of, see stands.
	stale atomic.Int64
}

type key struct {
	topic     string
	partition int32
}

// stored is an entry with its bytes at [at, at+n) of a half.
type stored struct {
	Entry
	half int
	at   int64
	n    int
}

// chain is the blocks of one half that belong together: numbered without a gap from its beginning.
type chain struct {
	first, last uint64 // 0: none
	id          uint64
	torn        bool
	entries     []stored
}

// Load reads a journal up to the block with the number last, which may be one that is being written. Nil: there is none.
// Close it.
func Load(fsys vfs.FS, dir string, last uint64) (*Contents, error) {
	c := &Contents{fs: fsys, dir: dir, entries: map[key][]stored{}}
	var chains [2]chain
	for i, name := range Names {
		f, err := fsys.OpenFile(filepath.Join(dir, name), vfs.ReadOnly)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.files[i] = f
		if chains[i], err = readHalf(f, i, last); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Join(dir, name), err), c.Close())
		}
	}
	if c.files[0] == nil && c.files[1] == nil {
		return nil, nil
	}
	if chains[1].first != 0 && (chains[0].first == 0 || chains[1].first < chains[0].first) {
		c.older = 1
	}
	a, b := &chains[c.older], &chains[1-c.older]
	c.Gap = a.first != 0 && b.first != 0 && (a.last+1 != b.first || a.id != b.id)
	for _, h := range []*chain{a, b} {
		if h.first != 0 {
			c.Blocks += int(h.last - h.first + 1)
			c.Torn = h.torn
		}
		for _, e := range h.entries {
			c.add(e)
		}
	}
	return c, nil
}

func (c *Contents) add(e stored) {
	k := key{e.Topic, e.Partition}
	if !e.Forget {
		c.entries[k] = append(c.entries[k], e)
		return
	}
	kept := c.entries[k][:0]
	for _, old := range c.entries[k] {
		if old.TopicID != e.TopicID || old.BaseOffset >= e.BaseOffset {
			kept = append(kept, old)
		}
	}
	c.entries[k] = kept
}

// readHalf follows the chain of one file.
func readHalf(f vfs.File, half int, last uint64) (c chain, err error) {
	size, err := f.Size()
	if err != nil {
		return c, err
	}
	var b []byte
	for at := int64(0); size-at >= headerBytes; {
		var head [headerBytes]byte
		if _, err := f.ReadAt(head[:], at); err != nil {
			return c, err
		}
		h, err := decodeHeader(head[:])
		if err != nil || c.first != 0 && (h.id != c.id || h.sequence != c.last+1) || h.sequence == 0 || h.sequence > last {
			return c, nil // the end: zeroes, or a block of an earlier use of the half
		}
		if int64(h.length) > size-at {
			c.torn = true
			return c, nil
		}
		if cap(b) < int(h.length) {
			b = make([]byte, h.length)
		}
		b = b[:h.length]
		if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
			return c, err
		}
		err = decode(b, h, func(e *Entry, in, n int) {
			c.entries = append(c.entries, stored{*e, half, at + int64(in), n})
		})
		if errors.Is(err, errNoBlock) {
			c.torn = true
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("block %d at %d: %w", h.sequence, at, err)
		}
		if c.id = h.id; c.first == 0 {
			c.first = h.sequence
		}
		c.last = h.sequence
		at += pad(int64(h.length))
	}
	return c, nil
}

// Has says that there are bytes of a partition.
func (c *Contents) Has(topic string, partition int32) bool {
	return len(c.entries[key{topic, partition}]) > 0
}

// Apply writes what belongs to records beyond the offset after into the segments of a partition's directory, and syncs them.
// A segment that is gone, or the directory of another topic id, needs nothing. It may be done again.
func (c *Contents) Apply(topic string, partition int32, id [16]byte, after int64, file func(baseOffset int64) string) (bytes int64, err error) {
	var f vfs.File
	base := int64(-1)
	done := func() error {
		if f == nil {
			return nil
		}
		err := f.Datasync()
		err = errors.Join(err, f.Close())
		f = nil
		return err
	}
	for _, e := range c.entries[key{topic, partition}] {
		if e.TopicID != id || e.EndOffset <= after {
			continue
		}
		if e.BaseOffset != base {
			if err := done(); err != nil {
				return bytes, err
			}
			base = e.BaseOffset
			if f, err = c.fs.OpenFile(file(base), 0); errors.Is(err, fs.ErrNotExist) {
				f, err = nil, nil
			}
			if err != nil {
				return bytes, err
			}
		}
		if f == nil {
			continue
		}
		written, err := c.copy(f, &e)
		if err != nil {
			return bytes, errors.Join(err, f.Close())
		}
		if !written {
			c.stale.Add(1)
			continue
		}
		bytes += int64(e.n)
	}
	return bytes, done()
}

// copy writes an entry to its place. False: it does not belong there.
func (c *Contents) copy(f vfs.File, e *stored) (written bool, err error) {
	b := make([]byte, e.n)
	if _, err := c.files[e.half].ReadAt(b, e.at); err != nil {
		return false, err
	}
	if belongs, err := belongs(f, e.Position, b); !belongs || err != nil {
		return false, err
	}
	_, err = f.WriteAt(b, e.Position)
	return err == nil, err
}

// Extract writes what there is of a partition as a journal of its own into another directory, durably. id is random.
func (c *Contents) Extract(topic string, partition int32, dir string, id uint64) error {
	var b Block
	entries := c.entries[key{topic, partition}]
	size := int64(0)
	for _, e := range entries {
		b.Reset()
		size += b.Room(topic, e.n)
	}
	j, err := Create(c.fs, dir, size, id)
	if err != nil {
		return err
	}
	for _, e := range entries {
		b.Reset()
		if _, err = c.files[e.half].ReadAt(b.Add(&e.Entry, e.n), e.at); err == nil {
			err = j.Write(&b)
		}
		if err != nil {
			return errors.Join(err, j.Remove())
		}
	}
	return j.Close()
}

// Close closes the files.
func (c *Contents) Close() error {
	var errs []error
	for i, f := range c.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
		c.files[i] = nil
	}
	return errors.Join(errs...)
}

// Remove removes the files, when everything of them was applied.
func (c *Contents) Remove() error {
	return errors.Join(c.Close(), remove(c.fs, c.dir, c.older))
}
