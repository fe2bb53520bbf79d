package cleaner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
)

// ErrTooLarge: a batch has more keys than the map, or a segment would outgrow its positions.
var ErrTooLarge = errors.New("too large to be cleaned")

// Source is one segment to read, up to SizeBytes. It is open only while it is read: a log may have more of them than a process
// has descriptors.
type Source struct {
	Open      func() (vfs.File, error)
	Name      string // for errors
	SizeBytes int64
	EndOffset int64
	// StartAt is where BuildMap begins to read.
	StartAt int64
}

// Round is one cleaning of one log: BuildMap over the dirty part, then Clean for each group of segments from the start of
// the log, in order.
type Round struct {
	NowMs             int64
	DeleteRetentionMs int64
	DedupeBytes       int64   // memory of the map
	LoadFactor        float64 // how full it may get
	BufferBytes       int     // of reads and writes
	Throttle          *Throttle
	// Producers are the last batches of the producers that the log knows.
	Producers map[int64]producer.LastBatch

	keys      *offsetMap
	end       int64 // end of the round: batches up to it are cleaned against the map
	txns      *transactions
	retained  batch.Retained
	out       []byte
	batchKeys []slot // scratch of mapBatch
	turn      turn

	// Stats of the round.
	Stats Stats
}

// Stats count what a round did.
type Stats struct {
	Keys                       int
	RecordsRead, RecordsKept   int64
	BytesRead, BytesWritten    int64
	RecordsWithoutKey          int64 // dropped: the topic was not always compacted
	AbortedDropped, EmptyKept  int64
	Opaque                     int64 // batches that were kept because their records can't be read
	MarkersDropped, Tombstones int64 // Tombstones: dropped
}

// BuildMap reads the records from offset from on and notes the newest offset of each key. end is where the round ends: the
// end of the sources, or earlier when the map is full (then at least one batch was taken, or the map is too small for it).
func (r *Round) BuildMap(ctx context.Context, sources []Source, from int64, aborted []index.AbortedTxn) (end int64, err error) {
	slots, err := r.slotsFor(ctx, sources)
	if err != nil {
		return 0, err
	}
	r.keys = newOffsetMap(slots, r.LoadFactor)
	r.keys.latest = from - 1
	txns := newTransactions()
	txns.add(aborted)
	for _, s := range sources {
		full := false
		err := s.scan(logfile.Scanner{At: s.StartAt, ChunkBytes: r.BufferBytes}, func(sc *logfile.Scanner) (at int64, err error) {
			full, at, err = r.mapSource(ctx, sc, from, txns)
			return at, err
		})
		if err != nil {
			return 0, err
		}
		if full {
			break
		}
		r.keys.latest = max(r.keys.latest, s.EndOffset-1)
	}
	r.Stats.Keys = r.keys.count
	r.end = r.keys.latest + 1
	r.txns = newTransactions()
	if r.end <= from {
		return 0, fmt.Errorf("%w: the map of %d keys has no room for one batch; raise log.cleaner.dedupe.buffer.size", ErrTooLarge, r.keys.limit)
	}
	return r.end, nil
}

// slotsFor counts the records by their batch headers, so that a small log takes a small map.
func (r *Round) slotsFor(ctx context.Context, sources []Source) (int, error) {
	most := r.DedupeBytes / SlotBytes
	records := int64(0)
	enough := func() bool { return float64(records) >= float64(most)*r.LoadFactor }
	for i := 0; i < len(sources) && !enough(); i++ {
		err := sources[i].scan(logfile.Scanner{At: sources[i].StartAt, HeadersOnly: true}, func(sc *logfile.Scanner) (at int64, err error) {
			for !enough() && ctx.Err() == nil {
				v, at, err := sc.Next()
				if err != nil || v == nil {
					return at, err
				}
				records += int64(v.RecordCount())
				r.turn.worked(len(v))
			}
			return sc.At, ctx.Err()
		})
		if err != nil {
			return 0, err
		}
	}
	return int(min(most, int64(math.Ceil(float64(records)/r.LoadFactor))+2)), nil
}

// scan has do read the source with sc; the error that do returns is of a position.
func (s *Source) scan(sc logfile.Scanner, do func(sc *logfile.Scanner) (at int64, err error)) error {
	f, err := s.Open()
	if err != nil {
		return err
	}
	sc.File, sc.Size = f, s.SizeBytes
	at, err := do(&sc)
	sc.Close()
	if err != nil {
		err = fmt.Errorf("%s at %d: %w", s.Name, at, err)
	}
	return errors.Join(err, f.Close())
}

