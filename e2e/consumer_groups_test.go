//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupPair is a group with the same name on both brokers.
type groupPair struct {
	*pair
	group string
	// names are member ids that a broker made, with what they are called here.
	names [2]map[string]string
	// random: plans follow the order of such ids, so partitions are not compared.
	random bool
}

// heartbeat is a heartbeat of a member; change may alter it.
func (g *groupPair) heartbeat(t *testing.T, what, member string, epoch int32, change func(side int, r *kmsg.ConsumerGroupHeartbeatRequest)) [2]*kmsg.ConsumerGroupHeartbeatResponse {
	t.Helper()
	answers := g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.MemberEpoch = 1, g.group, g.id(side, member), epoch
		if change != nil {
			change(side, r)
		}
		return r
	})
	return [2]*kmsg.ConsumerGroupHeartbeatResponse{answers[0].(*kmsg.ConsumerGroupHeartbeatResponse), answers[1].(*kmsg.ConsumerGroupHeartbeatResponse)}
}

// joining is a first heartbeat that subscribes to the pair's topic.
func (g *groupPair) joining(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
	r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 10_000, []string{g.topic}
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
}

// owning says that the member has these partitions of the topic.
func (g *groupPair) owning(partitions ...int32) func(int, *kmsg.ConsumerGroupHeartbeatRequest) {
	return func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(partitions) > 0 {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: g.ids[side], Partitions: partitions})
		}
	}
}

// ask compares the answers of both brokers.
func (g *groupPair) ask(t *testing.T, what string, build func(side int) kmsg.Request) [2]kmsg.Response {
	t.Helper()
	var answers [2]kmsg.Response
	var compared [2]string
	for side := range sides {
		request := build(side)
		answers[side] = exchange(t, g.conns[side], request)
		if joined, ok := answers[side].(*kmsg.JoinGroupResponse); ok && joined.MemberID != "" {
			g.name(side, joined.MemberID)
		}
		again := request.ResponseKind()
		must(t, again.ReadFrom(answers[side].AppendTo(nil)))
		text, err := json.Marshal(g.even(side, again))
		must(t, err)
		compared[side] = g.named(side, string(text))
	}
	mustAgree(t, what, compared)
	return answers
}

