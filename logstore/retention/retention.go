package retention

import "kaas/logstore/segment"

// Rules are what a log's retention goes by.
type Rules struct {
	Delete         bool  // cleanup.policy has delete
	RetentionBytes int64 // -1: any size
	RetentionMs    int64 // -1: any age
	StartOnly      bool  // only what lies below the log start

	LogStart, HighWatermark, TotalBytes int64
	NowMs                               int64
}

// Deletable counts the oldest segments that may go, and says why the last of them may (UnifiedLog.deleteOldSegments). Caller:
// Partition.mu of the segments.
func (r *Rules) Deletable(all []*segment.Segment) (n int, reason string, err error) {
	surplus := int64(-1)
	if r.Delete && r.RetentionBytes >= 0 {
		surplus = r.TotalBytes - r.RetentionBytes
	}
	for i, g := range all {
		end, size := g.EndOffset.Load(), g.SizeBytes.Load()
		if end > r.HighWatermark || i == len(all)-1 && size == 0 {
			return n, reason, nil
		}
		switch {
		case end <= r.LogStart:
			reason = "below the log start offset"
		case r.StartOnly:
			return n, reason, nil
		case surplus >= size && surplus > 0:
			reason = "retention.bytes"
		default:
			if !r.Delete || r.RetentionMs < 0 {
				return n, reason, nil
			}
			if err := g.LoadMaxTimestamp(); err != nil {
				return n, reason, err
			}
			stamp := g.MaxTimestampMs
			if stamp < 0 {
				stamp = g.CreatedMs
			}
			if r.NowMs-stamp <= r.RetentionMs {
				return n, reason, nil
			}
			reason = "retention.ms"
		}
		surplus -= size
		n++
	}
	return n, reason, nil
}
