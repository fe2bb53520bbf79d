package logstore

import (
	"fmt"
	"slices"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
)

// replay brings producer state, open transactions and the transaction indexes to the end of the log: from the newest
// snapshot that holds, by the batch headers behind it. Lost epochs come back on the same way.
func (r *recovery) replay() error {
	p := r.p
	if e := r.st.ends[r.key]; r.clean && e[3] == 0 && !r.needEpochs() {
		return nil // no producer was known at the stop
	}
	states, from := r.readSnapshot(r.end.offset)
	p.producers = states
	from = max(from, r.segments[0].baseOffset)
	for i, g := range r.segments {
		if g.endOffset.Load() <= from && i < len(r.segments)-1 && !r.needEpochs() {
			continue
		}
		if err := r.replaySegment(g, from); err != nil {
			return fmt.Errorf("%s: %w", g.path(layout.LogSuffix), err)
		}
		if i+1 < len(r.segments) && r.segments[i+1].baseOffset >= from {
			r.snapshotAt(g, r.segments[i+1].baseOffset)
		}
	}
	return r.locateTransactions()
}

// snapshotAt has the snapshot at the end of a sealed segment written when it is missing: the next recovery may have to
// begin there, because retention may delete what lies before.
func (r *recovery) snapshotAt(g *segment, offset int64) {
	if _, there := slices.BinarySearch(r.snapshots, offset); there {
		return
	}
	r.p.producers.SnapshotOffset = offset
	for i := range r.p.pending {
		if r.p.pending[i].segment == g {
			r.p.pending[i].snapshot, r.p.pending[i].snapshotOffset = r.p.producers.Encode(), offset
			return
		}
	}
	r.p.pending = append(r.p.pending, pendingSeal{g, r.p.producers.Encode(), offset})
}

// needEpochs says that leader epochs have to be read from a log that has records.
func (r *recovery) needEpochs() bool { return r.epochLost && r.end.offset > r.segments[0].baseOffset }

func (r *recovery) replaySegment(g *segment, from int64) error {
	f, err := g.open()
	if err != nil {
		return err
	}
	aborted, before, err := r.keptAborted(g, from)
	if err != nil {
		return err
	}
	at := g.sizeBytes.Load() // only the transaction index is looked at
	if r.needEpochs() {
		at = 0
	} else if from < g.endOffset.Load() {
		if at, err = g.positionBefore(from); err != nil {
			return err
		}
	}
	sc := logfile.Scanner{File: f, At: at, Size: g.sizeBytes.Load(), HeadersOnly: true}
	defer sc.Close()
	for {
		v, at, err := sc.Next()
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if v == nil {
			break
		}
		if r.epochLost {
			r.p.epochs.Assign(v.PartitionLeaderEpoch(), v.BaseOffset())
		}
		if v.LastOffset() < from || !v.HasProducerID() {
			continue
		}
		if aborted, err = r.replayBatch(g, f, v, at, aborted); err != nil {
			return err
		}
	}
	if slices.Equal(aborted, before) && (r.durable < 0 || len(aborted) == 0) {
		return nil // in place the file is written again: its last sync may have failed
	}
	return r.rewriteAborted(g, aborted)
}

// replayBatch applies one batch of a producer. v is only its header.
func (r *recovery) replayBatch(g *segment, f vfs.File, v batch.View, at int64, aborted []AbortedTxn) ([]AbortedTxn, error) {
	var m producer.Marker
	if v.IsControl() {
		b := make(batch.View, v.SizeBytes())
		if _, err := f.ReadAt(b, at); err != nil {
			return nil, err
		}
		var err error
		if m, err = producer.ParseMarker(b); err != nil {
			return nil, fmt.Errorf("at %d: %w", at, err)
		}
		if a, ok := r.p.producers.AbortedBy(v, m); ok && !slices.Contains(aborted, a) {
			aborted = append(aborted, a)
		}
	}
	// The clock of the append is not in the log, and timestamps are the producer's: counting from now expires nobody early.
	r.p.producers.Apply(v, m, producer.Position{Offset: v.BaseOffset(), Base: g.baseOffset, At: at}, r.p.store.nowMs())
	return aborted, nil
}

// keptAborted is the part of the transaction index that the replay does not make anew; before is what the file has now.
func (r *recovery) keptAborted(g *segment, from int64) (aborted, before []AbortedTxn, err error) {
	before, err = g.abortedTxns()
	if err != nil {
		r.p.store.logger.Warn("transaction index rebuilt", "file", g.path(layout.TxnIndexSuffix), "reason", err)
		return nil, []AbortedTxn{{ProducerID: -1}}, nil // equal to nothing
	}
	for _, a := range before {
		if a.LastOffset < from {
			aborted = append(aborted, a)
		}
	}
	return aborted, before, nil
}

func (r *recovery) rewriteAborted(g *segment, aborted []AbortedTxn) error {
	var b []byte
	for _, a := range aborted {
		b = append(b, index.EncodeAborted(a)...)
	}
	if err := vfs.WriteFileAtomic(r.fs, g.path(layout.TxnIndexSuffix), r.p.path(), b); err != nil {
		return err
	}
	g.aborted.Store(&aborted)
	g.hasTxnIndex = true
	return nil
}

// locateTransactions finds out where the open transactions of a snapshot begin in the files; the last stable offset needs
// the position.
func (r *recovery) locateTransactions() error {
	list := segmentList{r.segments}
	return r.p.producers.Locate(func(offset int64) (producer.Position, error) {
		offset = max(offset, r.segments[0].baseOffset)
		g := list.all[max(list.find(offset), 0)]
		none := producer.Position{Offset: offset, Base: g.baseOffset, At: g.sizeBytes.Load()}
		f, err := g.open()
		if err != nil {
			return none, err
		}
		at, err := g.positionBefore(offset)
		if err != nil {
			return none, err
		}
		sc := logfile.Scanner{File: f, At: at, Size: g.sizeBytes.Load(), HeadersOnly: true}
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
