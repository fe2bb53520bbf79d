package logstore

import (
	"fmt"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/producer"
	"kaas/logstore/segment"
	"kaas/logstore/validate"
)

// Append validates records (one or more whole batches), assigns offsets and writes them. records are borrowed and patched
// in place: base offset, leader epoch and, under LogAppendTime, the timestamp. Clients may append one batch at a time.
//
// On an error nothing has happened: offsets, producer state, indexes and watermarks are as before. After success the
// records are not yet durable: see WhenCommitted.
func (p *Partition) Append(records []byte, o AppendOptions) (AppendResult, error) {
	config := p.config.Load()
	nowMs := p.store.nowMs()
	rules := validate.Rules{
		SegmentBytes: config.SegmentBytes, MaxMessageBytes: config.MaxMessageBytes, LogAppendTime: config.LogAppendTime,
		TimestampBeforeMaxMs: config.TimestampBeforeMaxMs, TimestampAfterMaxMs: config.TimestampAfterMaxMs, FromClient: o.Origin == OriginClient,
	}
	info, err := validate.Records(records, &rules, nowMs)
	if err != nil {
		return AppendResult{}, p.wrap(err)
	}
	if info.Decoded {
		p.store.counters.CountCheckBatches.Add(1)
	}
	if config.CleanupCompact && o.Origin == OriginClient {
		p.store.counters.KeyCheckBatches.Add(1)
		if err := validate.Keys(batch.View(records), p.topic, p.id); err != nil {
			return AppendResult{}, p.wrap(err)
		}
	}
	if err := p.warm(); err != nil {
		return AppendResult{}, p.wrap(fmt.Errorf("%w: %w", ErrStorage, err))
	}
	p.mu.Lock()
	result, err := p.appendLocked(records, &info, o, config, nowMs)
	if err != nil || result.Duplicate {
		p.mu.Unlock()
		if err != nil {
			if vfs.IsFull(err) {
				p.store.janitor.Full()
			}
			if segment.IsShortened(err) {
				p.fail(err)
			}
			err = p.wrap(err)
		}
		return result, err
	}
	if config.FlushMessages <= 1 {
		p.store.committer.Enqueue(&p.commits)
		p.mu.Unlock()
		return result, nil
	}
	waiters, moved := p.advance(p.end.load())
	p.unflushed += info.Records
	if p.unflushed >= config.FlushMessages {
		p.store.committer.Enqueue(&p.commits)
	} else if config.FlushMs < 1<<62 && p.flushDueMs == 0 {
		p.flushDueMs = p.store.upMs() + config.FlushMs
		p.store.committer.Delay(&p.commits, p.flushDueMs)
	}
	p.mu.Unlock()
	p.announce(waiters, moved)
	return result, nil
}

// warm opens the active segment and loads its index, where that was not done yet (the first append after a start), without
// the partition's lock: reads of a cold disk keep no other request waiting.
func (p *Partition) warm() error {
	g := p.active.Load() // nil: closed, the append finds out why
	if g == nil || g.IsOpen() || g.Sealed.Load() || !g.Acquire() {
		return nil
	}
	defer g.Release()
	if _, err := g.Open(); err != nil {
		return err
	}
	_, err := g.MemIndex()
	return err
}

