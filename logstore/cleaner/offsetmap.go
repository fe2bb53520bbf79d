package cleaner

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// SlotBytes is what a key costs in the map, whatever its length (SkimpyOffsetMap: 16 bytes of hash, 8 of offset).
const SlotBytes = 24

// offsetMap holds the newest offset of each key, by a hash of the key: open addressing with linear probing over a fixed
// number of slots. Two keys of one hash would be taken for the same one, and a record would be lost, so the hash is 128
// bits of SHA-256, for which nobody can make such a pair.
type offsetMap struct {
	slots  []slot
	limit  int   // keys that it takes
	count  int   // keys in it
	latest int64 // every record up to this offset is in it; -1: none
}

type slot struct {
	high, low uint64
	next      int64 // offset + 1; 0: free
}

// newOffsetMap takes keys up to loadFactor of the slots.
func newOffsetMap(slots int, loadFactor float64) *offsetMap {
	slots = max(slots, 2)
	return &offsetMap{slots: make([]slot, slots), limit: min(max(int(float64(slots)*loadFactor), 1), slots-1), latest: -1}
}

// find returns the slot of the key, or the free one where it belongs. There always is a free one: limit < len(slots).
func (m *offsetMap) find(high, low uint64) *slot {
	at, _ := bits.Mul64(high, uint64(len(m.slots)))
	for {
		s := &m.slots[at]
		if s.next == 0 || s.high == high && s.low == low {
			return s
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

func hash(key []byte) (high, low uint64) {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
}

// put notes where a key stands; false: there is no room for another key.
func (m *offsetMap) put(x slot) bool {
	s := m.find(x.high, x.low)
	if s.next == 0 {
		if m.count >= m.limit {
			return false
		}
		m.count++
		s.high, s.low = x.high, x.low
	}
	s.next = max(s.next, x.next)
	return true
}

// newest is the largest offset of the key, -1 when it is not in the map.
func (m *offsetMap) newest(key []byte) int64 {
	high, low := hash(key)
	return m.find(high, low).next - 1
}
