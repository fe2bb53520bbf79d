//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRandomGroupsAsKafka walks at random through groups of both protocols.
// KAAS_SEED=n repeats a walk, KAAS_WALKS=n says how many there are of each kind.
func TestRandomGroupsAsKafka(t *testing.T) {
	t.Parallel()
	needJava(t)
	if os.Getenv("KAAS_E2E_LONG") == "" {
		t.Skip("some minutes: a part of make nightly")
	}
	brokers := [2]*broker{startBroker(t, walkSettings...), startReference(t, walkSettings...)}
	unique := fmt.Sprint(time.Now().UnixNano())
	topics := orderedTopics(t, brokers, unique)
	(&groupPair{pair: topics[0], group: unique}).awaitCoordinators(t)
	shared := slices.Concat(offsetOperations, lookOperations)
	for name, operations := range map[string][]operation{
		"classic": slices.Concat(classicOperations, shared), "consumer": slices.Concat(consumerOperations, shared),
		"mixed": slices.Concat(classicOperations, consumerOperations, shared),
	} {
		t.Run(name, func(t *testing.T) { walkAll(t, brokers, func() []*pair { return topics }, name, 300, operations) })
	}
}

// classicMember is what a client of the classic protocol knows.
type classicMember struct {
	ids        [2]string
	generation int32
	protocol   string
	leads      bool
	members    [2][]string // for the leader
}

// classicOperations are those of the classic protocol.
var classicOperations = []operation{
	{"JoinGroup", 28, joinSomehow}, {"SyncGroup", 18, syncSomehow}, {"Heartbeat", 8, beatSomehow}, {"LeaveGroup", 6, leaveSomehow},
}

// whose ids a request names.
type whose int

const (
	own whose = iota
	nobodys
	bogus
	another
)

// someID is mostly the actor's own.
func (w *randomWalk) someID() whose {
	return pick(w.random, own, own, own, own, own, own, own, own, own, nobodys, bogus, another)
}

func (a *actor) classicID(side int, which whose, other *actor) string {
	switch which {
	case nobodys:
		return ""
	case bogus:
		return "bogus"
	case another:
		return other.classic.ids[side]
	}
	return a.classic.ids[side]
}

// someInstance is mostly the actor's own, and none before a version knows of it.
func (w *randomWalk) someInstance(a *actor, version, since int16) *string {
	switch {
	case version < since:
		return nil
	case w.rarely(12):
		return pick(w.random, nil, ptr("i0"), ptr("i1"), ptr("other"))
	}
	return a.instance
}

func (w *randomWalk) someGeneration(a *actor) int32 {
	if w.rarely(25) {
		return -1
	}
	return a.classic.generation + pick(w.random, int32(0), 0, 0, 0, 0, 0, 0, -1, 1)
}

func (w *randomWalk) version(from, to int16) int16 {
	return from + int16(w.random.IntN(int(to-from)+1))
}

func joinSomehow(w *randomWalk, a *actor) error {
	version, which, other := w.version(0, 9), w.someID(), w.other()
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.InstanceID, q.RebalanceTimeoutMillis = version, w.group, w.someInstance(a, version, 5), walkTimeoutMs
	q.ProtocolType = pick(w.random, "consumer", "consumer", "consumer", "consumer", "consumer", "consumer", "consumer", "consumer", "connect", "")
	q.SessionTimeoutMillis = pick(w.random, int32(walkTimeoutMs), walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, 1, 0, 10_000_000)
	q.Reason = pick(w.random, nil, ptr("because"))
	metadata := subscription(w.topic)
	if w.rarely(8) {
		metadata = subscription("nowhere")
	}
	if w.rarely(30) {
		metadata = []byte{1, 2}
	}
	names := pick(w.random, []string{"range"}, []string{"range"}, []string{"range"}, []string{"range", "roundrobin"}, []string{"range", "roundrobin"}, []string{"roundrobin", "range"}, []string{"roundrobin"}, nil)
	for _, name := range names {
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
	}
	what := fmt.Sprintf("JoinGroup v%d as %d(%s) instance %s type %q %v session %d metadata %d", version, which, other.symbol, quoted(q.InstanceID), q.ProtocolType, names, q.SessionTimeoutMillis, len(metadata))
	return w.ask(a, what, func(side int) kmsg.Request {
		q := *q
		q.MemberID = a.classicID(side, which, other)
		return &q
	})
}

