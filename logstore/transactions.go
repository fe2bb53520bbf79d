package logstore

import "kaas/logstore/producer"

// BeginVerification begins to verify a producer's first batch of a transaction in this partition (KIP-890): the guard goes
// with its append, after the coordinator has said yes. 0: the transaction is open already.
// raisesEpoch: the producer raises its epoch with each transaction, so where the partition does not know it, it begins with
// sequence 0: else ErrOutOfOrderSequence.
func (p *Partition) BeginVerification(producerID int64, epoch int16, sequence int32, raisesEpoch bool) (guard uint64) {
	nowMs := p.store.nowMs()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.producers.BeginVerification(producerID, epoch, sequence, raisesEpoch, nowMs)
}

// CheckProducer says whether Append would refuse a coordinator's batch for the producer's epoch or, of a marker, for the
// coordinator's; raised as AppendOptions.RaisedEpoch. It changes nothing.
func (p *Partition) CheckProducer(producerID int64, epoch int16, marker, raised bool, coordinatorEpoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.producers.CheckEpochs(producerID, epoch, marker, raised, coordinatorEpoch); err != nil {
		return p.wrap(err)
	}
	return nil
}

// states is what the partition knows of its producers. They stay guarded by mu, also when a recovery in place has put others
// into their place.
func (p *Partition) states() *producer.States {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.producers
}

// Producers lists the producers that the partition knows, in no order.
func (p *Partition) Producers() []producer.Producer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.producers.Producers()
}
