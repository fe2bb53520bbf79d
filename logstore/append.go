package logstore

import (
	"errors"
	"fmt"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/producer"
)

// appendInfo is what validation found; it is a value, so an append allocates nothing.
type appendInfo struct {
	records      int64 // offsets that the batches take
	maxTimestamp int64
	appendTimeMs int64 // -1: CreateTime
	producers    bool  // some batch has a producer id
	controls     bool
}

// Append validates records (one or more whole batches), assigns offsets and writes them. records are borrowed and patched
// in place: base offset, leader epoch and, under LogAppendTime, the timestamp. Clients may append one batch at a time.
//
// On an error nothing has happened: offsets, producer state, indexes and watermarks are as before. After success the
// records are not yet durable: see WhenCommitted.
func (p *Partition) Append(records []byte, o AppendOptions) (AppendResult, error) {
	config := p.config.Load()
	nowMs := p.store.nowMs()
	info, err := validate(records, o.Origin, config, nowMs)
	if err != nil {
		return AppendResult{}, p.wrap(err)
	}
	if config.CleanupCompact && o.Origin == OriginClient {
		if err := p.checkKeys(batch.View(records)); err != nil {
			return AppendResult{}, p.wrap(err)
		}
	}
	p.mu.Lock()
	result, err := p.appendLocked(records, &info, o, config, nowMs)
	if err != nil || result.Duplicate {
		p.mu.Unlock()
		if err != nil {
			err = p.wrap(err)
		}
		return result, err
	}
	if config.FlushMessages <= 1 {
		p.store.committer.enqueue(p)
		p.mu.Unlock()
		return result, nil
	}
	waiters, moved := p.advance(p.end.load())
	p.unflushed += info.records
	if p.unflushed >= config.FlushMessages {
		p.store.committer.enqueue(p)
	} else if config.FlushMs < 1<<62 && p.flushDueMs == 0 {
		p.flushDueMs = nowMs + config.FlushMs
		p.store.committer.delay(p, p.flushDueMs)
	}
	p.mu.Unlock()
	complete(waiters, nil)
	if l := p.store.options.Listener; l != nil && moved {
		l.Advanced(p)
	}
	return result, nil
}

// validate checks what can be checked without the partition's state, and stamps LogAppendTime. It matches
// UnifiedLog.analyzeAndValidateRecords and LogValidator, except that records stay opaque: their timestamps are judged by
// the batch header.
func validate(records []byte, origin Origin, c *Config, nowMs int64) (appendInfo, error) {
	info := appendInfo{maxTimestamp: -1, appendTimeMs: -1}
	if len(records) == 0 {
		return info, fmt.Errorf("%w: no batch", ErrInvalidRecord)
	}
	if len(records) > int(c.SegmentBytes) {
		return info, fmt.Errorf("%w: %d bytes, segment.bytes is %d", ErrMessageTooLarge, len(records), c.SegmentBytes)
	}
	for rest := records; len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if errors.Is(err, batch.ErrMagic) {
			return info, fmt.Errorf("%w: %w", ErrUnsupportedMagic, err)
		}
		if err != nil {
			return info, fmt.Errorf("%w: %w", ErrCorruptMessage, err)
		}
		rest = after
		if origin == OriginClient && len(rest) > 0 {
			return info, fmt.Errorf("%w: more than one batch", ErrInvalidRecord)
		}
		if err := validateBatch(v, origin, c, nowMs); err != nil {
			return info, err
		}
		if c.LogAppendTime {
			v.SetLogAppendTime(nowMs)
			info.appendTimeMs = nowMs
		}
		info.records += int64(v.LastOffsetDelta()) + 1
		info.maxTimestamp = max(info.maxTimestamp, v.MaxTimestamp())
		info.producers = info.producers || v.HasProducerID()
		info.controls = info.controls || v.IsControl()
	}
	return info, nil
}

func validateBatch(v batch.View, origin Origin, c *Config, nowMs int64) error {
	if len(v) > int(c.MaxMessageBytes) {
		return fmt.Errorf("%w: a batch of %d bytes, max.message.bytes is %d", ErrMessageTooLarge, len(v), c.MaxMessageBytes)
	}
	if !v.VerifyCRC() {
		return fmt.Errorf("%w: the CRC32C is wrong", ErrCorruptMessage)
	}
	if v.Compression() > batch.Zstd {
		return fmt.Errorf("%w: id %d", ErrUnsupportedCompression, v.Compression())
	}
	if v.LastOffsetDelta() < 0 || v.RecordCount() <= 0 {
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidRecord, v.RecordCount(), v.LastOffsetDelta())
	}
	if origin == OriginClient {
		switch {
		case v.BaseOffset() != 0:
			return fmt.Errorf("%w: base offset %d, a producer must send 0", ErrInvalidRecord, v.BaseOffset())
		case int64(v.LastOffsetDelta())+1 != int64(v.RecordCount()):
			return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidRecord, v.RecordCount(), v.LastOffsetDelta())
		case v.IsControl():
			return fmt.Errorf("%w: clients may not write control records", ErrInvalidRecord)
		case v.HasProducerID() && v.BaseSequence() < 0:
			return fmt.Errorf("%w: producer %d without a sequence", ErrInvalidRecord, v.ProducerID())
		case v.IsTransactional() && !v.HasProducerID():
			return fmt.Errorf("%w: transactional without a producer id", ErrInvalidRecord)
		}
	}
	if !c.LogAppendTime && !v.IsControl() {
		return validateTimestamps(v, c, nowMs)
	}
	return nil
}

