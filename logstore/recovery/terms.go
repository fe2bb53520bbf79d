package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// termFile is a segment's log with the term of its leader; a name without one belongs to term 0.
type termFile struct {
	base int64
	term int32
}

func (f termFile) name(suffix string) string {
	if f.term == 0 {
		return fmt.Sprintf("%020d%s", f.base, suffix)
	}
	return fmt.Sprintf("%020d.%d%s", f.base, f.term, suffix)
}

// adoptTerms gives the segments of a directory that had leaders of several terms (<base offset>.<term>.log) the names that
// are used here. What a leader wrote at or behind the base offset of a later term's segment is dead: it was never
// acknowledged, because the later term had begun. Each step can be done again.
func (t *Task) adoptTerms() error {
	entries, err := t.FS.List(t.Dir)
	if err != nil {
		return err
	}
	var logs []termFile
	named := false
	for _, e := range entries {
		if base, term, suffix, ok := layout.ParseTermFile(e.Name); ok && suffix == layout.LogSuffix && !e.Dir {
			logs = append(logs, termFile{base, term})
			named = named || term > 0
		}
	}
	if !named {
		return nil
	}
	slices.SortFunc(logs, func(a, b termFile) int {
		if a.base != b.base {
			return int(max(-1, min(1, a.base-b.base)))
		}
		return int(a.term - b.term)
	})
	for i, f := range logs {
		for _, later := range logs[i+1:] {
			if later.term <= f.term {
				continue
			}
			if later.base == f.base {
				err = t.eachFile(f, func(name string) error { return t.FS.Remove(name) })
			} else {
				err = t.cutDead(f, later)
			}
			if err != nil {
				return err
			}
			break
		}
	}
	if err := t.FS.SyncDir(t.Dir); err != nil { // no dead log under a plain name
		return err
	}
	for i, f := range logs {
		if f.term == 0 || i+1 < len(logs) && logs[i+1].base == f.base {
			continue
		}
		t.Logger.Info("segment of a term adopted", "file", filepath.Join(t.Dir, f.name(layout.LogSuffix)))
		plain := termFile{base: f.base}
		for _, suffix := range layout.SegmentSuffixes {
			err := t.FS.Rename(filepath.Join(t.Dir, f.name(suffix)), filepath.Join(t.Dir, plain.name(suffix)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return t.FS.SyncDir(t.Dir)
}

func (t *Task) eachFile(f termFile, do func(name string) error) error {
	for _, suffix := range layout.SegmentSuffixes {
		if err := do(filepath.Join(t.Dir, f.name(suffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// cutDead ends a log before the first batch at or behind the base offset of a later term's. Its indexes are made anew.
func (t *Task) cutDead(f, later termFile) error {
	name := filepath.Join(t.Dir, f.name(layout.LogSuffix))
	file, err := t.FS.OpenFile(name, 0)
	if err != nil {
		return err
	}
	size, err := file.Size()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	sc := logfile.Scanner{File: file, Size: size, HeadersOnly: true}
	defer sc.Close()
	for {
		v, at, err := sc.Next()
		if v == nil && err == nil {
			return file.Close()
		}
		if err != nil && !errors.Is(err, logfile.ErrTorn) {
			return errors.Join(err, file.Close())
		}
		if err == nil && v.LastOffset() < later.base {
			continue
		}
		t.CutBytes += size - at
		t.Logger.Warn("log of a deposed leader cut", "file", name, "bytes", size-at, "position", at, "laterTerm", later.term, "from", later.base)
		for _, suffix := range []string{layout.IndexSuffix, layout.TimeIndexSuffix, layout.SumsSuffix, layout.TxnCopySuffix} {
			if err := t.FS.Remove(filepath.Join(t.Dir, f.name(suffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, file.Close())
			}
		}
		if err := file.Truncate(at); err != nil {
			return errors.Join(err, file.Close())
		}
		return errors.Join(file.Datasync(), file.Close())
	}
}