func syncSomehow(w *randomWalk, a *actor) error {
	version, which, other := w.version(0, 5), w.someID(), w.other()
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.InstanceID, q.Generation = version, w.group, w.someInstance(a, version, 3), w.someGeneration(a)
	q.ProtocolType, q.Protocol = ptr("consumer"), ptr(a.classic.protocol)
	if w.rarely(12) {
		q.ProtocolType, q.Protocol = pick(w.random, nil, ptr("connect")), pick(w.random, nil, ptr("nope"))
	}
	leads, forgotten := a.classic.leads || w.rarely(8), w.random.IntN(10)
	what := fmt.Sprintf("SyncGroup v%d as %d(%s) instance %s generation %d leads %v type %s protocol %s without %d", version, which, other.symbol, quoted(q.InstanceID), q.Generation, leads, quoted(q.ProtocolType), quoted(q.Protocol), forgotten)
	return w.ask(a, what, func(side int) kmsg.Request {
		q := *q
		q.MemberID = a.classicID(side, which, other)
		if leads {
			q.GroupAssignment = w.somePlan(side, a.classic.members[side], forgotten)
		}
		return &q
	})
}

// somePlan forgets the nth member, or names a stranger.
func (w *randomWalk) somePlan(side int, members []string, forgotten int) (plan []kmsg.SyncGroupRequestGroupAssignment) {
	for i, id := range slices.SortedFunc(slices.Values(members), func(x, y string) int { return strings.Compare(w.named(side, x), w.named(side, y)) }) {
		if i == forgotten {
			continue
		}
		assignment := kmsg.NewConsumerMemberAssignment()
		assignment.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: w.topic, Partitions: []int32{int32(i % 4)}}}
		plan = append(plan, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: assignment.AppendTo(nil)})
	}
	if forgotten == 9 {
		plan = append(plan, kmsg.SyncGroupRequestGroupAssignment{MemberID: "stranger", MemberAssignment: []byte("x")})
	}
	return plan
}

func beatSomehow(w *randomWalk, a *actor) error {
	version, which, other := w.version(0, 4), w.someID(), w.other()
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version, q.Group, q.InstanceID, q.Generation = version, w.group, w.someInstance(a, version, 3), w.someGeneration(a)
	return w.ask(a, fmt.Sprintf("Heartbeat v%d as %d(%s) instance %s generation %d", version, which, other.symbol, quoted(q.InstanceID), q.Generation), func(side int) kmsg.Request {
		q := *q
		q.MemberID = a.classicID(side, which, other)
		return &q
	})
}

func leaveSomehow(w *randomWalk, a *actor) error {
	version, which, other := w.version(0, 5), w.someID(), w.other()
	members := make([]kmsg.LeaveGroupRequestMember, pick(w.random, 1, 1, 1, 2, 0))
	for i := range members {
		members[i].InstanceID = pick(w.random, nil, a.instance, a.instance, ptr("other"))
		if i == 1 {
			members[i].InstanceID = pick(w.random, nil, other.instance)
		}
	}
	unnamed := w.rarely(6)
	what := fmt.Sprintf("LeaveGroup v%d as %d(%s) members %d unnamed %v", version, which, other.symbol, len(members), unnamed)
	for _, m := range members {
		what += " " + quoted(m.InstanceID)
	}
	unused := w.handed[a.classicID(0, which, other)] || len(members) == 2 && w.handed[other.classic.ids[0]]
	if err := w.ask(a, what, func(side int) kmsg.Request {
		q := kmsg.NewPtrLeaveGroupRequest()
		q.Version, q.Group, q.MemberID = version, w.group, a.classicID(side, which, other)
		if version < 3 {
			return q
		}
		q.Members = slices.Clone(members)
		for i := range q.Members {
			switch {
			case i == 1:
				q.Members[i].MemberID = other.classic.ids[side]
			case !unnamed:
				q.Members[i].MemberID = q.MemberID
			}
		}
		return q
	}); err != nil {
		return err
	}
	if err := w.emptied(); err != nil || !unused {
		return err
	}
	return w.sameState("known: an id is given back that was not used; with Kafka the others rebalance")
}

