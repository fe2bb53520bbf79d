package segment

import (
	"errors"
	"io/fs"

	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// Spare is the file of the next segment, made ahead so that all that a roll does to the file system under the partition's lock is a
// rename.
type Spare struct {
	file vfs.File
	name string
}

// MakeSpare makes one; nil: it can't, and the roll will find out why.
func (e *Env) MakeSpare(name string) *Spare {
	f, err := e.fs.OpenFile(name, vfs.Create|vfs.Truncate)
	if err != nil {
		return nil
	}
	return &Spare{f, name}
}

// DropSpare lets go of a file that no segment needs. s may be nil.
func (e *Env) DropSpare(s *Spare) {
	if s == nil {
		return
	}
	err := s.file.Close()
	if removeErr := e.fs.Remove(s.name); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		e.logger.Debug("spare file not removed, at the next start", "file", s.name, "error", err)
	}
}

// NextFile is the file of the new segment g, and ends that of old; s may be nil. It gets its name at once: what a producer with acks=1 was told must
// outlive the process, and a start removes files without a name.
func (e *Env) NextFile(s *Spare, g, old *Segment) (vfs.File, error) {
	if err := old.endWindow(); err != nil {
		e.DropSpare(s)
		return nil, err
	}
	if s == nil {
		return e.fs.OpenFile(g.Path(layout.LogSuffix), vfs.Create|vfs.Truncate)
	}
	if err := e.fs.Rename(s.name, g.Path(layout.LogSuffix)); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s.file, nil
}
