package producer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"kaas/internal/limits"
)

// Snapshot is the state at one moment, which is encoded later: with many producers that takes longer than appends may wait.
//
// Proof that Encode sees the state of that moment, whatever is applied between its looks: until it has ended, States.touch saves
// how an entry was before its first change since the newest snapshot. So what an entry was at the moment of a snapshot is
// what that one has saved of it; else what the next one has; …; else it has not changed since. Encode sees each entry that
// is in the map all the time at least once (Go's iteration promises it), and those that were taken out are listed.
type Snapshot struct {
	states  *States              // nil: encoded
	saved   map[int64]savedEntry // owner: the lock of states
	gone    []int64              // taken out of the map since; owner: the lock of states
	encoded []byte               // owner: who encodes
}

// savedEntry is how an entry was.
type savedEntry struct {
	known bool // false: the producer was not known
	bytes wideEntry
}

// Encoded is a snapshot that is encoded already.
func Encoded(b []byte) *Snapshot { return &Snapshot{encoded: b} }

// Snapshot takes one of now. Of few producers it is encoded at once.
func (s *States) Snapshot() *Snapshot {
	if len(s.byID) <= limits.SnapshotProducersAtOnce {
		return Encoded(s.Encode())
	}
	n := &Snapshot{states: s, saved: map[int64]savedEntry{}}
	s.snapshots = append(s.snapshots, n)
	return n
}

// touch is called before an entry changes or goes (e is how it is), or comes (nil).
func (s *States) touch(id int64, e *entry) {
	if len(s.snapshots) == 0 {
		return
	}
	newest := s.snapshots[len(s.snapshots)-1]
	if _, is := newest.saved[id]; is {
		return
	}
	x := savedEntry{known: e != nil}
	if e != nil {
		e.encode(x.bytes[:0], id)
	}
	newest.saved[id] = x
}

// forget takes an entry out.
func (s *States) forget(id int64, e *entry) {
	s.touch(id, e)
	if len(s.snapshots) > 0 {
		newest := s.snapshots[len(s.snapshots)-1]
		newest.gone = append(newest.gone, id)
	}
	delete(s.byID, id)
}

// Encode makes the bytes of the snapshot. lock is the one that guards the states; it is taken again and again for a moment.
// Snapshots of the same states are encoded in the order in which they were taken, one at a time.
func (n *Snapshot) Encode(lock sync.Locker) []byte {
	s := n.states
	if s == nil {
		return n.encoded
	}
	b := make([]byte, 0, s.lenLocked(lock)*wideEntryBytes)
	s.inParts(lock, func(id int64, e *entry) { b = s.appendSaved(b, id, e) })
	b = n.endLocked(lock, b)
	n.encoded, n.states, n.saved, n.gone = finishSnapshot(b), nil, nil, nil
	return n.encoded
}

// endLocked adds what was forgotten since the snapshot was taken, which ends with this.
func (n *Snapshot) endLocked(lock sync.Locker, b []byte) []byte {
	s := n.states
	lock.Lock()
	defer lock.Unlock()
	if s.snapshots[0] != n {
		panic("producer: snapshots are encoded in the order in which they were taken")
	}
	for _, later := range s.snapshots {
		for _, id := range later.gone {
			b = s.appendSaved(b, id, s.byID[id])
		}
	}
	s.snapshots = slices.Delete(s.snapshots, 0, 1)
	return b
}

// appendSaved appends the entry as the oldest snapshot has it. The lock of the states is held.
func (s *States) appendSaved(b []byte, id int64, e *entry) []byte {
	for _, later := range s.snapshots {
		if x, is := later.saved[id]; is {
			if x.known {
				b = append(b, x.bytes[:]...)
			}
			return b
		}
	}
	if e != nil {
		b = e.encode(b, id)
	}
	return b
}

func (s *States) lenLocked(lock sync.Locker) int {
	lock.Lock()
	defer lock.Unlock()
	return len(s.byID)
}

