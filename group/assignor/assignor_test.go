package assignor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func id(n int) TopicID { return TopicID{byte(n >> 8), byte(n)} }

// world is a random set of topics and members.
type world struct {
	random  *rand.Rand
	counts  map[TopicID]int32
	members []Member
}

func (w *world) count(t TopicID) int32 { return w.counts[t] }

func newWorld(seed uint64, topics, members, partitions int, same bool) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 2)), counts: map[TopicID]int32{}}
	for i := range topics {
		w.counts[id(i)] = 1 + w.random.Int32N(int32(partitions))
	}
	for i := range members {
		w.members = append(w.members, Member{ID: fmt.Sprintf("m%03d", i), Topics: w.subscription(same)})
	}
	return w
}

func (w *world) subscription(same bool) []TopicID {
	var topics []TopicID
	for i := range len(w.counts) {
		if same || w.random.IntN(2) == 0 {
			topics = append(topics, id(i))
		}
	}
	return topics
}

// check holds what every plan must: each partition that somebody subscribes to has
// one owner, who subscribes to it, and nothing else is in the plan.
func (w *world) check(plan []Partitions) error {
	owned := map[string]int{}
	subscribed := map[TopicID]bool{}
	for i, m := range w.members {
		for _, t := range m.Topics {
			subscribed[t] = true
		}
		for t, partitions := range plan[i] {
			if !slices.Contains(m.Topics, t) {
				return fmt.Errorf("%s has a topic that it does not want", m.ID)
			}
			if len(partitions) == 0 || !slices.IsSorted(partitions) {
				return fmt.Errorf("%s: %v", m.ID, partitions)
			}
			for _, p := range partitions {
				key := fmt.Sprint(t, p)
				if other, taken := owned[key]; taken {
					return fmt.Errorf("%s belongs to %d and to %d", key, other, i)
				}
				if p < 0 || p >= w.counts[t] {
					return fmt.Errorf("%s does not exist", key)
				}
				owned[key] = i
			}
		}
	}
	want := 0
	for t := range subscribed {
		want += int(w.counts[t])
	}
	if len(owned) != want {
		return fmt.Errorf("%d partitions have an owner, want %d", len(owned), want)
	}
	return nil
}

func (w *world) spread(plan []Partitions) (least, most int) {
	least = 1 << 30
	for _, p := range plan {
		least, most = min(least, p.Count()), max(most, p.Count())
	}
	return least, most
}

func (w *world) adopt(plan []Partitions) {
	for i := range w.members {
		w.members[i].Current = plan[i]
	}
}

func moved(members []Member, plan []Partitions) int {
	n := 0
	for i := range members {
		for t, partitions := range members[i].Current {
			for _, p := range partitions {
				if !slices.Contains(plan[i][t], p) {
					n++
				}
			}
		}
	}
	return n
}

func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return seed
}

// Members come and go, topics grow: plans stay whole, even and sticky.
func TestUniformHomogeneous(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	for run := range 60 {
		w := newWorld(seed+uint64(run), 1+run%7, 1+run%11, 9, true)
		for step := range 12 {
			plan := Uniform(w.members, w.count)
			if err := w.check(plan); err != nil {
				t.Fatalf("run %d step %d: %v", run, step, err)
			}
			least, most := w.spread(plan)
			if most-least > 1 {
				t.Fatalf("run %d step %d: from %d to %d partitions", run, step, least, most)
			}
			w.adopt(plan)
			if again := Uniform(w.members, w.count); moved(w.members, again) != 0 {
				t.Fatalf("run %d step %d: an even plan was changed", run, step)
			}
			switch {
			case step%3 == 0: // one joins: it gets its share, nobody else does
				w.members = append(w.members, Member{ID: fmt.Sprintf("n%d", step), Topics: w.subscription(true)})
				next := Uniform(w.members, w.count)
				if gained := next[len(next)-1].Count(); moved(w.members, next) != gained {
					t.Fatalf("run %d step %d: %d moved for a member that got %d", run, step, moved(w.members, next), gained)
				}
			case step%3 == 1 && len(w.members) > 1: // one leaves: the others keep what they have
				w.members = slices.Delete(w.members, 0, 1)
				if next := Uniform(w.members, w.count); moved(w.members, next) != 0 {
					t.Fatalf("run %d step %d: those who stay lost %d", run, step, moved(w.members, next))
				}
			default:
				w.counts[id(0)]++
			}
		}
	}
}

// The very plans that Apache Kafka 4.4 makes, one from the other.
func TestUniformAsKafka(t *testing.T) {
	t.Parallel()
	w := &world{counts: map[TopicID]int32{id(0): 4, id(1): 2}}
	both := []TopicID{id(0), id(1)}
	join := func(name string) { w.members = append(w.members, Member{ID: name, Topics: both}) }
	expect := func(want ...Partitions) {
		t.Helper()
		plan := Uniform(w.members, w.count)
		for i := range want {
			if !Equal(plan[i], want[i]) {
				t.Errorf("%s: %v, want %v", w.members[i].ID, plan[i], want[i])
			}
		}
		w.adopt(plan)
	}
	join("m1")
	expect(Partitions{id(0): {0, 1, 2, 3}, id(1): {0, 1}})
	join("m2")
	expect(Partitions{id(0): {0, 1, 2}}, Partitions{id(0): {3}, id(1): {0, 1}})
	join("m3")
	expect(Partitions{id(0): {0, 1}}, Partitions{id(0): {3}, id(1): {0}}, Partitions{id(0): {2}, id(1): {1}})
	join("m4") // two members have one more: those who have it already
	expect(Partitions{id(0): {0, 1}}, Partitions{id(0): {3}, id(1): {0}}, Partitions{id(0): {2}}, Partitions{id(1): {1}})
	w.members = w.members[1:]
	expect(Partitions{id(0): {3}, id(1): {0}}, Partitions{id(0): {0, 2}}, Partitions{id(0): {1}, id(1): {1}})
}

