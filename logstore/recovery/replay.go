package recovery

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
)

// replay brings producer state, open transactions and the transaction indexes to the end of the log: from the newest
// snapshot that holds, by the batch headers behind it. Lost epochs come back on the same way.
func (t *Task) replay() error {
	l := &t.log
	if l.Clean && !t.Stop.ProducersKnown && !t.needEpochs() {
		l.Producers, t.used = producer.New(), -1
		return nil
	}
	states, from := t.readSnapshot(l.EndOffset)
	l.Producers, t.used = states, from
	from = max(from, l.Segments[0].BaseOffset)
	below := 0
	for i, g := range l.Segments {
		if g.EndOffset <= from && i < len(l.Segments)-1 && !t.needEpochs() {
			continue
		}
		if err := t.replaySegment(g, from); errors.Is(err, logfile.ErrTorn) && t.isDeleted(i) {
			below = t.damagedBelow(i, err)
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", g.path(layout.LogSuffix), err)
		}
		if i+1 < len(l.Segments) && l.Segments[i+1].BaseOffset >= from {
			t.snapshotAt(g, l.Segments[i+1].BaseOffset)
		}
	}
	if err := t.dropBelow(below); err != nil {
		return err
	}
	if t.epochLost {
		l.Epochs.TruncateStart(l.LogStart)
	}
	return t.locateTransactions()
}

// readSnapshot loads the newest snapshot at or below offset that holds; -1: there is none.
func (t *Task) readSnapshot(offset int64) (*producer.States, int64) {
	for _, at := range slices.Backward(t.snapshots) {
		name := layout.SegmentFile(t.Dir, at, layout.SnapshotSuffix)
		if at > offset {
			// It tells of records that are gone, and must not come back when others have taken their offsets.
			t.remove = append(t.remove, name)
			continue
		}
		if at < t.log.Segments[0].BaseOffset {
			// Between it and the log there were records, and markers, that nobody can read any more.
			t.remove = append(t.remove, name)
			continue
		}
		s, err := decodeSnapshot(t.FS, t.Dir, at)
		if err == nil {
			return s, at
		}
		t.Logger.Warn("producer snapshot ignored", "file", name, "reason", err)
	}
	return producer.New(), -1
}

func decodeSnapshot(fsys vfs.FS, dir string, at int64) (*producer.States, error) {
	b, err := vfs.ReadFile(fsys, layout.SegmentFile(dir, at, layout.SnapshotSuffix), limits.StoreFileBytes)
	if err != nil {
		return nil, err
	}
	s, err := producer.Decode(b)
	if err != nil {
		return nil, err
	}
	s.SnapshotOffset = at
	return s, nil
}

// snapshotAt has the snapshot at the end of a sealed segment written when it is missing: the next recovery may have to
// begin there, because retention may delete what lies before.
func (t *Task) snapshotAt(g *Segment, offset int64) {
	if _, there := slices.BinarySearch(t.snapshots, offset); there {
		return
	}
	l := &t.log
	l.Producers.SnapshotOffset = offset
	for i := range l.Seals {
		if l.Seals[i].Segment == g {
			l.Seals[i].Snapshot, l.Seals[i].SnapshotOffset = l.Producers.Encode(), offset
			return
		}
	}
	l.Seals = append(l.Seals, Seal{g, l.Producers.Encode(), offset})
}

// needEpochs says that leader epochs have to be read from a log that has records.
func (t *Task) needEpochs() bool {
	return t.epochLost && t.log.EndOffset > t.log.Segments[0].BaseOffset
}

func (t *Task) replaySegment(g *Segment, from int64) error {
	f, err := t.open(g)
	if err != nil {
		return err
	}
	aborted, before, err := t.keptAborted(g, from)
	if err != nil {
		return err
	}
	at := g.SizeBytes // only the transaction index is looked at
	if t.needEpochs() {
		at = 0
	} else if from < g.EndOffset {
		if at, err = t.positionBefore(g, from); err != nil {
			return err
		}
	}
	sc := logfile.Scanner{File: f, At: at, Size: g.SizeBytes, HeadersOnly: true}
	defer sc.Close()
	for {
		v, at, err := sc.Next()
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if v == nil {
			break
		}
		if t.epochLost {
			t.log.Epochs.Assign(v.PartitionLeaderEpoch(), v.BaseOffset())
		}
		if v.LastOffset() < from || !v.HasProducerID() {
			continue
		}
		if aborted, err = t.replayBatch(g, f, v, at, aborted); err != nil {
			return err
		}
	}
	g.Aborted = &aborted
	// In place the file is written again: its last sync may have failed.
	if !slices.Equal(aborted, before) || t.Durable >= 0 && len(aborted) > 0 {
		if err := t.rewriteAborted(g, before, aborted); err != nil {
			return err
		}
	}
	return t.renewCopy(g, aborted)
}

