package coord

import (
	"context"
	"fmt"
	"log/slog"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

// loader replays a shard's log into a fresh machine.
type loader struct {
	machine Machine
	logger  *slog.Logger
	record  Record

	records, skipped int64
}

// load fills the machine. Batches that are not committed yet are replayed too:
// they are in the log and will be committed, and the core's replies wait for it.
func (l *loader) load(ctx context.Context, log Log) (endOffset int64, err error) {
	endOffset, err = log.Replay(ctx, l.visit)
	if err != nil {
		return 0, fmt.Errorf("%w: load: %w", ErrLogFailed, err)
	}
	if l.skipped > 0 {
		l.logger.Warn("records of the coordinator's log were skipped; what they said is not known", "skipped", l.skipped, "records", l.records)
	}
	return endOffset, nil
}

// visit replays one batch. Only a cancelled load ends with an error: a record
// that nobody can read must not take all the other groups of the shard with it.
func (l *loader) visit(view batch.View) error {
	iterator, err := view.Records(limits.CoordLoadBatchBytes)
	if err != nil {
		l.skip(view.BaseOffset(), err)
		return nil
	}
	defer iterator.Close()
	for iterator.Next() {
		l.records++
		if err := l.replay(view, iterator.Record()); err != nil {
			l.skip(iterator.Record().Offset, err)
		}
	}
	if err := iterator.Err(); err != nil {
		l.skip(view.BaseOffset(), err)
	}
	return nil
}

func (l *loader) replay(view batch.View, r *batch.Record) error {
	if view.IsControl() {
		kind, _, err := batch.ParseEndTxnMarker(r)
		if err != nil {
			return err
		}
		if kind != batch.ControlCommit && kind != batch.ControlAbort {
			return nil // no end of a transaction
		}
		return l.machine.ReplayMarker(view.ProducerID(), view.ProducerEpoch(), kind == batch.ControlCommit)
	}
	l.record = Record{Key: r.Key, Value: r.Value, Offset: r.Offset, InTransaction: view.IsTransactional()}
	if l.record.InTransaction {
		l.record.ProducerID, l.record.ProducerEpoch = view.ProducerID(), view.ProducerEpoch()
	}
	return l.machine.Replay(&l.record)
}

func (l *loader) skip(offset int64, err error) {
	l.skipped++
	if l.skipped <= limits.CoordSkippedRecordLines {
		l.logger.Warn("a record of the coordinator's log is skipped", "offset", offset, "error", err)
	}
}
