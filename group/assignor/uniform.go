package assignor

import (
	"cmp"
	"slices"
)

// Uniform spreads the partitions of all topics evenly over the members and moves
// as few of them as that needs. When all members subscribe to the same topics, no
// member has two partitions more than another; else no single move of a partition
// would make the plan more even.
func Uniform(members []Member, partitionCount func(TopicID) int32) []Partitions {
	if len(members) == 0 {
		return nil
	}
	u := newUniform(members, partitionCount)
	if u.homogeneous() {
		u.share()
	} else {
		u.placeUnowned()
		u.balance()
	}
	return u.plan()
}

// noOwner marks a partition that nobody has in the plan.
const noOwner = -1

// uniform is one plan in the making.
type uniform struct {
	members []Member
	topics  []topic         // by id
	place   map[TopicID]int // in topics
	count   []int           // partitions of each member in the plan
	total   int
}

type topic struct {
	id          TopicID
	owners      []int // member of each partition
	subscribers []int // members, rising
}

// newUniform begins with what the members have and may keep. A partition that two
// members claim stays with the first.
func newUniform(members []Member, partitionCount func(TopicID) int32) *uniform {
	u := &uniform{members: members, place: map[TopicID]int{}, count: make([]int, len(members))}
	for i := range members {
		for _, id := range members[i].Topics {
			if _, known := u.place[id]; !known {
				u.place[id] = 0
				u.topics = append(u.topics, topic{id: id})
			}
		}
	}
	slices.SortFunc(u.topics, func(a, b topic) int { return CompareTopics(a.id, b.id) })
	for i := range u.topics {
		t := &u.topics[i]
		u.place[t.id] = i
		t.owners = make([]int, max(partitionCount(t.id), 0))
		for p := range t.owners {
			t.owners[p] = noOwner
		}
		u.total += len(t.owners)
	}
	for i := range members {
		for _, id := range members[i].Topics {
			t := &u.topics[u.place[id]]
			t.subscribers = append(t.subscribers, i)
			for _, p := range members[i].Current[id] {
				if p >= 0 && int(p) < len(t.owners) && t.owners[p] == noOwner {
					t.owners[p] = i
					u.count[i]++
				}
			}
		}
	}
	return u
}

// homogeneous: every member subscribes to every topic.
func (u *uniform) homogeneous() bool {
	for i := range u.topics {
		if len(u.topics[i].subscribers) != len(u.members) {
			return false
		}
	}
	return true
}

// share gives every member an even share; as many members as the division leaves over
// have one more. A member keeps its lowest partitions. Who has less than its share gets
// all that it lacks at once: first what nobody had, then what others gave up. This is
// the very plan of Kafka's UniformHomogeneousAssignmentBuilder, except that it takes
// topics and members in the order of a Java HashMap, here they are sorted.
func (u *uniform) share() {
	type lack struct{ member, n int }
	var lacking []lack
	free := u.unowned()
	quota, extra := u.total/len(u.members), u.total%len(u.members)
	for i := range u.members {
		left, hasExtra := quota, extra > 0
		if hasExtra {
			left++
		}
		free, left = u.keepLowest(i, left, free)
		if left > 0 && hasExtra && len(u.members)-i > extra {
			left, hasExtra = left-1, false // a later one may have it already
		}
		if left > 0 {
			lacking = append(lacking, lack{i, left})
		}
		if hasExtra {
			extra--
		}
	}
	for _, l := range lacking {
		for _, slot := range free[:l.n] {
			*slot = l.member
		}
		free = free[l.n:]
	}
}

// unowned are the places of the owners of all partitions that have none.
func (u *uniform) unowned() (free []*int) {
	for i := range u.topics {
		owners := u.topics[i].owners
		for p := range owners {
			if owners[p] == noOwner {
				free = append(free, &owners[p])
			}
		}
	}
	return free
}

// keepLowest lets a member keep some of its partitions and frees the others; left is
// how many more it may have.
func (u *uniform) keepLowest(member, some int, free []*int) (_ []*int, left int) {
	for _, id := range u.members[member].Current.Sorted() {
		at, subscribed := u.place[id]
		if !subscribed {
			continue
		}
		owners := u.topics[at].owners
		for _, p := range u.members[member].Current[id] {
			switch {
			case p < 0 || int(p) >= len(owners) || owners[p] != member:
			case some > 0:
				some--
			default:
				owners[p] = noOwner
				free = append(free, &owners[p])
			}
		}
	}
	return free, some
}

// placeUnowned gives each free partition to the subscriber that has least. Topics
// with few subscribers come first, because they have least choice.
func (u *uniform) placeUnowned() {
	order := make([]int, len(u.topics))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(len(u.topics[a].subscribers), len(u.topics[b].subscribers))
	})
	var heap leastLoaded
	for n, i := range order {
		t := &u.topics[i]
		// Topics with the same subscribers share the heap: its counts stay right.
		if n == 0 || !slices.Equal(t.subscribers, heap.members) {
			heap.reset(t.subscribers, u.count)
		}
		for p, owner := range t.owners {
			if owner == noOwner {
				t.owners[p] = heap.take()
			}
		}
	}
}

// balance moves partitions from subscribers that have most to those that have
// least until no move helps. Each move lowers the sum of the squares of the
// counts, so it ends.
func (u *uniform) balance() {
	for moved := true; moved; {
		moved = false
		for i := range u.topics {
			for u.moveOne(&u.topics[i]) {
				moved = true
			}
		}
	}
}

// moveOne moves one partition of the topic when that makes the plan more even.
func (u *uniform) moveOne(t *topic) bool {
	least := noOwner
	for _, i := range t.subscribers {
		if least == noOwner || u.count[i] < u.count[least] {
			least = i
		}
	}
	most, partition := noOwner, 0
	for p, owner := range t.owners {
		if most == noOwner || u.count[owner] > u.count[most] {
			most, partition = owner, p
		}
	}
	if most == noOwner || u.count[most]-u.count[least] < 2 {
		return false
	}
	t.owners[partition] = least
	u.count[most]--
	u.count[least]++
	return true
}

func (u *uniform) plan() []Partitions {
	plan := empty(len(u.members))
	for i := range u.topics {
		t := &u.topics[i]
		for p, owner := range t.owners {
			if owner != noOwner {
				plan[owner][t.id] = append(plan[owner][t.id], int32(p))
			}
		}
	}
	return plan
}

// leastLoaded is a min-heap of members by count, then by place.
type leastLoaded struct {
	members []int // as they were given
	heap    []int
	count   []int
}

func (h *leastLoaded) reset(members, count []int) {
	h.members, h.count = members, count
	h.heap = append(h.heap[:0], members...)
	for i := len(h.heap)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// take returns the member with the least and counts one more for it.
func (h *leastLoaded) take() int {
	least := h.heap[0]
	h.count[least]++
	h.down(0)
	return least
}

func (h *leastLoaded) less(a, b int) bool {
	if h.count[a] != h.count[b] {
		return h.count[a] < h.count[b]
	}
	return a < b
}

func (h *leastLoaded) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.heap); child++ {
			if h.less(h.heap[child], h.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.heap[i], h.heap[least] = h.heap[least], h.heap[i]
		i = least
	}
}
