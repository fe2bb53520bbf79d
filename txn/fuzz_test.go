package txn

import (
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
)

// FuzzReplay: whatever stands in the log, no panic; what is taken over is written out
// again as it was understood, and the machine goes on.
func FuzzReplay(f *testing.F) {
	d := metadata{producerID: 5, previousProducerID: -1, nextProducerID: 9, epoch: 3, timeoutMs: 1000, state: PrepareAbort,
		partitions: map[TopicPartition]struct{}{{"t", 0}: {}, {"u", 7}: {}}, startMs: 1, updateMs: 2, clientVersion: Version2}
	for _, state := range []State{Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort} {
		d.state = state
		r := record("id", &d)
		f.Add(r.Key, r.Value)
	}
	f.Add(tombstone("id").Key, []byte(nil))
	f.Add([]byte{0, 1}, []byte{0, 9})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		config := DefaultConfig()
		config.WriteMarkers = func(Markers) {}
		m := NewMachine(&config, 0)
		if err := m.Replay(&coord.Record{Key: key, Value: value}); err != nil {
			return
		}
		for id, x := range m.transactions {
			r := record(id, &x.metadata)
			again, err := decodeValue(r.Value)
			if err != nil || len(again.partitions) != len(x.partitions) || again.state != x.state || again.producerID != x.producerID || again.epoch != x.epoch {
				t.Fatalf("%+v is written as %+v: %v", x.metadata, again, err)
			}
		}
		log := coordtest.NewLog()
		s, err := coord.NewSteps(m, log, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		events := func(m *Machine, turn *coord.Turn) {
			for _, id := range m.sortedIDs() {
				x := m.transactions[id]
				for _, version := range []int16{Version0, Version2} {
					m.EndTransaction(turn, EndRequest{TransactionalID: id, ProducerID: x.producerID, ProducerEpoch: x.epoch, ClientVersion: version, FreshProducerID: 77}, func(EndResult) {})
				}
				m.InitProducerID(turn, InitRequest{TransactionalID: id, TimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1, FreshProducerID: 78}, func(InitResult) {})
				m.AddPartitions(turn, AddRequest{TransactionalID: id, ProducerID: x.producerID, ProducerEpoch: x.epoch, Partitions: []TopicPartition{{"v", 1}}}, func(int16) {})
			}
		}
		for now := int64(1); now < 1<<40; now *= 1 << 10 {
			if err := s.Turn(now, now, events); err != nil {
				t.Fatal(err)
			}
		}
	})
}
