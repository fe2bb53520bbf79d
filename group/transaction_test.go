package group

import (
	"testing"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Offsets that were sent to transactions, as they stand in a log that another
// broker has written: they count from their commit marker on, and require_stable
// tells of those that are open.
func TestLoadedTransactionalOffsets(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	add := func(producerID int64, topic string, value int64) {
		b := batch.Builder{BaseSequence: -1}
		if producerID >= 0 {
			b.Transactional, b.HasProducer, b.ProducerID = true, true, producerID
		}
		r := offsetRecord("g", topic, 0, &offset{offset: value, leaderEpoch: -1, expireMs: noExpiry})
		b.Append(1, r.Key, r.Value)
		bytes, err := b.Build(nil)
		if err == nil {
			_, err = log.Append(bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	end := func(producerID int64, commit bool) {
		if _, err := log.Append(batch.EndTxnMarker(nil, producerID, 0, commit, 0, 1)); err != nil {
			t.Fatal(err)
		}
	}
	add(-1, "committed", 1)
	add(0, "committed", 2) // producer id 0 is one like any other
	end(0, true)
	add(-1, "aborted", 1)
	add(5, "aborted", 2)
	end(5, false)
	add(-1, "open", 1)
	add(7, "open", 2)
	add(8, "overtaken", 2)
	add(-1, "overtaken", 3) // a plain commit after the pending one stays
	end(8, true)
	add(9, "only pending", 2)

	config := DefaultConfig()
	s, err := coord.NewSteps(NewMachine(&config), log, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		topic         string
		plain, stable int64
		code          int16
	}{
		{"committed", 2, 2, 0},
		{"aborted", 1, 1, 0},
		{"open", 1, -1, codeUnstableOffset},
		{"overtaken", 3, 3, 0},
		{"only pending", -1, -1, codeUnstableOffset},
	} {
		req := kmsg.NewOffsetFetchRequestGroup()
		req.Group = "g"
		req.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: tc.topic, Partitions: []int32{0}}}
		for _, stable := range []bool{false, true} {
			err := s.Turn(1, 1, func(m *Machine, turn *coord.Turn) {
				m.OffsetFetch(turn, &req, stable, func(r *kmsg.OffsetFetchResponseGroup) {
					p := r.Topics[0].Partitions[0]
					want, code := tc.plain, int16(0)
					if stable {
						want, code = tc.stable, tc.code
					}
					if p.Offset != want || p.ErrorCode != code {
						t.Errorf("%s, stable=%v: offset %d, code %d; want %d, %d", tc.topic, stable, p.Offset, p.ErrorCode, want, code)
					}
				})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if open := len(s.Machine.transactions.open); open != 2 {
		t.Errorf("%d transactions are open, want 2", open)
	}
}
