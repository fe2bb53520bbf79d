package cleaner

// Segment is what planning knows of one segment.
type Segment struct {
	BaseOffset       int64
	EndOffset        int64
	SizeBytes        int64
	IndexBytes       int64 // the larger of the two indexes
	MaxTimestampMs   int64 // -1: none
	FirstTimestampMs int64 // largest timestamp of the first batch; -1: none
}

// Log is what planning knows of one log. Segments has the active one last.
type Log struct {
	Segments       []Segment
	LogStartOffset int64
	StableOffset   int64 // min(last stable offset, what is durable): nothing at or above it is touched
	CleanedTo      int64 // from the checkpoint; -1: never cleaned
	NowMs          int64

	MinCompactionLagMs, MaxCompactionLagMs int64
	MinCleanableDirtyRatio                 float64
}

// Plan is what a round would clean.
type Plan struct {
	FirstDirtyOffset  int64   // everything below was cleaned
	UncleanableOffset int64   // base offset of the first segment that may not be touched
	CleanableBytes    int64   // between the two
	DirtyRatio        float64 // cleanable bytes as a share of all up to UncleanableOffset
	Due               bool    // worth a round now
}

// Plan looks for work (LogCleanerManager.cleanableOffsets and grabFilthiestCompactedLog).
func (l *Log) Plan() Plan {
	if len(l.Segments) == 0 {
		return Plan{} // closed meanwhile
	}
	p := Plan{FirstDirtyOffset: max(l.CleanedTo, l.LogStartOffset)}
	active := l.Segments[len(l.Segments)-1]
	if p.FirstDirtyOffset > active.EndOffset {
		p.FirstDirtyOffset = l.LogStartOffset // the log was cut: the checkpoint means another log
	}
	p.UncleanableOffset = active.BaseOffset
	overdue := false
	for _, s := range l.Segments[:len(l.Segments)-1] {
		if s.EndOffset > l.StableOffset {
			p.UncleanableOffset = s.BaseOffset
			break
		}
		if s.EndOffset <= p.FirstDirtyOffset {
			continue
		}
		if l.MinCompactionLagMs > 0 && s.MaxTimestampMs > l.NowMs-l.MinCompactionLagMs {
			p.UncleanableOffset = s.BaseOffset
			break
		}
		overdue = overdue || s.FirstTimestampMs > 0 && s.FirstTimestampMs < l.NowMs-l.MaxCompactionLagMs
	}
	clean := int64(0)
	for _, s := range l.Segments {
		switch {
		case s.BaseOffset >= p.UncleanableOffset:
		case s.EndOffset <= p.FirstDirtyOffset:
			clean += s.SizeBytes
		default:
			p.CleanableBytes += s.SizeBytes
		}
	}
	if p.CleanableBytes > 0 {
		p.DirtyRatio = float64(p.CleanableBytes) / float64(clean+p.CleanableBytes)
		p.Due = overdue || p.DirtyRatio > l.MinCleanableDirtyRatio
	}
	return p
}

// Group cuts segments, the ones below endOffset, into runs that become one segment each
// (Cleaner.groupSegmentsBySize). It returns the number of segments of each run.
func Group(segments []Segment, maxBytes, maxIndexBytes int64) []int {
	var groups []int
	for i := 0; i < len(segments); {
		first := segments[i]
		bytes, indexBytes := first.SizeBytes, first.IndexBytes
		n := 1
		for ; i+n < len(segments); n++ {
			s := segments[i+n]
			bytes += s.SizeBytes
			indexBytes += s.IndexBytes
			if bytes > maxBytes || indexBytes > maxIndexBytes || s.EndOffset-1-first.BaseOffset > 1<<31-1 {
				break
			}
		}
		groups = append(groups, n)
		i += n
	}
	return groups
}
