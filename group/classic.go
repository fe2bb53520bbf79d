package group

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"kaas/coord"
	"kaas/group/consumerlog"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerProtocolType is the protocol type whose metadata the broker may read;
// that of Connect and of others is opaque.
const consumerProtocolType = "consumer"

// state of a group that uses the classic protocol (ClassicGroupState). The
// names travel in DescribeGroups and ListGroups.
type state uint8

const (
	stateEmpty               state = iota // no members; perhaps offsets
	statePreparingRebalance               // waits for members to join
	stateCompletingRebalance              // waits for the leader's assignment
	stateStable
	stateDead // forgotten; only a stale pointer sees it
)

func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// group is one group. offsets, recorded and loadedValue are durable (changed by
// Replay only); the rest is volatile.
type group struct {
	id      string
	offsets offsets
	// recorded: the newest metadata record in the log is no tombstone.
	recorded bool
	// loadedValue is that record while the shard is loading.
	loadedValue []byte
	// consumer is set for a group of the consumer protocol: then everything below is
	// as in an empty group. Made and dropped by Replay.
	consumer *consumerGroup

	state         state
	previousState state
	stateSinceMs  int64  // wall clock of the last transition; -1 for a group of which only offsets are known
	protocolType  string // "": used for offsets only, so far
	protocol      string // chosen by votes; "" until the first rebalance ended
	generation    int32
	leader        string // member id

	members map[string]*member // by member id
	static  map[string]string  // member id by group.instance.id
	pending map[string]*pendingMember
	joined  int64 // members that were ever added; their order
	waiting int   // members with a parked join
	votes   map[string]int

	// subscribed topics of a "consumer" group whose subscriptions could be read; nil else.
	subscribed map[string]struct{}

	// rebalance runs while PreparingRebalance: the initial delay or the rebalance timeout.
	rebalance coord.Timer
	// initialLeftMs is what the initial delay may still be extended by; -1: this is
	// no initial rebalance.
	initialLeftMs int64
	newMember     bool // someone joined since the initial delay was last extended
	// syncExpiry runs from the join answers on, until every member has synced.
	syncExpiry coord.Timer
}

func newGroup(id string) *group {
	return &group{
		id: id, stateSinceMs: -1, initialLeftMs: -1,
		members: map[string]*member{}, static: map[string]string{}, pending: map[string]*pendingMember{}, votes: map[string]int{},
	}
}

type protocol struct {
	name     string
	metadata []byte
}

// member is one member of a group.
type member struct {
	id         string
	instanceID string // group.instance.id
	isStatic   bool
	client     Client
	number     int64 // order of joining

	sessionTimeoutMs   int32
	rebalanceTimeoutMs int32
	protocols          []protocol // by preference
	assignment         []byte

	// isNew: it has never been answered a generation, so it cannot heartbeat.
	isNew bool
	// awaitsSync: it was sent the current generation and has not asked for its
	// assignment yet.
	awaitsSync bool

	// At most one request of each kind is parked here.
	join func(*kmsg.JoinGroupResponse)
	sync func(*kmsg.SyncGroupResponse)

	// deadlineMs is when the member is given up. The timer may be armed earlier (it
	// then looks and re-arms), so that a heartbeat only writes a number.
	deadlineMs int64
	armedMs    int64
	session    coord.Timer
}

// pendingMember was handed a member id (error 79) and has not joined with it.
type pendingMember struct {
	id      string
	session coord.Timer
}

func (m *member) instance() *string {
	if !m.isStatic {
		return nil
	}
	return kmsg.StringPtr(m.instanceID)
}

// metadata of the member for a protocol. It is never null: Java decodes it as bytes.
func (m *member) metadata(name string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == name {
			return m.protocols[i].metadata
		}
	}
	return []byte{}
}

// matches says whether a join repeats what the member said before.
func (m *member) matches(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a protocol, b kmsg.JoinGroupRequestProtocol) bool {
		return a.name == b.Name && bytes.Equal(a.metadata, b.Metadata)
	})
}

func (m *member) answerJoin(r *kmsg.JoinGroupResponse) {
	if join := m.join; join != nil {
		m.join = nil
		join(r)
	}
}

func (m *member) answerSync(r *kmsg.SyncGroupResponse) {
	if sync := m.sync; sync != nil {
		m.sync = nil
		sync(r)
	}
}

// ordered lists the members in the order in which they joined.
func (g *group) ordered() []*member {
	members := make([]*member, 0, len(g.members))
	for _, mem := range g.members {
		members = append(members, mem)
	}
	slices.SortFunc(members, func(a, b *member) int { return cmp.Compare(a.number, b.number) })
	return members
}

