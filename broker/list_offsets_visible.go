package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
	"kaas/logstore"
)

// whenVisible calls then once, when everything that was appended before this
// request is visible, or after limits.ListOffsetsCommitWait.
//
// In Kafka a partition without followers shows a record as soon as it is
// appended, so a client that has produced with acks=0 or 1 and asks for the end
// offset finds its own records below it. Here a record becomes visible with its
// commit, which is milliseconds later: the answer waits for it, so that the
// client still reads its own writes.
//
// then runs on this goroutine when nothing is under way, else on the goroutine
// of the last commit or of the timer; it must not block.
func (l *listOffsets) whenVisible(then func()) {
	type end struct {
		log    *logstore.Partition
		offset int64
	}
	var ends []end
	for i := range l.message.Topics {
		for j := range l.message.Topics[i].Partitions {
			asked := &l.message.Topics[i].Partitions[j]
			state, unknown := l.broker.partition(l.message.Topics[i].Topic, asked.Partition)
			if unknown != nil || asked.Timestamp == timestampEarliest {
				continue
			}
			if offset := state.log.LogEndOffset(); state.log.HighWatermark() < offset {
				ends = append(ends, end{state.log, offset})
			}
		}
	}
	if len(ends) == 0 {
		then()
		return
	}
	var once sync.Once
	timer := time.AfterFunc(limits.ListOffsetsCommitWait, func() { once.Do(then) })
	var pending atomic.Int64
	pending.Store(int64(len(ends)))
	done := func(*logstore.Waiter, error) { // a partition that failed has nothing more to show
		if pending.Add(-1) == 0 {
			timer.Stop()
			once.Do(then)
		}
	}
	for _, e := range ends {
		e.log.WhenCommitted(&logstore.Waiter{Offset: e.offset, Done: done})
	}
}
