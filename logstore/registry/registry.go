package registry

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// Map holds one P for each topic and number. Get, First and All may be called at any time, also while Put or Remove runs: each
// sees the map as it was before or after.
type Map[P any] struct {
	shards [256]shard[P]
	seed   maphash.Seed
}

// shard is a part of the map: readers load it with one atomic, writers copy it.
type shard[P any] struct {
	topics atomic.Pointer[map[string]list[P]] // immutable
}

// list is a topic's partitions by number. Immutable: a topic of 10,000 partitions is opened one by one, and a copy of two slices
// for each is what that costs.
type list[P any] struct {
	ids   []int32
	items []P
}

// find returns where the partition stands, or belongs.
func (l *list[P]) find(id int32) (at int, found bool) {
	if id >= 0 && int(id) < len(l.ids) && l.ids[id] == id {
		return int(id), true // mostly none is missing
	}
	return slices.BinarySearch(l.ids, id)
}

// New is an empty map.
func New[P any]() *Map[P] { return &Map[P]{seed: maphash.MakeSeed()} }

func (m *Map[P]) shard(topic string) *shard[P] {
	return &m.shards[maphash.String(m.seed, topic)%uint64(len(m.shards))]
}

// Get returns the partition, or the zero P.
func (m *Map[P]) Get(topic string, id int32) (p P) {
	topics := m.shard(topic).topics.Load()
	if topics == nil {
		return p
	}
	l := (*topics)[topic]
	if at, found := l.find(id); found {
		return l.items[at]
	}
	return p
}

// First is one of the topic's partitions; false: there is none.
func (m *Map[P]) First(topic string) (p P, ok bool) {
	if topics := m.shard(topic).topics.Load(); topics != nil {
		if l := (*topics)[topic]; len(l.items) > 0 {
			return l.items[0], true
		}
	}
	return p, false
}

// All returns every partition, sorted by topic and number.
func (m *Map[P]) All() []P {
	type named struct {
		topic string
		items []P
	}
	var topics []named
	n := 0
	for i := range m.shards {
		if all := m.shards[i].topics.Load(); all != nil {
			for topic, l := range *all {
				topics = append(topics, named{topic, l.items})
				n += len(l.items)
			}
		}
	}
	slices.SortFunc(topics, func(a, b named) int { return strings.Compare(a.topic, b.topic) })
	out := make([]P, 0, n)
	for _, t := range topics {
		out = append(out, t.items...)
	}
	return out
}

// Put sets the partition and returns the one that was there.
func (m *Map[P]) Put(topic string, id int32, p P) (old P, had bool) {
	return m.change(topic, id, []int32{id}, []P{p})
}

// Remove takes the partition out and returns it.
func (m *Map[P]) Remove(topic string, id int32) (old P, had bool) {
	return m.change(topic, id, nil, nil)
}

func (m *Map[P]) change(topic string, id int32, ids []int32, items []P) (old P, had bool) {
	s := m.shard(topic)
	next := map[string]list[P]{}
	if now := s.topics.Load(); now != nil {
		maps.Copy(next, *now)
	}
	l := next[topic]
	at, had := l.find(id)
	after := at
	if had {
		old = l.items[at]
		after++
	}
	l = list[P]{slices.Concat(l.ids[:at], ids, l.ids[after:]), slices.Concat(l.items[:at], items, l.items[after:])}
	if len(l.ids) > 0 {
		next[topic] = l
	} else {
		delete(next, topic)
	}
	s.topics.Store(&next)
	return old, had
}
