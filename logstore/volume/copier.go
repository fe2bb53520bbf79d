package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"kaas/internal/vfs"
)

// Copier copies files that only grow into a directory, each durably and as often as there is more of it. It belongs to one
// goroutine.
type Copier struct {
	FS   vfs.FS
	Dir  string
	Step func(bytes int) error // before each piece: its error ends the copy

	copied map[string]int64 // file name → bytes
}

// Copied is how much of a file is there.
func (c *Copier) Copied(name string) int64 { return c.copied[name] }

// File brings the copy of a file up to size.
func (c *Copier) File(from vfs.File, name string, size int64) error {
	at := c.copied[name]
	if at >= size && at > 0 {
		return nil
	}
	err := vfs.CopyRange(c.FS, filepath.Join(c.Dir, name), from, at, size, c.Step)
	if err == nil {
		if c.copied == nil {
			c.copied = map[string]int64{}
		}
		c.copied[name] = size
	}
	return err
}

// Whole brings the copy of a file up to its size, if there is one.
func (c *Copier) Whole(path string) error {
	f, err := c.FS.OpenFile(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = c.File(f, filepath.Base(path), size)
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s became shorter: %w", path, err)
	}
	return errors.Join(err, f.Close())
}

// Keep removes the copies of files whose name without its extension keep does not have.
func (c *Copier) Keep(keep map[string]bool) error {
	for name := range c.copied {
		if keep[strings.TrimSuffix(name, filepath.Ext(name))] {
			continue
		}
		if err := c.FS.Remove(filepath.Join(c.Dir, name)); err != nil {
			return err
		}
		delete(c.copied, name)
	}
	return nil
}