// validateTimestamps: first and largest timestamp must lie within the bounds (LogValidator.validateTimestamp).
func validateTimestamps(v batch.View, c *Config, nowMs int64) error {
	first, largest := v.BaseTimestamp(), v.MaxTimestamp()
	if first != batch.NoTimestamp && nowMs-first > c.TimestampBeforeMaxMs && c.TimestampBeforeMaxMs >= 0 {
		return rejectTimestamps(v, c, nowMs)
	}
	if largest != batch.NoTimestamp && largest-nowMs > c.TimestampAfterMaxMs && c.TimestampAfterMaxMs >= 0 {
		return rejectTimestamps(v, c, nowMs)
	}
	return nil
}

// appendLocked decides by the partition's state, writes, and only then changes the state.
func (p *Partition) appendLocked(records []byte, info *appendInfo, o AppendOptions, c *Config, nowMs int64) (AppendResult, error) {
	result := AppendResult{LogStartOffset: p.logStart.Load(), LogAppendTimeMs: info.appendTimeMs}
	if f := p.failure.Load(); f != nil {
		return result, *f
	}
	if since := p.syncSinceMs.Load(); since != 0 && nowMs-since >= limits.CommitStalledMs {
		return result, fmt.Errorf("%w: a commit has not returned for %d ms; look at the volume of %s", ErrStalled, nowMs-since, p.logDir.path)
	}
	if o.LeaderEpoch < p.leaderEpoch.Load() {
		return result, fmt.Errorf("%w: epoch %d, the log has %d", ErrFencedLeaderEpoch, o.LeaderEpoch, p.leaderEpoch.Load())
	}
	end := p.end.load()
	if info.producers {
		repeated, err := p.checkProducers(records, o)
		if err != nil {
			return result, err
		}
		if repeated != nil {
			result.BaseOffset, result.LastOffset = repeated.FirstOffset(), repeated.LastOffset
			result.Duplicate = true
			if info.appendTimeMs >= 0 {
				result.LogAppendTimeMs = repeated.TimestampMs
			}
			return result, nil
		}
	}
	g, err := p.segmentFor(len(records), info, c, nowMs)
	if err != nil {
		return result, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	result.BaseOffset, result.LastOffset = end.offset, end.offset+info.records-1
	f, err := g.open()
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
	size := g.sizeBytes.Load()
	if _, err := f.WriteAt(records, size); err != nil {
		return result, p.takeBack(f, size, err)
	}
	if info.controls {
		if err := p.writeAborted(g, records); err != nil {
			return result, p.takeBack(f, size, err)
		}
	}
	p.appended(g, records, info, o, c, nowMs)
	return result, nil
}

// takeBack makes a failed write as if it had never been tried. When not even that works the next write goes to the same
// place, and recovery cuts what is left there by its CRC or overwrites it: the end offset did not move.
func (p *Partition) takeBack(f vfs.File, size int64, cause error) error {
	err := fmt.Errorf("%w: %w", ErrStorage, cause)
	if truncateErr := f.Truncate(size); truncateErr != nil {
		err = errors.Join(err, truncateErr)
	}
	return err
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

// writeAborted writes the transaction index entries of the markers in records, which stand in the log already.
func (p *Partition) writeAborted(g *segment, records []byte) error {
	next := 0
	for rest := records; len(rest) > 0; {
		v, after, _ := batch.Next(rest) // validated
		rest = after
		if !v.IsControl() || !v.HasProducerID() {
			continue
		}
		m := p.markers[next]
		next++
		if a, ok := p.producers.AbortedBy(v, m); ok {
			p.dirUnsynced = p.dirUnsynced || !g.hasTxnIndex
			if err := g.appendAborted(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// appended takes over what stands in the file: indexes, producer state, epochs, marks. It can't fail.
func (p *Partition) appended(g *segment, records []byte, info *appendInfo, o AppendOptions, c *Config, nowMs int64) {
	at := g.sizeBytes.Load()
	entries := g.mem.Load() // segmentFor loaded it
	nextMarker := 0
	offset := int64(0)
	for rest := records; len(rest) > 0; {
		v, after, _ := batch.Next(rest) // validated
		rest = after
		if g.firstTimestampMs == unknownTimestamp && at == 0 {
			g.firstTimestampMs = v.MaxTimestamp()
		}
		if ts := v.MaxTimestamp(); ts > g.maxTimestampMs {
			g.maxTimestampMs, g.maxTimestampAt = ts, v.LastOffset()
		}
		if g.bytesSinceIndex > int64(c.IndexIntervalBytes) {
			entries.Offsets.Append(index.OffsetEntry{RelativeOffset: relative(v.LastOffset(), g.baseOffset), Position: int32(at)})
			index.AppendTime(entries, g.maxTimestampMs, g.maxTimestampAt, g.baseOffset)
			g.bytesSinceIndex = 0
		}
		g.bytesSinceIndex += int64(len(v))
		if v.HasProducerID() {
			var m producer.Marker
			if v.IsControl() {
				m = p.markers[nextMarker]
				nextMarker++
			}
			p.producers.Apply(v, m, producer.Position{Offset: v.BaseOffset(), Base: g.baseOffset, At: at}, nowMs)
		}
		g.addRecent(v.BaseOffset(), at)
		at += int64(len(v))
		offset = v.LastOffset() + 1
	}
	if o.LeaderEpoch > p.epochs.Latest() {
		p.epochs.Assign(o.LeaderEpoch, p.end.offset.Load())
		p.leaderEpoch.Store(o.LeaderEpoch)
	}
	g.unsynced = true
	p.totalBytes.Add(int64(len(records)))
	g.endOffset.Store(offset)
	g.sizeBytes.Store(at)
	p.end.store(position{offset, g.baseOffset, at})
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
		waiters = p.takeWaiters(high.offset)
	}
	return waiters, moved
}