// add puts a member in; the first one leads.
func (g *group) add(mem *member) {
	g.joined++
	mem.number = g.joined
	g.members[mem.id] = mem
	if mem.isStatic {
		g.static[mem.instanceID] = mem.id
	}
	if g.leader == "" {
		g.leader = mem.id
	}
	g.countVotes(mem, 1)
	if mem.join != nil {
		g.waiting++
	}
}

// remove takes a member out; whoever is left first leads. Parked requests and
// timers are the caller's business.
func (g *group) remove(mem *member) {
	delete(g.members, mem.id)
	if mem.isStatic && g.static[mem.instanceID] == mem.id {
		delete(g.static, mem.instanceID)
	}
	g.countVotes(mem, -1)
	if mem.join != nil {
		g.waiting--
	}
	if g.leader == mem.id {
		g.leader = ""
		g.electAnyLeader()
	}
}

// electAnyLeader lets whoever has been here longest lead when nobody does.
func (g *group) electAnyLeader() {
	if rest := g.ordered(); g.leader == "" && len(rest) > 0 {
		g.leader = rest[0].id
	}
}

// countVotes keeps how many members support each protocol.
func (g *group) countVotes(mem *member, delta int) {
	for i := range mem.protocols {
		if name := mem.protocols[i].name; !slices.ContainsFunc(mem.protocols[:i], func(p protocol) bool { return p.name == name }) {
			if g.votes[name] += delta; g.votes[name] == 0 {
				delete(g.votes, name)
			}
		}
	}
}

// park keeps a join until the rebalance ends. A join that is parked already is
// from a connection that the client has given up: it is told to come again.
func (g *group) park(mem *member, done func(*kmsg.JoinGroupResponse)) {
	if mem.join != nil {
		old := mem.join
		mem.join = done
		old(JoinError(codeRebalanceInProgress, mem.id))
		return
	}
	mem.join = done
	g.waiting++
}

// unpark answers a parked join.
func (g *group) unpark(mem *member, r *kmsg.JoinGroupResponse) {
	if mem.join != nil {
		g.waiting--
		mem.answerJoin(r)
	}
}

// supports says whether a member with these protocols fits into the group.
func (g *group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.votes[p.Name] == len(g.members)
	})
}

// selectProtocol lets every member vote for the first of its protocols that all
// members support. Most votes win, and among equals the one that Kafka's table of
// votes, a Java HashMap, has first: range before roundrobin.
func (g *group) selectProtocol() string {
	votes := map[string]int{}
	for _, mem := range g.members {
		for i := range mem.protocols {
			if name := mem.protocols[i].name; g.votes[name] == len(g.members) {
				votes[name]++
				break
			}
		}
	}
	best := ""
	for _, name := range coord.JavaMapOrder(slices.Sorted(maps.Keys(votes))) {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// rebalanceTimeoutMs is the longest that any member asks for.
func (g *group) rebalanceTimeoutMs() int64 {
	longest := int32(0)
	for _, mem := range g.members {
		longest = max(longest, mem.rebalanceTimeoutMs)
	}
	return int64(longest)
}

func (g *group) transition(t *coord.Turn, to state) {
	g.previousState, g.state, g.stateSinceMs = g.state, to, t.WallMs
}

// validate checks who asks (ClassicGroup.validateMember): a static member must
// own its instance id, and everybody must be a member.
func (g *group) validate(memberID string, instanceID *string) int16 {
	if instanceID != nil {
		switch owner, ok := g.static[*instanceID]; {
		case !ok:
			return codeUnknownMemberID
		case owner != memberID:
			return codeFencedInstanceID
		}
	}
	if g.members[memberID] == nil {
		return codeUnknownMemberID
	}
	return 0
}

// updateSubscribedTopics reads the subscriptions of a "consumer" group.
func (g *group) updateSubscribedTopics() {
	g.subscribed = nil
	if g.protocolType != consumerProtocolType || len(g.members) == 0 {
		return
	}
	subscribed := map[string]struct{}{}
	for _, mem := range g.members {
		topics, ok := consumerlog.SubscriptionTopics(mem.metadata(g.protocol))
		if !ok {
			return
		}
		for _, topic := range topics {
			subscribed[topic] = struct{}{}
		}
	}
	g.subscribed = subscribed
}

// subscribesTo says whether an offset of the topic is in use. What cannot be read
// counts as in use.
func (g *group) subscribesTo(topic string) bool {
	if g.consumer != nil {
		return g.consumer.subscribesTo(topic)
	}
	if len(g.members) == 0 || g.protocolType != consumerProtocolType {
		return false
	}
	if g.subscribed == nil {
		return true
	}
	_, ok := g.subscribed[topic]
	return ok
}