// appendLocked decides by the partition's state, writes, and only then changes the state.
func (p *Partition) appendLocked(records []byte, info *validate.Info, o AppendOptions, c *Config, nowMs int64) (AppendResult, error) {
	result := AppendResult{LogStartOffset: p.logStart.Load(), LogAppendTimeMs: info.AppendTimeMs}
	if f := p.failure.Load(); f != nil {
		return result, *f
	}
	if p.frozen {
		return result, fmt.Errorf("%w: the partition is being moved to another log directory, try again", ErrStalled)
	}
	if since := p.commits.SinceMs.Load(); since != 0 && p.store.upMs()-since >= limits.CommitStalledMs {
		return result, fmt.Errorf("%w: a commit has not returned for %d ms; look at the volume of %s", ErrStalled, p.store.upMs()-since, p.logDir().path)
	}
	if o.LeaderEpoch < p.leaderEpoch.Load() {
		return result, fmt.Errorf("%w: epoch %d, the log has %d", ErrFencedLeaderEpoch, o.LeaderEpoch, p.leaderEpoch.Load())
	}
	end := p.end.load()
	if info.Producers {
		repeated, err := p.checkProducers(records, o)
		if err != nil {
			return result, err
		}
		if repeated != nil {
			result.BaseOffset, result.LastOffset = repeated.FirstOffset(), repeated.LastOffset
			result.Duplicate = true
			if info.AppendTimeMs >= 0 {
				result.LogAppendTimeMs = repeated.TimestampMs
			}
			return result, nil
		}
	}
	g, err := p.segmentFor(len(records), info, c, nowMs)
	if err != nil {
		return result, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	result.BaseOffset, result.LastOffset = end.offset, end.offset+info.Records-1
	f, err := g.Open()
	if err != nil {
		return result, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	offset := end.offset
	for rest := records; len(rest) > 0; {
		v, after, _ := batch.Next(rest) // validated
		v.SetBaseOffset(offset)
		v.SetPartitionLeaderEpoch(o.LeaderEpoch)
		offset, rest = v.LastOffset()+1, after
	}
	size := g.SizeBytes.Load()
	a := segment.Appending{SegmentBytes: int64(c.SegmentBytes), Synced: c.FlushMessages <= 1, NowMs: nowMs}
	err = g.Write(f, records, size, &a)
	if err == nil && info.Controls {
		err = p.writeAborted(g, records)
	}
	if err != nil {
		return result, fmt.Errorf("%w: %w", ErrStorage, g.TakeBack(f, size, err))
	}
	p.appended(g, records, info, o, c, nowMs)
	p.wantSpare(g, c)
	return result, nil
}

// checkProducers decides over all batches without a change; a batch that was appended before is returned.
func (p *Partition) checkProducers(records []byte, o AppendOptions) (*producer.Batch, error) {
	p.markers = p.markers[:0]
	for rest := records; len(rest) > 0; {
		v, after, _ := batch.Next(rest) // validated
		rest = after
		if v.IsControl() {
			m, err := producer.ParseMarker(v)
			if err == nil {
				err = p.producers.CheckMarker(v, m)
				if err == nil && o.RaisedEpoch {
					err = p.producers.CheckRaised(v)
				}
			} else {
				err = fmt.Errorf("%w: %w", ErrInvalidRecord, err)
			}
			if err != nil {
				return nil, err
			}
			p.markers = append(p.markers, m)
			continue
		}
		if !v.HasProducerID() {
			continue
		}
		if o.Verify && v.IsTransactional() {
			if err := p.producers.CheckVerified(v, o.Guard); err != nil {
				return nil, err
			}
		}
		if repeated, err := p.producers.Check(v, o.Origin == OriginClient); err != nil || repeated != nil {
			return repeated, err
		}
		if o.Verify && v.IsTransactional() {
			if err := p.producers.CheckGuard(v, o.Guard); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// writeAborted writes the transaction index entries of the markers in records, which stand in the log already: all, or, on
// an error, none.
func (p *Partition) writeAborted(g *segment.Segment, records []byte) error {
	next := 0
	var aborted []AbortedTxn
	for rest := records; len(rest) > 0; {
		v, after, _ := batch.Next(rest) // validated
		rest = after
		if !v.IsControl() || !v.HasProducerID() {
			continue
		}
		m := p.markers[next]
		next++
		if a, ok := p.producers.AbortedBy(v, m); ok {
			aborted = append(aborted, a)
		}
	}
	if len(aborted) == 0 {
		return nil
	}
	p.dirUnsynced = p.dirUnsynced || !g.HasTxnIndex
	return g.AppendAborted(aborted)
}

// appended takes over what stands in the file: indexes, producer state, epochs, marks. It can't fail.
func (p *Partition) appended(g *segment.Segment, records []byte, info *validate.Info, o AppendOptions, c *Config, nowMs int64) {
	at := g.SizeBytes.Load()
	entries := g.Writable() // segmentFor loaded it
	nextMarker := 0
	offset := int64(0)
	for rest := records; len(rest) > 0; {
		v, after, _ := batch.Next(rest) // validated
		rest = after
		if g.FirstTimestampMs == segment.UnknownTimestamp && at == 0 {
			g.FirstTimestampMs = v.MaxTimestamp()
		}
		if ts := v.MaxTimestamp(); ts > g.MaxTimestampMs {
			g.MaxTimestampMs, g.MaxTimestampAt = ts, v.LastOffset()
		}
		if g.BytesSinceIndex > int64(c.IndexIntervalBytes) {
			entries.Offsets.Append(index.OffsetEntry{RelativeOffset: int32(v.LastOffset() - g.BaseOffset), Position: int32(at)})
			index.AppendTime(entries, g.MaxTimestampMs, g.MaxTimestampAt, g.BaseOffset)
			g.BytesSinceIndex = 0
		}
		g.BytesSinceIndex += int64(len(v))
		if v.HasProducerID() {
			var m producer.Marker
			if v.IsControl() {
				m = p.markers[nextMarker]
				nextMarker++
			}
			p.producers.Apply(v, m, producer.Position{Offset: v.BaseOffset(), Base: g.BaseOffset, At: at}, nowMs)
		}
		g.AddRecent(v.BaseOffset(), at)
		at += int64(len(v))
		offset = v.LastOffset() + 1
	}
	if p.epochNoted != o.LeaderEpoch+1 {
		p.noteEpoch(o.LeaderEpoch)
	}
	g.Unsynced = true
	p.totalBytes.Add(int64(len(records)))
	g.EndOffset.Store(offset)
	g.SizeBytes.Store(at)
	p.end.store(position{offset, g.BaseOffset, at})
	if at >= g.AheadAt {
		g.AskAhead(at, p.store.upMs())
	}
}

// noteEpoch lets a leader epoch begin here, if it is a new one.
func (p *Partition) noteEpoch(epoch int32) {
	if epoch > p.epochs.Latest() {
		p.epochs.Assign(epoch, p.end.offset.Load())
		p.leaderEpoch.Store(epoch)
	}
	p.epochNoted = epoch + 1
}

// advance moves the high watermark (never back) and the last stable offset, and takes the waiters that are served.
// Caller: mu. Complete the waiters and tell the listener without it.
func (p *Partition) advance(to position) (waiters *Waiter, moved bool) {
	if to.offset > p.high.offset.Load() {
		p.high.store(to)
		moved = true
	}
	high := p.high.load()
	stable := high
	if first, any := p.producers.Committed(high.offset); any && first.Offset < high.offset {
		stable = position{first.Offset, first.Base, first.At}
	}
	if stable.offset > p.stable.offset.Load() {
		p.stable.store(stable)
		moved = true
	}
	if moved {
		waiters = p.waiters.Take(high.offset)
	}
	return waiters, moved
}
