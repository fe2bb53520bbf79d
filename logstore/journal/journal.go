package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// Names are the files of the two halves. Kafka takes a plain file in a log directory for nothing of its own.
var Names = [2]string{"kaas-commit-0.journal", "kaas-commit-1.journal"}

// Journal writes blocks. Its files were written whole before the first of them, so that a sync of a block finds nothing to
// allocate. One half is written until it is full, then the other one from its beginning.
type Journal struct {
	fs       vfs.FS
	dir      string
	id       uint64
	sequence uint64 // of the last block
	halves   [2]half
	active   int
	// switchedMs is when the active half was begun.
	switchedMs int64
}

type half struct {
	file vfs.File
	size int64
	at   int64
}

// zeroBytes is how much a file is filled by at a time: much, so that few rounds of commits meet such a write.
const zeroBytes = 1 << 20

// Create makes the two files, durably, in place of any that are there: nobody may need what they hold. id is random. Blocks go
// past the page cache where the file system lets them: nobody reads them before the next start, and the copy costs.
func Create(fsys vfs.FS, dir string, halfBytes int64, id uint64) (*Journal, error) {
	j := &Journal{fs: fsys, dir: dir, id: id}
	err := j.create(halfBytes)
	if err != nil {
		return nil, errors.Join(err, j.Remove()) // on a full disk they would be in the way
	}
	return j, nil
}

func (j *Journal) create(halfBytes int64) error {
	for i, name := range Names {
		err := j.open(i, name, halfBytes, vfs.Direct)
		if err != nil && vfs.Refused(err) {
			err = j.open(i, name, halfBytes, 0)
		}
		if err != nil {
			return err
		}
	}
	return j.fs.SyncDir(j.dir)
}

// open makes one file, with a flag.
func (j *Journal) open(half int, name string, bytes int64, flag vfs.Flag) error {
	f, err := j.fs.OpenFile(filepath.Join(j.dir, name), vfs.Create|vfs.Truncate|flag)
	if err != nil {
		return err
	}
	j.halves[half].file = f
	if err = j.Grow(half, bytes); err != nil && vfs.Refused(err) {
		err = errors.Join(err, f.Close())
		j.halves[half].file = nil
	}
	return err
}

// Grow makes a half larger, durably. It may run beside a Write, if half is not the active one and stays so.
func (j *Journal) Grow(half int, bytes int64) error {
	h := &j.halves[half]
	bytes = pad(bytes)
	zero := vfs.AlignedBytes(int(min(zeroBytes, max(bytes-h.size, 0))))
	for at := h.size; at < bytes; at += int64(len(zero)) {
		if _, err := h.file.WriteAt(zero[:min(int64(len(zero)), bytes-at)], at); err != nil {
			return errors.Join(err, h.file.Truncate(h.size)) // on a full disk what was written would be in the way
		}
	}
	if err := h.file.Datasync(); err != nil {
		return err
	}
	h.size = bytes
	return nil
}

// ID tells this journal from any other one of the directory.
func (j *Journal) ID() uint64 { return j.id }

// Sequence is the number of the last block.
func (j *Journal) Sequence() uint64 { return j.sequence }

// Active is the half that is being written.
func (j *Journal) Active() int { return j.active }

// Room is how much of the active half is left.
func (j *Journal) Room() int64 { return j.halves[j.active].size - j.halves[j.active].at }

// Size is how much a half holds.
func (j *Journal) Size(half int) int64 { return j.halves[half].size }

// Switch goes on with the other half. Nobody may need what that one holds. It says how long the half that was filled took, and
// by which factor it should grow, 1: not at all.
func (j *Journal) Switch(nowMs int64) (tookMs, factor int64) {
	j.active = 1 - j.active
	j.halves[j.active].at = 0
	tookMs = nowMs - j.switchedMs
	j.switchedMs = nowMs
	switch {
	case tookMs < limits.CommitJournalGrowMs/10:
		return tookMs, 8
	case tookMs < limits.CommitJournalGrowMs:
		return tookMs, 2
	}
	return tookMs, 1
}

// Write makes a block durable. It needs Room for it. After an error the journal must not be written again: what the files hold
// is known only to a reader.
func (j *Journal) Write(b *Block) error {
	h := &j.halves[j.active]
	bytes := b.finish(j.id, j.sequence+1)
	if int64(len(bytes)) > h.size-h.at {
		panic(fmt.Sprintf("journal: a block of %d bytes, %d are left", len(bytes), h.size-h.at))
	}
	if err := h.file.WriteSync(bytes, h.at); err != nil {
		return err
	}
	j.sequence++
	h.at += int64(len(bytes))
	return nil
}

// Linked says that the file of the last block still has a name: what is durable in one without is gone with this process.
func (j *Journal) Linked() (bool, error) { return j.halves[j.active].file.Linked() }

// Close closes the files. It is idempotent: a removal that failed is tried again.
func (j *Journal) Close() error {
	var errs []error
	for i := range j.halves {
		h := &j.halves[i]
		if h.file != nil {
			errs = append(errs, h.file.Close())
		}
		h.file = nil
	}
	return errors.Join(errs...)
}

// Remove removes the files of a journal that nobody needs any more; the older half first, because what the newer one says of
// its entries must not be lost before them.
func (j *Journal) Remove() error {
	return errors.Join(j.Close(), remove(j.fs, j.dir, 1-j.active))
}

func remove(fsys vfs.FS, dir string, older int) error {
	for _, half := range []int{older, 1 - older} {
		if err := fsys.Remove(filepath.Join(dir, Names[half])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fsys.SyncDir(dir)
}
