package cleaner

import (
	"sort"

	"kaas/codec/batch"
	"kaas/logstore/index"
	"kaas/logstore/producer"
)

// transactions follows the transactions of a log in the order of its batches (CleanedTransactionMetadata). Records of an
// aborted one may go at once. A marker may go, after its delete horizon, when no batch of its transaction was seen; until
// then the aborted-transaction index keeps its entry, because a reader may hold batches from before this round.
type transactions struct {
	pending   []index.AbortedTxn // by first offset; not reached yet
	aborted   map[int64]*ongoing // by producer id
	committed map[int64]bool     // producers with a transaction that is not aborted, of which a batch was seen
	kept      []index.AbortedTxn // entries of the new transaction index
}

type ongoing struct {
	entry index.AbortedTxn
	seen  bool
}

func newTransactions() *transactions {
	return &transactions{aborted: map[int64]*ongoing{}, committed: map[int64]bool{}}
}

func (t *transactions) add(entries []index.AbortedTxn) {
	t.pending = append(t.pending, entries...)
	sort.Slice(t.pending, func(i, j int) bool { return t.pending[i].FirstOffset < t.pending[j].FirstOffset })
}

func (t *transactions) reach(offset int64) {
	for len(t.pending) > 0 && t.pending[0].FirstOffset <= offset {
		entry := t.pending[0]
		t.pending = t.pending[1:]
		if t.aborted[entry.ProducerID] == nil {
			t.aborted[entry.ProducerID] = &ongoing{entry: entry}
		}
	}
}

// data says whether the records of a batch may go because its transaction was aborted.
func (t *transactions) data(v batch.View) bool {
	t.reach(v.LastOffset())
	if !v.IsTransactional() {
		return false
	}
	if o := t.aborted[v.ProducerID()]; o != nil {
		o.seen = true
		return true
	}
	t.committed[v.ProducerID()] = true
	return false
}

// control says whether a control batch is of no use any more.
func (t *transactions) control(v batch.View) (bool, error) {
	t.reach(v.LastOffset())
	m, err := producer.ParseMarker(v)
	if err != nil {
		return false, err
	}
	switch {
	case v.RecordCount() == 0:
		return true, nil // cleaned before
	case !m.IsEndTxn():
		return false, nil
	case m.IsCommit():
		seen := t.committed[v.ProducerID()]
		delete(t.committed, v.ProducerID())
		return !seen, nil
	}
	o := t.aborted[v.ProducerID()]
	delete(t.aborted, v.ProducerID())
	if o != nil && o.seen {
		t.kept = append(t.kept, o.entry)
		return false, nil
	}
	return true, nil
}

// takeKept returns the index entries of the markers since the last call.
func (t *transactions) takeKept() []index.AbortedTxn {
	kept := t.kept
	t.kept = nil
	return kept
}
