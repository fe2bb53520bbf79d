package cleaner

import "sync/atomic"

// Totals are what all rounds of a store have done since its start.
type Totals struct {
	CleanerRounds atomic.Int64 // that came to their end
	// Bytes of batches, those of rounds that failed included. Reads are two of each dirty batch, one of each clean one: by
	// written against read, a cleaner that has little to drop shows.
	CleanerReadBytes, CleanerWrittenBytes atomic.Int64
}

// Add counts a round.
func (t *Totals) Add(s *Stats, failed bool) {
	if !failed {
		t.CleanerRounds.Add(1)
	}
	t.CleanerReadBytes.Add(s.BytesRead)
	t.CleanerWrittenBytes.Add(s.BytesWritten)
}