// mapSource is Cleaner.buildOffsetMapForSegment.
func (r *Round) mapSource(ctx context.Context, sc *logfile.Scanner, from int64, txns *transactions) (full bool, at int64, err error) {
	for {
		v, at, err := sc.Next()
		if err == nil && v != nil {
			err = v.Validate()
		}
		if err != nil || v == nil {
			return false, at, err
		}
		if err := r.Throttle.Wait(ctx, len(v)); err != nil {
			return false, at, err
		}
		r.Stats.BytesRead += int64(len(v))
		r.turn.worked(len(v))
		if v.IsControl() {
			_, err = txns.control(v)
		} else if !txns.data(v) && v.LastOffset() >= from {
			full, err = r.mapBatch(v, from)
		}
		if err != nil || full {
			return full, at, err
		}
		r.keys.latest = max(r.keys.latest, v.LastOffset())
	}
}

func (r *Round) mapBatch(v batch.View, from int64) (full bool, err error) {
	it, err := v.Records(limits.DecompressedBatchBytes)
	r.turn.worked(limits.CleanerTurnBytes)
	if err != nil {
		if opaque(err) { // kept as it is
			err = nil
		}
		return false, err
	}
	defer it.Close()
	r.batchKeys = r.batchKeys[:0]
	for it.Next() {
		r.turn.worked(len(it.Encoded()))
		if x := it.Record(); x.Key != nil && x.Offset >= from {
			high, low := hash(x.Key)
			r.batchKeys = append(r.batchKeys, slot{high, low, x.Offset + 1})
		}
	}
	if err := it.Err(); opaque(err) {
		return false, nil // nobody knows what consumers get of it: no other record goes because of one in it
	} else if err != nil {
		return false, err
	}
	for _, x := range r.batchKeys {
		r.turn.worked(0)
		if !r.keys.put(x) {
			return true, nil
		}
	}
	return false, nil
}

// Output is the segment that Clean writes.
type Output struct {
	File           vfs.File
	BaseOffset     int64
	IndexInterval  int64
	SizeBytes      int64
	Index          *index.Writable
	Aborted        []index.AbortedTxn
	MaxTimestampMs int64 // -1: no record
	MaxTimestampAt int64
	Changed        bool // some batch is gone or not what it was

	unsynced int64 // bytes since the last sync
}

// Clean writes what is left of a group of segments. aborted are the aborted transactions that overlap the group. The last
// batch of the group is kept, without records if need be, so the new segment ends at the offset where the group ended:
// recovery relies on it to know which segments it replaced.
func (r *Round) Clean(ctx context.Context, group []Source, aborted []index.AbortedTxn, o *Output) error {
	r.txns.add(aborted)
	builder := index.NewBuilder(o.BaseOffset, o.IndexInterval)
	r.out = r.out[:0]
	for i := range group {
		err := group[i].scan(logfile.Scanner{ChunkBytes: r.BufferBytes}, func(sc *logfile.Scanner) (at int64, err error) {
			return r.cleanSource(ctx, sc, i == len(group)-1, o, &builder)
		})
		if err != nil {
			return err
		}
	}
	if err := r.flush(ctx, o); err != nil {
		return err
	}
	builder.Finish()
	o.Index, o.MaxTimestampMs, o.MaxTimestampAt = builder.Index, builder.MaxTimestampMs, builder.MaxTimestampAt
	o.Aborted = r.txns.takeKept()
	return nil
}

func (r *Round) cleanSource(ctx context.Context, sc *logfile.Scanner, last bool, o *Output, b *index.Builder) (at int64, err error) {
	for {
		v, at, err := sc.Next()
		if err == nil && v != nil {
			err = v.Validate() // a batch is summed up anew below: a flipped bit must not get a right CRC
		}
		if err == nil && v != nil {
			err = r.Throttle.Wait(ctx, len(v))
		}
		if err == nil && v != nil {
			r.Stats.BytesRead += int64(len(v))
			r.turn.worked(len(v))
			err = r.batch(v, last && sc.At >= sc.Size, o, b)
		}
		if err == nil && len(r.out) >= r.BufferBytes {
			err = r.flush(ctx, o)
		}
		if err != nil || v == nil {
			return at, err
		}
	}
}

func (r *Round) flush(ctx context.Context, o *Output) error {
	if len(r.out) == 0 {
		return nil
	}
	if err := r.Throttle.Wait(ctx, len(r.out)); err != nil {
		return err
	}
	if _, err := o.File.WriteAt(r.out, o.SizeBytes); err != nil {
		return err
	}
	r.turn.worked(limits.CleanerTurnBytes)
	o.SizeBytes += int64(len(r.out))
	// A journaling file system lets the commit of a producer wait until what others wrote before it has reached the disk, so
	// there must never be much of it.
	if o.unsynced += int64(len(r.out)); o.unsynced >= limits.CleanerSyncBytes {
		if err := o.File.Datasync(); err != nil {
			return err
		}
		o.unsynced = 0
	}
	r.Stats.BytesWritten += int64(len(r.out))
	r.out = r.out[:0]
	return nil
}