// inParts calls f for each entry, with lock held, and lets others have the lock in between. What comes meanwhile may be left out.
func (s *States) inParts(lock sync.Locker, f func(id int64, e *entry)) {
	lock.Lock()
	defer lock.Unlock()
	n := 0
	for id, e := range s.byID {
		f(id, e)
		if n++; n%limits.SnapshotProducersAtOnce == 0 {
			lock.Unlock()
			lock.Lock() //nolint:staticcheck // the iteration bears changes between its steps
		}
	}
}

// wideEntry is an entry as it stands in a snapshot, with the older batches of its window, padded.
type wideEntry [wideEntryBytes]byte

const (
	olderBatchBytes = 24
	wideEntryBytes  = snapshotEntryBytes + 1 + (Window-1)*olderBatchBytes
)

// windowsMagic begins what follows Kafka's part of a snapshot: the older batches. Kafka reads up to it and sums up all.
const windowsMagic = "kaaswin1"

// encode appends the entry's wideEntry.
func (e *entry) encode(b []byte, id int64) []byte {
	last := Batch{lastSequence: -1, LastOffset: -1}
	if e.count > 0 {
		last = e.batches[e.count-1]
	}
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(last.lastSequence))
	b = binary.BigEndian.AppendUint64(b, uint64(last.LastOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(last.offsetDelta))
	b = binary.BigEndian.AppendUint64(b, uint64(e.lastTimestampMs))
	b = binary.BigEndian.AppendUint32(b, uint32(e.coordinatorEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(e.txnFirstOffset))
	older := max(int(e.count)-1, 0)
	b = append(b, byte(older))
	for _, x := range e.batches[:older] {
		b = binary.BigEndian.AppendUint32(b, uint32(x.lastSequence))
		b = binary.BigEndian.AppendUint32(b, uint32(x.offsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(x.LastOffset))
		b = binary.BigEndian.AppendUint64(b, uint64(x.TimestampMs))
	}
	return append(b, make([]byte, (Window-1-older)*olderBatchBytes)...)
}

// finishSnapshot makes the file of wide entries: sorted by producer id, each once, and behind them the windows, if there are any.
func finishSnapshot(wide []byte) []byte {
	all := make([]wideEntry, 0, len(wide)/wideEntryBytes)
	windows := false
	for at := 0; at < len(wide); at += wideEntryBytes {
		all = append(all, wideEntry(wide[at:]))
		windows = windows || wide[at+snapshotEntryBytes] > 0
	}
	slices.SortFunc(all, func(x, y wideEntry) int { return bytes.Compare(x[:8], y[:8]) }) // ids are not negative
	all = slices.CompactFunc(all, func(x, y wideEntry) bool { return [8]byte(x[:8]) == [8]byte(y[:8]) })
	b := make([]byte, snapshotHeaderBytes, snapshotHeaderBytes+len(wide)+len(windowsMagic))
	for i := range all {
		b = append(b, all[i][:snapshotEntryBytes]...)
	}
	if windows {
		b = append(b, windowsMagic...)
		for i := range all {
			older := int(all[i][snapshotEntryBytes])
			b = append(b, all[i][snapshotEntryBytes:snapshotEntryBytes+1+older*olderBatchBytes]...)
		}
	}
	put16(b, snapshotVersion)
	put32(b[6:], int32(len(all)))
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

// readWindows takes over the older batches of entries, which are in the order of the file.
func readWindows(b []byte, entries []*entry) error {
	b, ours := bytes.CutPrefix(b, []byte(windowsMagic))
	if !ours {
		return fmt.Errorf("snapshot with %d bytes more than it has producers", len(b))
	}
	for _, e := range entries {
		if len(b) == 0 {
			return errors.New("snapshot whose windows end early")
		}
		older := int(b[0])
		b = b[1:]
		if older > Window-1 || older*olderBatchBytes > len(b) || older > 0 && e.count == 0 {
			return fmt.Errorf("snapshot with a window of %d older batches", older)
		}
		newest, known := e.batches[0], e.count > 0
		e.count = 0
		for ; older > 0; older-- {
			e.add(Batch{be32(b), be32(b[4:]), be64(b[8:]), be64(b[16:])})
			b = b[olderBatchBytes:]
		}
		if known {
			e.add(newest)
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("snapshot with %d bytes behind its windows", len(b))
	}
	return nil
}