// emptied ends the walk where nobody is left but who was handed an id: Kafka's rebalance
// waits for it, that of kaas is over.
func (w *randomWalk) emptied() error {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = 5, []string{w.group}
	r, err := w.at(1, q)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", sides[1], err)
	}
	if g := r.(*kmsg.DescribeGroupsResponse).Groups[0]; g.State == "PreparingRebalance" && len(g.Members) == 0 {
		return w.sameState("known: only an id that was handed out is left")
	}
	return nil
}

// lookOperations ask about the group, or forget it.
var lookOperations = []operation{
	{"DescribeGroups", 4, describeSomehow}, {"ListGroups", 3, listSomehow}, {"ConsumerGroupDescribe", 3, describeConsumersSomehow},
	{"DeleteGroups", 2, deleteSomehow}, {"forget", 2, forgetAll},
}

func describeSomehow(w *randomWalk, a *actor) error {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = w.version(0, 6), []string{w.group}
	return w.ask(a, fmt.Sprintf("DescribeGroups v%d", q.Version), func(int) kmsg.Request { return q })
}

func listSomehow(w *randomWalk, a *actor) error {
	q := kmsg.NewPtrListGroupsRequest()
	q.Version = w.version(0, 5)
	q.StatesFilter = pick(w.random, nil, []string{"Stable"}, []string{"empty"}, []string{"PreparingRebalance", "CompletingRebalance"}, []string{"nonsense"}, []string{"Assigning", "Reconciling"}, []string{"Dead"})
	q.TypesFilter = pick(w.random, nil, []string{"classic"}, []string{"Consumer"}, []string{"share"}, []string{"nope"})
	return w.ask(a, fmt.Sprintf("ListGroups v%d %v %v", q.Version, q.StatesFilter, q.TypesFilter), func(int) kmsg.Request { return q })
}

func describeConsumersSomehow(w *randomWalk, a *actor) error {
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Version, q.Groups = w.version(0, 1), []string{w.group}
	return w.ask(a, fmt.Sprintf("ConsumerGroupDescribe v%d", q.Version), func(int) kmsg.Request { return q })
}

func deleteSomehow(w *randomWalk, a *actor) error {
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Version, q.Groups = w.version(0, 2), []string{w.group}
	if err := w.ask(a, fmt.Sprintf("DeleteGroups v%d", q.Version), func(int) kmsg.Request { return q }); err != nil {
		return err
	}
	return w.found()
}

// forgetAll is a client that has started anew.
func forgetAll(w *randomWalk, a *actor) error {
	a.classic, a.consumer = classicMember{}, consumerMember{}
	w.trace = append(w.trace, a.symbol+" forgets")
	return nil
}

// learn is what a client does with an answer.
func (w *randomWalk) learn(a *actor, answers [2]kmsg.Response) {
	for side := range sides {
		switch r := answers[side].(type) {
		case *kmsg.JoinGroupResponse:
			w.learnJoin(side, a, r)
		case *kmsg.ConsumerGroupHeartbeatResponse:
			w.learnBeat(side, a, r)
		}
	}
}

func (w *randomWalk) learnJoin(side int, a *actor, r *kmsg.JoinGroupResponse) {
	if len(r.MemberID) > 20 { // made by a broker
		w.name(side, r.MemberID)
	}
	c := &a.classic
	if r.MemberID != "" && (r.ErrorCode == 0 || r.ErrorCode == 79) {
		c.ids[side] = r.MemberID
		w.handed[r.MemberID] = r.ErrorCode == 79
	}
	if r.ErrorCode != 0 {
		return
	}
	c.generation, c.leads, c.members[side] = r.Generation, r.LeaderID == r.MemberID, nil
	if r.Protocol != nil {
		c.protocol = *r.Protocol
	}
	for _, m := range r.Members {
		c.members[side] = append(c.members[side], m.MemberID)
	}
}