// batch appends what is left of v to out.
func (r *Round) batch(v batch.View, lastOfGroup bool, o *Output, b *index.Builder) error {
	at := len(r.out)
	same, err := r.filter(v, lastOfGroup)
	if err != nil {
		return err
	}
	o.Changed = o.Changed || !same
	if len(r.out) == at {
		return nil
	}
	position := o.SizeBytes + int64(at)
	if o.SizeBytes+int64(len(r.out)) > math.MaxInt32 {
		return fmt.Errorf("%w: a segment of more than %d bytes", ErrTooLarge, math.MaxInt32)
	}
	b.Add(batch.View(r.out[at:]), position)
	return nil
}

// filter is MemoryRecords.filterTo with the RecordFilter of Cleaner.cleanInto. same: v was kept as it is.
func (r *Round) filter(v batch.View, lastOfGroup bool) (same bool, err error) {
	useless, err := r.useless(v)
	if err != nil {
		return false, err
	}
	horizon, hasHorizon := v.DeleteHorizonMs()
	drop := useless
	if v.IsControl() {
		drop = useless && hasHorizon && horizon <= r.NowMs
	}
	keepEmpty := lastOfGroup || v.LastOffset()+1 == r.end || r.lastOfProducer(v)
	if drop {
		r.countDropped(v)
		r.empty(v, keepEmpty)
		return false, nil
	}
	it, err := v.Records(limits.DecompressedBatchBytes)
	r.turn.worked(limits.CleanerTurnBytes) // the same while one is decompressed
	if err != nil {
		return r.keepOpaque(v, err)
	}
	defer it.Close()
	r.retained.Reset()
	all := true
	for it.Next() {
		r.turn.worked(len(it.Encoded()))
		r.Stats.RecordsRead++
		if v.IsControl() || r.keep(v, it.Record()) {
			r.retained.Keep(it)
		} else {
			all = false
		}
	}
	if err := it.Err(); err != nil {
		return r.keepOpaque(v, err)
	}
	if r.retained.Count() == 0 {
		r.empty(v, keepEmpty)
		return false, nil
	}
	r.Stats.RecordsKept += int64(r.retained.Count())
	newHorizon := int64(-1)
	if !hasHorizon && (r.retained.Tombstones && !v.IsControl() || useless) {
		newHorizon = r.NowMs + r.DeleteRetentionMs
	}
	if all && newHorizon < 0 {
		r.out = append(r.out, v...)
		return true, nil
	}
	r.turn.worked(limits.CleanerTurnBytes) // nobody is let in while a batch is compressed
	r.out, err = r.retained.Build(r.out, v, newHorizon)
	r.turn.worked(limits.CleanerTurnBytes)
	return false, err
}

// keepOpaque keeps a batch as it is whose records can't be read although its checksum holds: a client sent it so. Its records are
// not decoded when they are appended (docs/format/log.md), and one such batch must not keep a log from being compacted.
func (r *Round) keepOpaque(v batch.View, err error) (same bool, _ error) {
	if !opaque(err) {
		return false, err
	}
	r.Stats.Opaque++
	r.out = append(r.out, v...)
	return true, nil
}

func opaque(err error) bool {
	return errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrShort) || errors.Is(err, batch.ErrTooLarge) || errors.Is(err, batch.ErrCompression)
}

func (r *Round) countDropped(v batch.View) {
	if v.IsControl() {
		r.Stats.MarkersDropped++
	} else {
		r.Stats.AbortedDropped += int64(v.RecordCount())
	}
}

func (r *Round) empty(v batch.View, keep bool) {
	if keep {
		r.out = batch.AppendEmpty(r.out, v)
		r.Stats.EmptyKept++
	}
}

// useless: records of an aborted transaction, or a marker of a transaction of which nothing is left.
func (r *Round) useless(v batch.View) (bool, error) {
	if v.IsControl() {
		return r.txns.control(v)
	}
	return r.txns.data(v), nil
}

// lastOfProducer: the batch holds the last sequence of a producer, or, of one that has none, its epoch.
func (r *Round) lastOfProducer(v batch.View) bool {
	if !v.HasProducerID() {
		return false
	}
	last, ok := r.Producers[v.ProducerID()]
	if !ok {
		return false
	}
	if last.LastOffset >= 0 {
		return v.LastOffset() == last.LastOffset
	}
	return v.IsControl() && v.ProducerEpoch() == last.Epoch
}

// keep is Cleaner.shouldRetainRecord.
func (r *Round) keep(v batch.View, x *batch.Record) bool {
	if x.Offset > r.keys.latest {
		return true
	}
	if x.Key == nil {
		r.Stats.RecordsWithoutKey++
		return false
	}
	if x.Offset < r.keys.newest(x.Key) {
		return false
	}
	if x.Value != nil {
		return true
	}
	if horizon, ok := v.DeleteHorizonMs(); ok && r.NowMs >= horizon {
		r.Stats.Tombstones++
		return false
	}
	return true
}
