package coordinators

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/logstore"
)

// shardLog is a partition of an internal topic as coord's log.
type shardLog struct{ log *logstore.Partition }

func (l *shardLog) Append(batches []byte) (endOffset int64, err error) {
	result, err := l.log.Append(batches, logstore.AppendOptions{Origin: logstore.OriginCoordinator, LeaderEpoch: l.log.LeaderEpoch()})
	if err != nil {
		return 0, err
	}
	return result.LastOffset + 1, nil
}

func (l *shardLog) WhenCommitted(endOffset int64, done func(err error)) {
	l.log.WhenCommitted(&logstore.Waiter{Offset: endOffset, Done: func(_ *logstore.Waiter, err error) { done(err) }})
}

// CheckProducer implements coord.Log.
func (l *shardLog) CheckProducer(producerID int64, producerEpoch int16, marker, raised bool, coordinatorEpoch int32) error {
	return l.log.CheckProducer(producerID, producerEpoch, marker, raised, coordinatorEpoch)
}

// MaxBatchBytes follows the topic's configuration at the time of the load.
func (l *shardLog) MaxBatchBytes() int { return int(l.log.Config().MaxMessageBytes) }

// Replay reads everything that was in the log when it began. Nothing is appended
// meanwhile: the shard that is loading is the only writer.
func (l *shardLog) Replay(ctx context.Context, visit func(batch.View) error) (endOffset int64, err error) {
	log := l.log
	endOffset = log.LogEndOffset()
	var scratch []byte
	for offset := log.LogStartOffset(); offset < endOffset; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		records, err := readAll(log, offset, &scratch)
		if err != nil {
			return 0, err
		}
		if len(records) == 0 {
			break // the rest was compacted away
		}
		for len(records) > 0 {
			view, rest, err := batch.Next(records)
			if err != nil {
				return 0, fmt.Errorf("%s-%d at offset %d: %w", log.Topic(), log.ID(), offset, err)
			}
			if err := visit(view); err != nil {
				return 0, err
			}
			offset, records = view.LastOffset()+1, rest
		}
	}
	return endOffset, nil
}

// readAll copies one read of the log into memory of its own, so that a load never
// faults on a mapped page and pins no segment while it decodes.
func readAll(log *logstore.Partition, offset int64, scratch *[]byte) ([]byte, error) {
	slice, err := log.Read(offset, limits.GroupLoadReadBytes, true, logstore.ReadLogEnd)
	if err != nil {
		return nil, err
	}
	defer slice.Release()
	if cap(*scratch) < slice.Len {
		*scratch = make([]byte, slice.Len)
	}
	records := (*scratch)[:slice.Len]
	if slice.Len == 0 {
		return records, nil
	}
	if slice.Mem != nil {
		copy(records, slice.Mem)
		return records, nil
	}
	for done := 0; done < len(records); {
		n, err := syscall.Pread(slice.FD, records[done:], slice.Offset+int64(done))
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = os.ErrClosed
		}
		if err != nil {
			return nil, fmt.Errorf("%s-%d: read at offset %d: %w", log.Topic(), log.ID(), offset, err)
		}
		done += n
	}
	return records, nil
}
