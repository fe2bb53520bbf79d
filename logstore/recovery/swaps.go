package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"kaas/internal/vfs"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// RenameSegment renames a segment's files from one suffix to another, the log last: it is what counts.
func RenameSegment(fsys vfs.FS, dir string, baseOffset int64, from, to string) error {
	for _, s := range layout.SegmentSuffixes {
		name := layout.SegmentFile(dir, baseOffset, s)
		if err := fsys.Rename(name+from, name+to); err != nil && (s == layout.LogSuffix || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// RemoveSegment removes a segment's files under a temporary suffix.
func RemoveSegment(fsys vfs.FS, dir string, baseOffset int64, suffix string) error {
	var errs []error
	for _, s := range layout.SegmentSuffixes {
		if err := fsys.Remove(layout.SegmentFile(dir, baseOffset, s) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// finishSwaps brings swaps to their end that a crash interrupted. Each step can be done again.
func (t *Task) finishSwaps() error {
	entries, err := t.FS.List(t.Dir)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e vfs.Entry) bool { return e.Dir })
	names := map[string]bool{}
	var bases, logs []int64
	for _, e := range entries {
		names[e.Name] = true
		t.hasKept = t.hasKept || slices.Contains(journal.Names[:], e.Name)
		base, suffix, ok := layout.ParseSegmentFile(e.Name)
		switch {
		case ok && suffix == layout.LogSuffix+layout.SwapSuffix:
			bases = append(bases, base)
		case ok && suffix == layout.LogSuffix:
			logs = append(logs, base)
		}
	}
	changed := false
	for _, e := range entries {
		base, suffix, ok := layout.ParseSegmentFile(e.Name)
		if ok && strings.HasSuffix(suffix, layout.SwapSuffix) && !slices.Contains(bases, base) {
			if err := t.FS.Remove(filepath.Join(t.Dir, e.Name)); err != nil { // the log did not get so far
				return err
			}
			changed = true
		}
	}
	for _, base := range bases {
		if err := t.finishSwap(base, logs, names); err != nil {
			return err
		}
		changed = true
	}
	if changed {
		return t.FS.SyncDir(t.Dir)
	}
	return nil
}

// finishSwap puts <base>.log.swap into the place of the segments that it covers. While <base>.log is there its side files
// are the old ones, because they were moved aside before it; afterwards they are new.
func (t *Task) finishSwap(base int64, logs []int64, names map[string]bool) error {
	swap := layout.SegmentFile(t.Dir, base, layout.LogSuffix) + layout.SwapSuffix
	end, err := logfile.EndOffset(t.FS, swap) // the cleaner keeps the last batch of all that it replaces
	if err != nil && names[filepath.Base(layout.SegmentFile(t.Dir, base, layout.LogSuffix))] {
		t.Logger.Warn("compacted segment unreadable, the old ones are kept", "file", swap, "error", err)
		return RemoveSegment(t.FS, t.Dir, base, layout.SwapSuffix)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", swap, err)
	}
	replaced := 0
	for _, old := range logs {
		if old < base || old >= end {
			continue
		}
		replaced++
		if err := RemoveSegment(t.FS, t.Dir, old, ""); err != nil {
			return err
		}
	}
	t.Logger.Info("compaction finished that a stop interrupted", "file", swap, "replaced", replaced, "endOffset", end)
	return RenameSegment(t.FS, t.Dir, base, layout.SwapSuffix, "")
}