// madeID is a member id that a broker made: client or instance, and a random UUID.
var madeID = regexp.MustCompile(`[a-z]+[0-9]*-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// named calls members by their names; of those that no answer has named yet, only that
// they are there.
func (g *groupPair) named(side int, text string) string {
	for id, name := range g.names[side] {
		text = strings.ReplaceAll(text, id, name)
	}
	return madeID.ReplaceAllString(text, "someone")
}

// name gives a member id that a broker made a name by its order.
func (g *groupPair) name(side int, id string) {
	if g.names[side] == nil {
		g.names[side] = map[string]string{}
	}
	if g.names[side][id] == "" {
		g.names[side][id] = fmt.Sprint("member", len(g.names[side]))
	}
}

// id is the member id that goes by the name, or the name.
func (g *groupPair) id(side int, name string) string {
	for id, n := range g.names[side] {
		if n == name {
			return id
		}
	}
	return name
}

// even takes out what must differ: topic ids, words of errors, orders.
func (g *groupPair) even(side int, response kmsg.Response) kmsg.Response {
	id := func(id *[16]byte) {
		if *id == g.ids[side] {
			*id = [16]byte{1}
		}
	}
	topics := func(list []kmsg.AssignmentTopicPartition) {
		for i := range list {
			id(&list[i].TopicID)
			slices.Sort(list[i].Partitions)
			if g.random {
				list[i].Partitions = nil
			}
		}
	}
	named := func(id string) string { return g.named(side, id) }
	switch r := response.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		r.ErrorMessage = nil
		if r.Assignment != nil {
			for i := range r.Assignment.Topics {
				id(&r.Assignment.Topics[i].TopicID)
				slices.Sort(r.Assignment.Topics[i].Partitions)
				if g.random {
					r.Assignment.Topics[i].Partitions = nil
				}
			}
		}
	case *kmsg.ConsumerGroupDescribeResponse:
		slices.SortStableFunc(r.Groups, func(a, b kmsg.ConsumerGroupDescribeResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
		for i := range r.Groups {
			r.Groups[i].ErrorMessage = nil
			slices.SortFunc(r.Groups[i].Members, func(a, b kmsg.ConsumerGroupDescribeResponseGroupMember) int {
				return cmp.Or(cmp.Compare(named(a.MemberID), named(b.MemberID)), byText(a.InstanceID, b.InstanceID))
			})
			for j := range r.Groups[i].Members {
				m := &r.Groups[i].Members[j]
				slices.Sort(m.SubscribedTopics)
				topics(m.Assignment.TopicPartitions)
				topics(m.TargetAssignment.TopicPartitions)
			}
		}
	case *kmsg.JoinGroupResponse:
		slices.SortFunc(r.Members, func(a, b kmsg.JoinGroupResponseMember) int {
			return cmp.Or(cmp.Compare(named(a.MemberID), named(b.MemberID)), byText(a.InstanceID, b.InstanceID), bytes.Compare(a.ProtocolMetadata, b.ProtocolMetadata))
		})
	case *kmsg.DescribeGroupsResponse:
		for i := range r.Groups {
			r.Groups[i].ErrorMessage = nil
			slices.SortFunc(r.Groups[i].Members, func(a, b kmsg.DescribeGroupsResponseGroupMember) int {
				return cmp.Or(cmp.Compare(named(a.MemberID), named(b.MemberID)), byText(a.InstanceID, b.InstanceID), bytes.Compare(a.MemberAssignment, b.MemberAssignment))
			})
		}
		slices.SortFunc(r.Groups, func(a, b kmsg.DescribeGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	case *kmsg.FindCoordinatorResponse:
		r.ErrorMessage, r.Port = nil, min(r.Port, 1)
		for i := range r.Coordinators {
			r.Coordinators[i].ErrorMessage, r.Coordinators[i].Port = nil, min(r.Coordinators[i].Port, 1)
		}
	case *kmsg.ListGroupsResponse:
		r.Groups = append([]kmsg.ListGroupsResponseGroup{}, slices.DeleteFunc(r.Groups, func(l kmsg.ListGroupsResponseGroup) bool { return l.Group != g.group })...)
	case *kmsg.OffsetCommitResponse:
		for i := range r.Topics {
			id(&r.Topics[i].TopicID)
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.OffsetCommitResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		}
		slices.SortFunc(r.Topics, func(a, b kmsg.OffsetCommitResponseTopic) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), slices.Compare(a.TopicID[:], b.TopicID[:]))
		})
	case *kmsg.DeleteGroupsResponse:
		for i := range r.Groups {
			r.Groups[i].ErrorMessage = nil
		}
		slices.SortFunc(r.Groups, func(a, b kmsg.DeleteGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	case *kmsg.OffsetDeleteResponse:
		for i := range r.Topics {
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.OffsetDeleteResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		}
		slices.SortFunc(r.Topics, func(a, b kmsg.OffsetDeleteResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	case *kmsg.OffsetFetchResponse:
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				id(&r.Groups[i].Topics[j].TopicID)
			}
		}
	}
	return response
}

// byText orders texts that may be missing.
func byText(a, b *string) int {
	if a == nil || b == nil {
		return cmp.Compare(fmt.Sprint(a == nil), fmt.Sprint(b == nil))
	}
	return cmp.Compare(*a, *b)
}

func (g *groupPair) commit(t *testing.T, what string, version int16, member string, epoch, partition int32) {
	t.Helper()
	g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.MemberID, r.Generation = version, g.group, g.id(side, member), epoch
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = partition, 7
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: g.topic, TopicID: g.ids[side], Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		return r
	})
}

func (g *groupPair) fetch(t *testing.T, what string, member *string, epoch int32) {
	t.Helper()
	g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Version = 9
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group, one.MemberID, one.MemberEpoch = g.group, member, epoch
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: g.topic, TopicID: g.ids[side], Partitions: []int32{0, 1}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{one}
		return r
	})
}

// show compares all that can be asked about the group.
func (g *groupPair) show(t *testing.T, what string) {
	t.Helper()
	for _, version := range []int16{0, 1} {
		g.ask(t, what+": describe", func(int) kmsg.Request {
			r := kmsg.NewPtrConsumerGroupDescribeRequest()
			r.Version, r.Groups, r.IncludeAuthorizedOperations = version, []string{g.group}, version == 1
			return r
		})
	}
	for _, version := range []int16{5, 6} {
		g.ask(t, what+": classic describe", func(int) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups = version, []string{g.group}
			return r
		})
	}
	for _, types := range [][]string{nil, {"Consumer"}, {"classic"}} {
		g.ask(t, what+": list", func(int) kmsg.Request {
			r := kmsg.NewPtrListGroupsRequest()
			r.Version, r.TypesFilter = 5, types
			return r
		})
	}
}

// consumerGroupAnswers walks through the consumer protocol on both.
func consumerGroupAnswers(t *testing.T, brokers [2]*broker) {
	unique := fmt.Sprint(time.Now().UnixNano())
	pair := newPair(t, brokers, "cg"+unique, 4)
	for name, walk := range map[string]func(*testing.T, *groupPair){
		"members": walkMembers, "errors": walkErrors, "static": walkStatic, "classic joins": walkClassicJoins, "upgrade": walkUpgrade, "replaced": walkReplaced, "offsets": walkOffsets,
	} {
		t.Run(name, func(t *testing.T) {
			g := &groupPair{pair: ownConns(t, pair, brokers), group: name + unique}
			g.awaitCoordinators(t)
			walk(t, g)
		})
	}
}

// awaitCoordinators waits until both brokers have loaded what they know of the group.
func (g *groupPair) awaitCoordinators(t *testing.T) {
	t.Helper()
	for side := range sides {
		eventually(t, 30*time.Second, func() error {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.Version, r.CoordinatorKeys = 4, []string{g.group}
			if code := exchange(t, g.conns[side], r).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode; code != 0 {
				return fmt.Errorf("error %d", code)
			}
			h := kmsg.NewPtrHeartbeatRequest()
			h.Version, h.Group, h.MemberID = 4, g.group, "x"
			if code := exchange(t, g.conns[side], h).(*kmsg.HeartbeatResponse).ErrorCode; code != 25 {
				return fmt.Errorf("error %d", code)
			}
			return nil
		})
	}
}

// ownConns is the pair with connections of its own.
func ownConns(t *testing.T, p *pair, brokers [2]*broker) *pair {
	own := *p
	for side, b := range brokers {
		conn, err := net.Dial("tcp", b.address)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		own.conns[side] = conn
	}
	return &own
}

func walkMembers(t *testing.T, g *groupPair) {
	g.show(t, "no group")
	g.heartbeat(t, "m1 joins", "m1", 0, g.joining)
	g.show(t, "one member")
	g.heartbeat(t, "m1 beats", "m1", 2, nil)
	g.heartbeat(t, "m1 says what it has", "m1", 2, g.owning(0, 1, 2, 3))
	g.heartbeat(t, "m1 says all anew", "m1", 2, func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
		g.joining(side, r)
		g.owning(0, 1, 2, 3)(side, r)
	})
	g.heartbeat(t, "m2 joins", "m2", 0, g.joining)
	g.show(t, "m2 joined")
	g.heartbeat(t, "m2 beats", "m2", 3, g.owning())
	told := g.heartbeat(t, "m1 is told", "m1", 2, nil)
	g.show(t, "m1 revokes")
	g.heartbeat(t, "m1 still has all", "m1", 2, g.owning(0, 1, 2, 3))
	g.heartbeat(t, "m2 waits", "m2", 3, g.owning())
	g.commit(t, "m1 commits", 9, "m1", 2, 3)
	kept := told[0].Assignment.Topics[0].Partitions
	g.heartbeat(t, "m1 has revoked", "m1", 2, g.owning(kept...))
	g.show(t, "m1 has revoked")
	for _, epoch := range []int32{1, 2, 3, 4} {
		g.commit(t, fmt.Sprint("m1 commits what it kept at ", epoch), 9, "m1", epoch, kept[0])
		g.commit(t, fmt.Sprint("m1 commits what it lost at ", epoch), 9, "m1", epoch, 3)
	}
	g.heartbeat(t, "m1's answer was lost", "m1", 2, g.owning(kept...))
	g.heartbeat(t, "m1's answer was lost, it has too much", "m1", 2, g.owning(0, 1, 2, 3))
	g.heartbeat(t, "m2 gets", "m2", 3, g.owning())
	g.show(t, "stable")
	g.heartbeat(t, "m3 joins", "m3", 0, g.joining)
	g.heartbeat(t, "m1 beats in 3", "m1", 3, g.owning(kept...))
	g.heartbeat(t, "m2 beats in 3", "m2", 3, nil)
	g.show(t, "three")
	g.heartbeat(t, "m1 leaves", "m1", -1, nil)
	g.show(t, "m1 left")
	g.heartbeat(t, "m1 again", "m1", 3, nil)
	g.heartbeat(t, "m1 leaves again", "m1", -1, nil)
	g.heartbeat(t, "m2 leaves", "m2", -1, nil)
	g.heartbeat(t, "m3 joins anew", "m3", 0, g.joining)
	g.heartbeat(t, "m3 takes all", "m3", 4, g.owning())
	g.show(t, "m3")
	g.heartbeat(t, "m3 subscribes to nothing", "m3", 7, func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames = []string{}
	})
	g.show(t, "m3 with nothing")
	g.heartbeat(t, "m3 leaves", "m3", -1, nil)
	g.show(t, "empty")
	g.heartbeat(t, "m4 joins by range", "m4", 0, func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
		g.joining(side, r)
		r.ServerAssignor, r.RackID = ptr("range"), ptr("rack")
	})
	g.show(t, "range")
}

func walkErrors(t *testing.T, g *groupPair) {
	alter := func(f func(r *kmsg.ConsumerGroupHeartbeatRequest)) func(int, *kmsg.ConsumerGroupHeartbeatRequest) {
		return func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
			g.joining(side, r)
			f(r)
		}
	}
	for what, f := range map[string]func(r *kmsg.ConsumerGroupHeartbeatRequest){
		"no group": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }, "blank group": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = " " },
		"no member": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, "no member, v0, epoch 1": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Version, r.MemberID, r.MemberEpoch = 0, "", 1 },
		"empty instance": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ptr("") }, "empty rack": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ptr("") },
		"no timeout": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 },
		"null owned": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil },
		"owned": func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.Topics = make([]kmsg.ConsumerGroupHeartbeatRequestTopic, 1)
		},
		"null topics":               func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil },
		"epoch -2 without instance": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 },
		"epoch -3":                  func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 },
		"assignor":                  func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = ptr("sticky") },
		"regex": func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, ptr("a(")
		},
		"regex in two": func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, ptr("a)(b")
		},
		"regex lookahead": func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, ptr("(?!a)b")
		},
		"unknown group":                 func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 4 },
		"leave unknown group":           func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 },
		"static leave of unknown group": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.InstanceID = -2, ptr("i") },
	} {
		g.heartbeat(t, what, "m", 0, alter(f))
	}
	g.show(t, "nothing was made")
	g.heartbeat(t, "m joins", "m", 0, g.joining)
	g.heartbeat(t, "unknown member", "n", 1, nil)
	g.heartbeat(t, "greater epoch", "m", 3, g.owning())
	g.heartbeat(t, "m joins again", "m", 0, g.joining)
	g.heartbeat(t, "m joins again with another topic", "m", 0, alter(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{g.topic, "nowhere"} }))
	g.show(t, "joined again")
	g.heartbeat(t, "smaller epoch", "m", 2, nil)
	g.heartbeat(t, "unknown instance", "m", 2, func(_ int, r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ptr("i") })
	g.heartbeat(t, "v0 makes an id only at a join", "m", 2, func(_ int, r *kmsg.ConsumerGroupHeartbeatRequest) { r.Version = 0 })
}

func walkStatic(t *testing.T, g *groupPair) {
	static := func(f func(int, *kmsg.ConsumerGroupHeartbeatRequest)) func(int, *kmsg.ConsumerGroupHeartbeatRequest) {
		return func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.InstanceID = ptr("i")
			if f != nil {
				f(side, r)
			}
		}
	}
	g.heartbeat(t, "a joins", "a", 0, static(g.joining))
	g.heartbeat(t, "b wants the name", "b", 0, static(g.joining))
	g.heartbeat(t, "b leaves", "b", -1, static(nil))
	g.heartbeat(t, "b leaves for a while", "b", -2, static(nil))
	g.heartbeat(t, "a leaves for a while", "a", -2, static(nil))
	g.show(t, "away")
	g.heartbeat(t, "a is away", "a", 2, static(nil))
	g.heartbeat(t, "b joins", "b", 0, static(g.joining))
	g.show(t, "replaced")
	g.heartbeat(t, "a is fenced", "a", 2, static(nil))
	g.heartbeat(t, "a without its name", "a", 2, nil)
	g.heartbeat(t, "b beats", "b", 2, static(nil))
	g.heartbeat(t, "b beats without its name", "b", 2, nil)
	g.heartbeat(t, "b joins again", "b", 0, static(g.joining))
	g.heartbeat(t, "b leaves for a while", "b", -2, static(nil))
	g.heartbeat(t, "b comes back by the same id", "b", 0, static(g.joining))
	g.show(t, "back")
	g.heartbeat(t, "c joins", "c", 0, g.joining)
	g.heartbeat(t, "b must give", "b", 2, static(nil))
	g.heartbeat(t, "b leaves for a while", "b", -2, static(nil))
	g.heartbeat(t, "c asks", "c", 3, g.owning())
	g.show(t, "b away while it had to give")
	g.heartbeat(t, "d joins for b", "d", 0, static(g.joining))
	g.show(t, "d")
	g.heartbeat(t, "d leaves", "d", -1, static(nil))
	g.show(t, "d left")
}

func (g *groupPair) join(t *testing.T, what, member string, change func(side int, r *kmsg.JoinGroupRequest)) [2]kmsg.Response {
	t.Helper()
	return g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.MemberID, r.ProtocolType = 9, g.group, g.id(side, member), "consumer"
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 30_000, 10_000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription(g.topic)}}
		if change != nil {
			change(side, r)
		}
		return r
	})
}

func subscription(topic string, owned ...int32) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics, m.Generation = 2, []string{topic}, -1
	if len(owned) > 0 {
		m.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: topic, Partitions: owned}}
	}
	return m.AppendTo(nil)
}

func (g *groupPair) sync(t *testing.T, what, member string, generation int32, assignment []byte) {
	t.Helper()
	g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = 5, g.group, g.id(side, member), generation, ptr("consumer"), ptr("range")
		if assignment != nil {
			r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: g.id(side, member), MemberAssignment: assignment}}
		}
		return r
	})
}

func (g *groupPair) beat(t *testing.T, what, member string, generation int32) {
	t.Helper()
	g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 4, g.group, g.id(side, member), generation
		return r
	})
}

func (g *groupPair) leave(t *testing.T, what string, members ...string) {
	t.Helper()
	g.ask(t, what, func(side int) kmsg.Request {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group = 5, g.group
		for _, m := range members {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: g.id(side, m)})
		}
		return r
	})
}

// walkClassicJoins: a client of the classic protocol joins a consumer group, and is
// the one that stays.
func walkClassicJoins(t *testing.T, g *groupPair) {
	g.heartbeat(t, "m1 joins", "m1", 0, g.joining)
	g.join(t, "wrong type", "c1", func(_ int, r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
	g.join(t, "no protocol", "c1", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols = nil })
	g.join(t, "c1 joins", "c1", nil)
	g.show(t, "c1 joined")
	g.sync(t, "c1 syncs", "c1", 3, nil)
	g.beat(t, "c1 beats", "c1", 3)
	g.beat(t, "c1 beats in an old generation", "c1", 1)
	g.beat(t, "m1 beats as if it were classic", "m1", 1)
	g.commit(t, "c1 commits", 8, "c1", 3, 0)
	g.commit(t, "c1 commits in an old generation", 8, "c1", 2, 0)
	told := g.heartbeat(t, "m1 is told", "m1", 2, nil)
	kept := told[0].Assignment.Topics[0].Partitions
	g.heartbeat(t, "m1 gives", "m1", 2, g.owning(kept...))
	g.beat(t, "c1 is told", "c1", 3)
	g.join(t, "c1 rejoins", "c1", nil)
	g.sync(t, "c1 syncs", "c1", 3, nil)
	g.show(t, "both")
	g.join(t, "c2 has nothing in common", "c2", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" })
	g.leave(t, "m1 cannot leave like this", "m1")
	g.heartbeat(t, "m1 leaves: the group becomes classic", "m1", -1, nil)
	g.show(t, "classic")
	g.beat(t, "c1 beats", "c1", 3)
	g.beat(t, "c1 beats", "c1", 4)
	g.join(t, "c1 rejoins", "c1", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = subscription(g.topic, 2, 3) })
	g.leave(t, "c1 leaves", "c1")
	g.show(t, "empty")
}

// walkUpgrade: a client of the consumer protocol joins a classic group.
func walkUpgrade(t *testing.T, g *groupPair) {
	g.join(t, "c1 has no id", "", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 3 })
	plan := kmsg.ConsumerMemberAssignment{Version: 2, Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: g.topic, Partitions: []int32{0, 1, 2, 3}}}}
	g.sync(t, "c1 leads", "member0", 1, plan.AppendTo(nil))
	g.show(t, "classic")
	g.heartbeat(t, "beat in a classic group", "m1", 1, nil)
	g.heartbeat(t, "leave of a classic group", "m1", -1, nil)
	g.heartbeat(t, "m1 joins", "m1", 0, g.joining)
	g.show(t, "upgraded")
	g.commit(t, "c1 commits", 8, "member0", 1, 0)
	g.beat(t, "c1 is told", "member0", 1)
	g.sync(t, "c1 syncs too early", "member0", 1, nil)
	owned := func(partitions ...int32) func(int, *kmsg.JoinGroupRequest) {
		return func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = subscription(g.topic, partitions...) }
	}
	g.join(t, "c1 rejoins", "member0", owned(0, 1, 2, 3))
	g.show(t, "c1 rejoined")
	g.sync(t, "c1 is told what to keep", "member0", 1, nil)
	g.beat(t, "c1 must rejoin", "member0", 1)
	g.heartbeat(t, "m1 waits", "m1", 2, g.owning())
	g.join(t, "c1 has revoked", "member0", owned(0, 1))
	g.sync(t, "c1 syncs", "member0", 2, nil)
	g.beat(t, "c1 beats", "member0", 2)
	g.heartbeat(t, "m1 gets", "m1", 2, g.owning())
	g.show(t, "both")
	g.commit(t, "c1 commits in 2", 9, "member0", 2, 0)
	g.commit(t, "c1 commits in 1", 9, "member0", 1, 0)
	g.fetch(t, "c1 fetches", nil, -1)
	g.heartbeat(t, "c1 turns to the consumer protocol", "member0", 0, g.joining)
	g.show(t, "all consumers")
	g.random = true
	g.join(t, "static classic joins", "", func(_ int, r *kmsg.JoinGroupRequest) { r.InstanceID = ptr("i") })
	g.show(t, "static")
	g.join(t, "static classic restarts", "", func(_ int, r *kmsg.JoinGroupRequest) { r.InstanceID = ptr("i") })
	g.show(t, "static restarted")
	g.beat(t, "the old one is unknown", "member1", 3)
	g.beat(t, "the new one", "member2", 3)
	g.leave(t, "all leave", "m1", "member0", "member2", "nobody")
	g.show(t, "empty")
}

// walkReplaced: static members of the classic protocol take the places of consumers.
func walkReplaced(t *testing.T, g *groupPair) {
	g.random = true
	static := func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
		g.joining(side, r)
		r.InstanceID, r.RackID, r.ServerAssignor = ptr("i"), ptr("r"), ptr("range")
	}
	replace := func(topic string) func(int, *kmsg.JoinGroupRequest) {
		return func(_ int, r *kmsg.JoinGroupRequest) {
			r.InstanceID, r.Protocols[0].Metadata = ptr("i"), subscription(topic)
		}
	}
	g.heartbeat(t, "m1 joins", "m1", 0, static)
	unreadable := func(_ int, r *kmsg.JoinGroupRequest) { r.InstanceID, r.Protocols[0].Metadata = ptr("i"), []byte{1, 2} }
	g.join(t, "unreadable for the only consumer", "", unreadable)
	g.join(t, "unreadable by a stranger", "x", unreadable)
	g.show(t, "not replaced")
	g.join(t, "the only consumer is replaced", "", replace(g.topic))
	g.show(t, "classic with nothing to move")
	g.sync(t, "c1 syncs", "member0", 2, nil)
	g.leave(t, "c1 leaves", "member0")
	g.heartbeat(t, "m1 joins anew", "m1", 0, static)
	g.join(t, "the only consumer is replaced by one who wants another topic", "", replace("nowhere"))
	g.show(t, "classic with something to move")
	g.leave(t, "c2 leaves", "member1")
	g.heartbeat(t, "m2 joins", "m2", 0, g.joining)
	g.heartbeat(t, "m1 joins once more", "m1", 0, static)
	g.join(t, "m1 is replaced", "", replace(g.topic))
	g.show(t, "rack and vote stay")
	g.heartbeat(t, "m3 joins", "m3", 0, g.joining)
	g.heartbeat(t, "m3 leaves", "m3", -1, nil)
	g.show(t, "an epoch without a plan")
	for generation := int32(2); generation < 7; generation++ {
		g.beat(t, "c3 beats", "member2", generation)
		g.sync(t, "c3 syncs", "member2", generation, nil)
	}
	g.leave(t, "c3 leaves twice", "member2", "member2", "nobody")
}

func walkOffsets(t *testing.T, g *groupPair) {
	g.fetch(t, "no group", nil, -1)
	g.fetch(t, "no group, a member", ptr("m"), 3)
	g.commit(t, "by hand", 9, "", -1, 0)
	g.show(t, "simple group")
	g.heartbeat(t, "m joins", "m", 0, g.joining)
	g.show(t, "m joined")
	for _, version := range []int16{8, 9, 10} {
		g.commit(t, fmt.Sprint("m commits by ", version), version, "m", 2, 0)
	}
	g.commit(t, "m commits ahead", 9, "m", 3, 0)
	g.commit(t, "m commits at -1", 9, "m", -1, 0)
	g.commit(t, "nobody commits", 9, "", -1, 0)
	g.commit(t, "unknown member", 9, "n", 1, 0)
	g.fetch(t, "m", ptr("m"), 2)
	g.fetch(t, "m ahead", ptr("m"), 3)
	g.fetch(t, "m at -1", ptr("m"), -1)
	g.fetch(t, "unknown", ptr("n"), 1)
	g.fetch(t, "nobody", nil, -1)
	offsetDelete := func(what string) {
		g.ask(t, what, func(int) kmsg.Request {
			r := kmsg.NewPtrOffsetDeleteRequest()
			r.Group = g.group
			r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: g.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
			return r
		})
	}
	deleteGroup := func(what string) {
		g.ask(t, what, func(int) kmsg.Request {
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Version, r.Groups = 2, []string{g.group}
			return r
		})
	}
	offsetDelete("subscribed")
	deleteGroup("not empty")
	g.heartbeat(t, "m leaves", "m", -1, nil)
	g.commit(t, "by hand to the empty group", 9, "", -1, 0)
	offsetDelete("empty")
	deleteGroup("empty")
	g.show(t, "gone")
	g.heartbeat(t, "m joins anew", "m", 0, g.joining)
	g.heartbeat(t, "m leaves", "m", -1, nil)
	g.join(t, "a classic member with an id", "x", nil)
	g.join(t, "a classic member", "", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 3 })
}

// TestConsumerGroupOverKills: franz-go by the consumer protocol, one by names and one by
// a regular expression, shares a topic while the broker is killed; what was committed
// before a kill is not read again by who takes over, and every record is read.
func TestConsumerGroupOverKills(t *testing.T) {
	t.Parallel()
	b := startBroker(t, "group.consumer.heartbeat.interval.ms=500", "group.consumer.min.heartbeat.interval.ms=500")
	b.createTopic(t, "work", 4, nil)
	producer := b.client(t)
	seen := map[string]int{}
	var consumers []*kgo.Client
	for i := range 2 {
		options := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ServerSideBalancer(), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.ConsumeTopics("work")}
		if i == 1 {
			options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("wor[k-z]"))
		}
		consumers = append(consumers, b.client(t, options...))
	}
	total := 0
	for round := range 3 {
		var records []*kgo.Record
		for i := range 100 {
			records = append(records, &kgo.Record{Topic: "work", Value: fmt.Append(nil, round, "/", i)})
		}
		must(t, producer.ProduceSync(testContext(t), records...).FirstErr())
		total += len(records)
		eventually(t, 90*time.Second, func() error {
			for _, c := range consumers {
				ctx, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
				fetches := c.PollFetches(ctx)
				cancel()
				for _, r := range fetches.Records() {
					seen[string(r.Value)]++
				}
				if fetches.NumRecords() > 0 {
					must(t, c.CommitUncommittedOffsets(testContext(t)))
				}
				c.AllowRebalance()
			}
			if len(seen) < total {
				return fmt.Errorf("%d of %d records", len(seen), total)
			}
			groups, err := b.admin(t).ListGroups(testContext(t))
			if g := groups["g"]; err != nil || g.GroupType != "consumer" || g.State != "Stable" {
				return fmt.Errorf("%+v, %v", g, err)
			}
			return nil
		})
		if round < 2 {
			b.kill9()
			b.start()
		}
	}
	for value, times := range seen {
		if times > 1 {
			t.Errorf("%s was read %d times", value, times)
		}
	}
}