// Subscriptions differ: no single move would make the plan more even.
func TestUniformHeterogeneous(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	for run := range 80 {
		w := newWorld(seed+uint64(run), 1+run%9, 2+run%13, 8, false)
		plan := Uniform(w.members, w.count)
		if err := w.check(plan); err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
		for i := range w.members {
			for topic := range plan[i] {
				for j := range w.members {
					if slices.Contains(w.members[j].Topics, topic) && plan[i].Count()-plan[j].Count() > 1 {
						t.Fatalf("run %d: member %d has %d, %d has %d and could take one", run, i, plan[i].Count(), j, plan[j].Count())
					}
				}
			}
		}
		w.adopt(plan)
		if again := Uniform(w.members, w.count); moved(w.members, again) != 0 {
			t.Fatalf("run %d: an even plan was changed", run)
		}
		w.members[0].Topics = w.subscription(false)
		if err := w.check(Uniform(w.members, w.count)); err != nil {
			t.Fatalf("run %d after a change: %v", run, err)
		}
	}
}

// Claims that cannot be true (of deleted topics, of partitions that another has, out of range) do no harm.
func TestUniformBadClaims(t *testing.T) {
	t.Parallel()
	w := &world{counts: map[TopicID]int32{id(0): 4}}
	claim := Partitions{id(0): {-1, 0, 1, 99}, id(7): {0}}
	w.members = []Member{
		{ID: "a", Topics: []TopicID{id(0)}, Current: claim}, {ID: "b", Topics: []TopicID{id(0)}, Current: claim},
		{ID: "c", Topics: nil, Current: claim}, {ID: "d", Topics: []TopicID{id(5)}},
	}
	if err := w.check(Uniform(w.members, w.count)); err != nil {
		t.Fatal(err)
	}
	if plan := Uniform(nil, w.count); plan != nil {
		t.Fatal(plan)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	w := &world{counts: map[TopicID]int32{id(0): 5, id(1): 5, id(2): 1}}
	both := []TopicID{id(0), id(1), id(2)}
	w.members = []Member{{ID: "b", Topics: both}, {ID: "a", Topics: both}, {ID: "z", InstanceID: "i", Topics: both[:2]}}
	plan := Range(w.members, w.count)
	if err := w.check(plan); err != nil {
		t.Fatal(err)
	}
	want := []Partitions{
		{id(0): {4}, id(1): {4}},
		{id(0): {2, 3}, id(1): {2, 3}, id(2): {0}},
		{id(0): {0, 1}, id(1): {0, 1}},
	}
	for i := range want {
		if !Equal(plan[i], want[i]) {
			t.Errorf("%s: %v, want %v", w.members[i].ID, plan[i], want[i])
		}
	}
	for run := range 40 {
		w := newWorld(uint64(run), 1+run%6, 1+run%9, 7, false)
		if err := w.check(Range(w.members, w.count)); err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
	}
}

func TestByName(t *testing.T) {
	t.Parallel()
	if ByName(NameUniform) == nil || ByName(NameRange) == nil || ByName("sticky") != nil {
		t.Fatal("names")
	}
}

func BenchmarkAssignors(b *testing.B) {
	for _, same := range []bool{true, false} {
		for _, name := range []string{NameUniform, NameRange} {
			w := newWorld(1, 100, 1000, 1, same)
			for t := range w.counts {
				w.counts[t] = 100
			}
			assign := ByName(name)
			b.Run(fmt.Sprintf("%s/same=%v/first", name, same), func(b *testing.B) {
				for b.Loop() {
					assign(w.members, w.count)
				}
			})
			w.adopt(assign(w.members, w.count))
			w.members = w.members[1:] // one has left
			b.Run(fmt.Sprintf("%s/same=%v/one-left", name, same), func(b *testing.B) {
				for b.Loop() {
					assign(w.members, w.count)
				}
			})
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	count := func(id TopicID) int32 { return int32(id[0]) }
	p := &Plan{Epoch: 3, Assignor: NameRange, Members: []Member{{ID: "a", Topics: []TopicID{{4}}}, {ID: "b", Topics: []TopicID{{4}, {5}}}}}
	if got := p.Size(count); got != 2+4+5 {
		t.Errorf("the size is %d", got)
	}
	if p.Make(count); p.Targets[0].Count()+p.Targets[1].Count() != 9 {
		t.Errorf("targets: %v", p.Targets)
	}
	if !p.AllIn(func(id string) bool { return id < "c" }) || p.AllIn(func(id string) bool { return id == "a" }) {
		t.Error("who is there")
	}
}
