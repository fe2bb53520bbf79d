package assignor

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// The names that clients know the assignors by (group.remote.assignor).
const (
	NameUniform = "uniform"
	NameRange   = "range"
)

// TopicID names a topic.
type TopicID = [16]byte

// Partitions of topics, each list sorted and without repetition; no list is empty.
type Partitions map[TopicID][]int32

// Member is one member as an assignor sees it.
type Member struct {
	ID string
	// InstanceID is group.instance.id; "" for a dynamic member. Range puts static
	// members first, so that their ranges outlive their member ids.
	InstanceID string
	// Topics that the member subscribes to and that exist, sorted by id.
	Topics []TopicID
	// Current is what the last plan gave the member.
	Current Partitions
}

// Assignor makes a plan: for each member, by its place in members, what it shall
// own. partitionCount says how many partitions a topic has. Every partition of a
// subscribed topic is owned by exactly one member that subscribes to it.
type Assignor func(members []Member, partitionCount func(TopicID) int32) []Partitions

// Plan is who shall have what in an epoch of a group. What it is made from must change
// no more while Make runs, on whatever goroutine.
type Plan struct {
	Epoch    int32
	Assignor string
	Members  []Member
	Targets  []Partitions // by place in Members
}

// Size is how many members there are and how many partitions they subscribe to: what
// the time that Make takes grows with.
func (p *Plan) Size(partitionCount func(TopicID) int32) int {
	size, counted := len(p.Members), map[TopicID]bool{}
	for i := range p.Members {
		for _, id := range p.Members[i].Topics {
			if !counted[id] {
				counted[id] = true
				size += int(partitionCount(id))
			}
		}
	}
	return size
}

// Make has the assignor make the targets.
func (p *Plan) Make(partitionCount func(TopicID) int32) {
	p.Targets = ByName(p.Assignor)(p.Members, partitionCount)
}

// AllIn says whether everybody whom the plan was made for is still there.
func (p *Plan) AllIn(there func(id string) bool) bool {
	return !slices.ContainsFunc(p.Members, func(mem Member) bool { return !there(mem.ID) })
}

// ByName returns the assignor of that name, or nil.
func ByName(name string) Assignor {
	switch name {
	case NameUniform:
		return Uniform
	case NameRange:
		return Range
	}
	return nil
}

// Equal says whether two sets are the same.
func Equal(a, b Partitions) bool {
	return maps.EqualFunc(a, b, func(x, y []int32) bool { return slices.Equal(x, y) })
}

// Count is the number of partitions in the set.
func (p Partitions) Count() int {
	n := 0
	for _, list := range p {
		n += len(list)
	}
	return n
}

// Sorted lists the topics of the set by id.
func (p Partitions) Sorted() []TopicID { return slices.SortedFunc(maps.Keys(p), CompareTopics) }

// CompareTopics orders topic ids by their bytes.
func CompareTopics(a, b TopicID) int { return bytes.Compare(a[:], b[:]) }

// Range gives each member of a topic one run of consecutive partitions, the first
// members the longer ones. Topics with equally many partitions and the same
// members are split alike, so that joins by partition number work.
func Range(members []Member, partitionCount func(TopicID) int32) []Partitions {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &members[i], &members[j]
		switch {
		case a.InstanceID != "" && b.InstanceID != "":
			return cmp.Compare(a.InstanceID, b.InstanceID)
		case a.InstanceID != "":
			return -1
		case b.InstanceID != "":
			return 1
		}
		return cmp.Compare(a.ID, b.ID)
	})
	subscribers := map[TopicID][]int{}
	for _, i := range order {
		for _, topic := range members[i].Topics {
			subscribers[topic] = append(subscribers[topic], i)
		}
	}
	plan := empty(len(members))
	for topic, owners := range subscribers {
		count, next := int(partitionCount(topic)), int32(0)
		for place, i := range owners {
			n := count / len(owners)
			if place < count%len(owners) {
				n++
			}
			for ; n > 0; n-- {
				plan[i][topic] = append(plan[i][topic], next)
				next++
			}
		}
	}
	return plan
}

func empty(n int) []Partitions {
	plan := make([]Partitions, n)
	for i := range plan {
		plan[i] = Partitions{}
	}
	return plan
}
