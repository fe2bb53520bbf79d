package coord

import (
	"fmt"

	"kaas/codec/batch"
)

// producerEpochs are the epochs of the producers in batches that are not appended
// yet: the log cannot know them, and its refusal of a batch would end the
// incarnation. Emptied with each append.
type producerEpochs map[int64]int16

// checkProducer makes sure that the log takes a batch of the producer.
func (c *core) checkProducer(producerID int64, producerEpoch int16, marker, raised bool, coordinatorEpoch int32) error {
	if epoch, emitted := c.producers[producerID]; emitted && producerEpoch < epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrProducerFenced, producerID, epoch, producerEpoch)
	}
	if err := c.log.CheckProducer(producerID, producerEpoch, marker, raised, coordinatorEpoch); err != nil {
		return fmt.Errorf("%w: %w", ErrProducerFenced, err)
	}
	return nil
}

// begin notes a producer, whose batch comes next, and ends the plain batch before
// it. What the producer has in batches before this one is appended first: the log
// decides over the batches of one append by what it knew before (the index of
// aborted transactions). When that fails, the next flush says so.
func (c *core) begin(producerID int64, producerEpoch int16) {
	if _, emitted := c.producers[producerID]; emitted {
		c.failure = c.flush()
	}
	if c.producers == nil {
		c.producers = producerEpochs{}
	}
	c.producers[producerID] = producerEpoch
	if c.builder.Count() > 0 {
		c.seal()
	}
}

func (c *core) emitInTransaction(t *Turn, producerID int64, producerEpoch int16, records []Record) error {
	size, err := c.size(records)
	if err != nil {
		return err
	}
	if err := c.checkProducer(producerID, producerEpoch, false, false, 0); err != nil {
		return err
	}
	c.begin(producerID, producerEpoch)
	c.emittedBytes += size
	b := &c.builder
	b.Transactional, b.HasProducer, b.ProducerID, b.ProducerEpoch, b.BaseSequence = true, true, producerID, producerEpoch, -1
	for i := range records {
		r := &records[i]
		r.Offset, r.InTransaction, r.ProducerID, r.ProducerEpoch = -1, true, producerID, producerEpoch
		b.Append(t.WallMs, r.Key, r.Value)
		if err := c.machine.Replay(r); err != nil {
			panic(fmt.Sprintf("coord: the machine cannot replay its own record %x: %v", r.Key, err))
		}
	}
	c.seal()
	c.builder.Transactional, c.builder.HasProducer = false, false
	return nil
}

func (c *core) emitMarker(t *Turn, producerID int64, producerEpoch int16, coordinatorEpoch int32, commit, raised bool) error {
	if err := c.checkProducer(producerID, producerEpoch, true, raised, coordinatorEpoch); err != nil {
		return err
	}
	c.begin(producerID, producerEpoch)
	before := len(c.sealed)
	c.sealed = batch.EndTxnMarker(c.sealed, producerID, producerEpoch, commit, coordinatorEpoch, t.WallMs)
	c.emittedBytes += len(c.sealed) - before
	c.filling++
	if err := c.machine.ReplayMarker(producerID, producerEpoch, commit); err != nil {
		panic(fmt.Sprintf("coord: the machine cannot replay its own marker of producer %d: %v", producerID, err))
	}
	return nil
}