// replayBatch applies one batch of a producer. v is only its header.
func (t *Task) replayBatch(g *Segment, f vfs.File, v batch.View, at int64, aborted []index.AbortedTxn) ([]index.AbortedTxn, error) {
	// The clock of the append is not in the log, and timestamps are the producer's: counting from now expires nobody early.
	return applyBatch(t.log.Producers, f, v, producer.Position{Offset: v.BaseOffset(), Base: g.BaseOffset, At: at}, t.NowMs, aborted)
}

// applyBatch applies a batch of a producer, of which v is only the header, and adds the entry that it makes in the transaction
// index.
func applyBatch(states *producer.States, f vfs.File, v batch.View, at producer.Position, nowMs int64, aborted []index.AbortedTxn) ([]index.AbortedTxn, error) {
	var m producer.Marker
	if v.IsControl() {
		b := make(batch.View, v.SizeBytes())
		if _, err := f.ReadAt(b, at.At); err != nil {
			return nil, err
		}
		var err error
		if m, err = producer.ParseMarker(b); err != nil {
			return nil, fmt.Errorf("at %d: %w", at.At, err)
		}
		if a, ok := states.AbortedBy(v, m); ok && !slices.Contains(aborted, a) {
			aborted = append(aborted, a)
		}
	}
	states.Apply(v, m, at, nowMs)
	return aborted, nil
}

// keptAborted is the part of the transaction index that the replay does not make anew; before is what the file has now. Of a
// damaged file nothing is believed: what a crash tore was written after the last sync, but a damage of another kind may stand
// before it. The log tells what was in it.
func (t *Task) keptAborted(g *Segment, from int64) (aborted, before []index.AbortedTxn, err error) {
	files := t.readAborted(g)
	if doubt := files.Doubt(); doubt == nil {
		before = files.All
	} else {
		t.Logger.Warn("transaction index made anew from the log", "file", g.path(layout.TxnIndexSuffix), "reason", doubt)
		before = []index.AbortedTxn{{ProducerID: -1}} // equal to nothing
		if g.BaseOffset >= from {
			return nil, before, nil
		}
		if aborted, err = AbortedBefore(t.FS, t.Dir, g.BaseOffset, g.SizeBytes, from); err == nil || files.Damage != nil {
			return aborted, before, err
		}
		t.Logger.Warn("transaction index taken as it is, the log can't tell", "file", g.path(layout.TxnIndexSuffix), "error", err)
	}
	for _, a := range files.All {
		if a.LastOffset < from {
			aborted = append(aborted, a)
		}
	}
	return aborted, before, nil
}

// rewriteAborted replaces the file. On a full disk it keeps of it what is right, and the log serves what is in memory: the
// rest is written before a snapshot, or a recovery point, lets the next recovery begin behind it.
func (t *Task) rewriteAborted(g *Segment, before, aborted []index.AbortedTxn) error {
	name := g.path(layout.TxnIndexSuffix)
	err := vfs.WriteFileAtomic(t.FS, name, t.Dir, index.EncodeAbortedAll(aborted))
	if err == nil {
		g.HasTxnIndex = true
		return nil
	}
	if !vfs.IsFull(err) {
		return err
	}
	right := 0
	for right < len(before) && right < len(aborted) && before[right] == aborted[right] {
		right++
	}
	g.TxnMissing = len(aborted) - right
	t.Logger.Warn("transaction index not written, later", "file", name, "missing", g.TxnMissing, "error", err)
	if !g.HasTxnIndex {
		return nil
	}
	f, err := t.FS.OpenFile(name, 0)
	if err != nil {
		return err
	}
	if err = f.Truncate(int64(right) * index.AbortedEntryBytes); err == nil {
		err = f.Datasync()
	}
	return errors.Join(err, f.Close())
}

// locateTransactions finds out where the open transactions of a snapshot begin in the files; the last stable offset needs
// the position.
func (t *Task) locateTransactions() error {
	all := t.log.Segments
	return t.log.Producers.Locate(func(offset int64) (producer.Position, error) {
		offset = max(offset, all[0].BaseOffset)
		g := all[max(sort.Search(len(all), func(i int) bool { return all[i].BaseOffset > offset })-1, 0)]
		none := producer.Position{Offset: offset, Base: g.BaseOffset, At: g.SizeBytes}
		f, err := t.open(g)
		if err != nil {
			return none, err
		}
		at, err := t.positionBefore(g, offset)
		if err != nil {
			return none, err
		}
		sc := logfile.Scanner{File: f, At: at, Size: g.SizeBytes, HeadersOnly: true}
		defer sc.Close()
		for {
			v, at, err := sc.Next()
			if err != nil {
				return none, fmt.Errorf("%s at %d: %w", g.path(layout.LogSuffix), at, err)
			}
			if v == nil || v.LastOffset() >= offset {
				none.At = at
				return none, nil
			}
		}
	})
}