// askedTwice is the second deliberate difference: of two joins, or syncs, of one member
// that wait Kafka never answers the first, kaas says REBALANCE_IN_PROGRESS.
func (w *randomWalk) askedTwice(a *actor) bool {
	first := waitingMember(a.waits.requests[0])
	return first != "" && classicCode(a.answers[0]) == 27 && slices.ContainsFunc(w.actors, func(b *actor) bool {
		return b != a && b.waits != nil && waitingMember(b.waits.requests[0]) == first && b.waits.requests[0].Key() == a.waits.requests[0].Key()
	})
}

// classicCode is the error of an answer to a request that may wait.
func classicCode(response kmsg.Response) int16 {
	switch r := response.(type) {
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	}
	return 0
}

func waitingMember(request kmsg.Request) string {
	switch q := request.(type) {
	case *kmsg.JoinGroupRequest:
		return q.MemberID
	case *kmsg.SyncGroupRequest:
		return q.MemberID
	}
	return ""
}

// incomparable says why answers may differ: "" when they may not.
func (w *randomWalk) incomparable(request kmsg.Request, answers [2]kmsg.Response) string {
	if q, ok := request.(*kmsg.ConsumerGroupHeartbeatRequest); ok && q.MemberEpoch == 0 && q.InstanceID != nil {
		// Kafka has no plan for it until the next heartbeat, kaas has that of the member.
		if m, in := w.plan.members[w.named(0, q.MemberID)]; in && m.instance != *q.InstanceID {
			return "known: a member joins again under another instance id"
		}
	}
	if k, ok := answers[1].(*kmsg.ConsumerGroupHeartbeatResponse); ok && k.ErrorCode == -1 {
		return "known: UNKNOWN_SERVER_ERROR of Kafka"
	}
	k, ok := answers[1].(*kmsg.JoinGroupResponse)
	if !ok {
		return ""
	}
	j := answers[0].(*kmsg.JoinGroupResponse)
	switch {
	case k.ErrorCode == -1:
		return "known: UNKNOWN_SERVER_ERROR of Kafka"
	case j.ErrorCode == 0 && k.ErrorCode == 0 && w.named(0, j.LeaderID) != w.named(1, k.LeaderID):
		// Member ids are random, and the first of them by a hash follows a leader that has left.
		return "known: another one leads"
	}
	return ""
}

// evenWalk takes out what must differ.
func (w *randomWalk) evenWalk(side int, response kmsg.Response) kmsg.Response {
	id := func(id *[16]byte) {
		for i, topic := range w.topics {
			if *id == topic.ids[side] {
				*id = [16]byte{byte(i + 1)}
			}
		}
	}
	switch r := response.(type) {
	case *kmsg.ProduceResponse: // of a repetition: the batches of both sides have their own times
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[j].LogAppendTime = min(r.Topics[i].Partitions[j].LogAppendTime, 1)
			}
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.Assignment != nil {
			for i := range r.Assignment.Topics {
				id(&r.Assignment.Topics[i].TopicID)
			}
			slices.SortFunc(r.Assignment.Topics, func(a, b kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic) int {
				return bytes.Compare(a.TopicID[:], b.TopicID[:])
			})
		}
	case *kmsg.ConsumerGroupDescribeResponse:
		for i := range r.Groups {
			for j := range r.Groups[i].Members {
				m := &r.Groups[i].Members[j]
				for _, list := range [][]kmsg.AssignmentTopicPartition{m.Assignment.TopicPartitions, m.TargetAssignment.TopicPartitions} {
					for k := range list {
						id(&list[k].TopicID)
					}
					slices.SortFunc(list, func(a, b kmsg.AssignmentTopicPartition) int { return cmp.Compare(a.Topic, b.Topic) })
				}
			}
		}
	}
	return w.evenTxn(side, response)
}

func quoted(s *string) string {
	if s == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", *s)
}
