package recovery

import (
	"fmt"
	"slices"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
)

// AbortedBefore makes the transaction index of the segment with the base offset base and so many bytes anew, as far as its markers
// stand before end: from the newest snapshot at or before the segment, by the batch headers behind it. Nothing is written.
//
// It is exact after a compaction, too: of a transaction whose records are gone there is nothing that a reader must not see.
// The same holds for what began before the start of the log.
func AbortedBefore(fsys vfs.FS, dir string, base, sizeBytes, end int64) ([]index.AbortedTxn, error) {
	logs, snapshots, err := listLogs(fsys, dir)
	if err != nil {
		return nil, err
	}
	logs = slices.DeleteFunc(logs, func(b int64) bool { return b > base })
	if len(logs) == 0 || logs[len(logs)-1] != base {
		return nil, fmt.Errorf("%s is gone", layout.SegmentFile(dir, base, layout.LogSuffix))
	}
	states, from := producer.New(), logs[0]
	for _, at := range slices.Backward(snapshots) {
		if at > base || at < logs[0] {
			continue
		}
		b, err := vfs.ReadFile(fsys, layout.SegmentFile(dir, at, layout.SnapshotSuffix), limits.StoreFileBytes)
		if err != nil {
			continue
		}
		if s, err := producer.Decode(b); err == nil {
			states, from = s, at
			break
		}
	}
	var aborted []index.AbortedTxn
	for i, b := range logs {
		if i+1 < len(logs) && logs[i+1] <= from {
			continue
		}
		size := int64(-1)
		if b == base {
			aborted, size = nil, sizeBytes
		}
		if aborted, err = abortedIn(fsys, layout.SegmentFile(dir, b, layout.LogSuffix), b, size, from, end, states, aborted); err != nil {
			return nil, err
		}
	}
	return aborted, nil
}

func listLogs(fsys vfs.FS, dir string) (logs, snapshots []int64, err error) {
	entries, err := fsys.List(dir)
	for _, e := range entries {
		switch base, suffix, ok := layout.ParseSegmentFile(e.Name); {
		case ok && suffix == layout.LogSuffix:
			logs = append(logs, base)
		case ok && suffix == layout.SnapshotSuffix:
			snapshots = append(snapshots, base)
		}
	}
	slices.Sort(logs)
	slices.Sort(snapshots)
	return logs, snapshots, err
}

// abortedIn applies the batches of one file from an offset on; sizeBytes -1: all of it.
func abortedIn(fsys vfs.FS, name string, base, sizeBytes, from, end int64, states *producer.States, aborted []index.AbortedTxn) (_ []index.AbortedTxn, err error) {
	f, err := fsys.OpenFile(name, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if sizeBytes < 0 {
		if sizeBytes, err = f.Size(); err != nil {
			return nil, err
		}
	}
	sc := logfile.Scanner{File: f, Size: sizeBytes, HeadersOnly: true}
	defer sc.Close()
	for {
		v, at, err := sc.Next()
		if err != nil {
			return nil, fmt.Errorf("%s at %d: %w", name, at, err)
		}
		if v == nil || v.BaseOffset() >= end {
			return aborted, nil
		}
		if v.LastOffset() < from || !v.HasProducerID() {
			continue
		}
		if aborted, err = applyBatch(states, f, v, producer.Position{Offset: v.BaseOffset(), Base: base, At: at}, 0, aborted); err != nil {
			return nil, err
		}
	}
}
