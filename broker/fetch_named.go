package broker

import (
	"bytes"
	"hash/maphash"
	"math/bits"

	"kaas/codec"
	"kaas/internal/limits"
)

// namedPartitions finds a partition that a full Fetch names again. Few are compared, many are hashed.
type namedPartitions struct {
	// table is open addressing: a place in the operation's partitions plus 1, 0 when free. At most half is used. nil:
	// there are few.
	table []int32
	kept  []int32 // memory of table
}

// namedSeed is secret, so that nobody can choose names that collide.
var namedSeed = maphash.MakeSeed()

func (n *namedPartitions) begin(count int) {
	n.table = nil
	if count <= limits.FetchPartitionsCompared {
		return
	}
	size := 1 << bits.Len(uint(2*count-1))
	if cap(n.kept) < size {
		n.kept = make([]int32, size)
	}
	n.table = n.kept[:size]
	clear(n.table)
}

// end gives back what a large request has taken.
func (n *namedPartitions) end() {
	n.table = nil
	if cap(n.kept) > 4*limits.FetchPartitionsKept {
		n.kept = nil
	}
}

// find returns the partition that r names, if the request has named it before; if not, the caller appends it.
func (n *namedPartitions) find(partitions []fetchPartition, r *codec.FetchPartition) *fetchPartition {
	if n.table == nil {
		for i := range partitions {
			if partitions[i].isNamed(r) {
				return &partitions[i]
			}
		}
		return nil
	}
	hash := maphash.Comparable(namedSeed, r.TopicID) ^ maphash.Bytes(namedSeed, r.Topic)
	hash += uint64(uint32(r.Index)) * 0x9e3779b97f4a7c15
	mask := uint64(len(n.table) - 1)
	for at := (hash ^ hash>>32) & mask; ; at = (at + 1) & mask {
		place := n.table[at]
		if place == 0 {
			n.table[at] = int32(len(partitions)) + 1
			return nil
		}
		if p := &partitions[place-1]; p.isNamed(r) {
			return p
		}
	}
}

func (p *fetchPartition) isNamed(r *codec.FetchPartition) bool {
	return p.index == r.Index && p.topicID == r.TopicID && bytes.Equal(p.topicName, r.Topic)
}
