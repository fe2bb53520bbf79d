package group

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The scripts' commands for consumer groups.
func (s *script) consumerCommands() map[string]func(words) {
	return map[string]func(words){"topics": s.topics, "beat": s.beat, "show": s.showConsumer, "group-config": s.groupConfig}
}

// group-config GROUP key=value…: all that is configured for this group by itself.
func (s *script) groupConfig(w words) { s.own[w.arg(0)] = w.named }

// topics NAME[#ID]=PARTITIONS…: all topics that there are, from now on.
func (s *script) topics(w words) {
	s.image = testImage(w.named)
}

func testImage(counts map[string]string) *meta.Image {
	var topics []*meta.Topic
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		name, id := topicAndID(text)
		n, _ := strconv.Atoi(counts[text])
		topics = append(topics, &meta.Topic{Name: name, ID: id, Partitions: make([]meta.PartitionInfo, n)})
	}
	return meta.NewImage("c", 1, 1, nil, topics)
}

// beat GROUP MEMBER EPOCH topics=a,b regex= owned=t/0,t/1 (or owned=none) instance= rack= assignor= timeout= version=
// A join names its timeout and that it owns nothing by itself. MEMBER may be "".
func (s *script) beat(w words) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID = int16(w.num("version", 1)), w.arg(0), strings.Trim(w.arg(1), `"`)
	epoch, _ := strconv.ParseInt(w.arg(2), 10, 32)
	req.MemberEpoch = int32(epoch)
	req.InstanceID, req.RackID, req.ServerAssignor, req.SubscribedTopicRegex = w.pointer("instance"), w.pointer("rack"), w.pointer("assignor"), w.pointer("regex")
	if _, ok := w.named["topics"]; ok {
		req.SubscribedTopicNames = append([]string{}, w.list("topics")...)
	}
	owned := w.get("owned", "")
	if epoch == epochJoin {
		req.RebalanceTimeoutMillis = 20_000
		owned = "none"
	}
	req.RebalanceTimeoutMillis = int32(w.num("timeout", int64(req.RebalanceTimeoutMillis)))
	if owned != "" {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if owned != "none" {
		for _, text := range strings.FieldsFunc(owned, func(r rune) bool { return r == ',' }) {
			topic, partition := splitPartition(text)
			_, id := topicAndID(topic)
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: []int32{partition}})
		}
	}
	n := s.request()
	client := Client{ID: "c", Host: "/127.0.0.1"}
	s.turn(func(m *Machine, t *coord.Turn) {
		m.ConsumerHeartbeat(t, client, req, func(string) bool { return true }, func(r *kmsg.ConsumerGroupHeartbeatResponse) {
			if r.ErrorCode != 0 {
				s.printf("#%d beat: error %d", n, r.ErrorCode)
				return
			}
			text := fmt.Sprintf("member=%s epoch=%d", *r.MemberID, r.MemberEpoch)
			if r.HeartbeatIntervalMillis != s.config.ConsumerHeartbeatIntervalMs && req.MemberEpoch >= 0 {
				text += fmt.Sprintf(" every %d ms", r.HeartbeatIntervalMillis)
			}
			if r.Assignment != nil {
				p := assignor.Partitions{}
				for _, topic := range r.Assignment.Topics {
					p[topic.TopicID] = topic.Partitions
				}
				text += " has " + s.partitionsText(p)
			}
			s.printf("#%d beat: %s", n, text)
		})
	})
}

// partitionsText names topics by the image, or by the first byte of their ids.
func (s *script) partitionsText(p assignor.Partitions) string {
	var parts []string
	for _, id := range p.Sorted() {
		name := fmt.Sprint("#", id[0])
		if s.image != nil {
			if topic := s.image.TopicByID(meta.UUID(id)); topic != nil {
				name = topic.Name
			}
		}
		parts = append(parts, name+strings.ReplaceAll(fmt.Sprint(p[id]), " ", ","))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " ")
}

// show GROUP: what ConsumerGroupDescribe says.
func (s *script) showConsumer(w words) {
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.DescribeConsumerGroup(t, w.arg(0), func(r *kmsg.ConsumerGroupDescribeResponseGroup) {
			if r.ErrorCode != 0 {
				s.printf("#%d show: error %d", n, r.ErrorCode)
				return
			}
			s.printf("#%d show: %s epoch=%d plan=%d %s", n, r.State, r.Epoch, r.AssignmentEpoch, r.AssignorName)
			for i := range r.Members {
				m := &r.Members[i]
				text := fmt.Sprintf("  %s epoch=%d %s wants %s", m.MemberID, m.MemberEpoch, s.describedText(&m.Assignment), s.describedText(&m.TargetAssignment))
				if m.MemberType == memberTypeClassic {
					text += " classic"
				}
				s.printf("%s", text)
			}
		})
	})
}

func (s *script) describedText(a *kmsg.Assignment) string {
	p := assignor.Partitions{}
	for _, topic := range a.TopicPartitions {
		p[topic.TopicID] = topic.Partitions
	}
	return s.partitionsText(p)
}

// consumerRecordText is a record of a consumer group for the reader.
func (s *script) consumerRecordText(key, value []byte) string {
	k, err := consumerlog.ReadKey(key)
	if err != nil {
		return err.Error()
	}
	name := map[consumerlog.Kind]string{
		consumerlog.KindGroup: "epoch", consumerlog.KindPartitionMetadata: "metadata", consumerlog.KindMember: "member", consumerlog.KindTarget: "plan",
		consumerlog.KindTargetMember: "target", consumerlog.KindCurrent: "current", consumerlog.KindRegex: "regex",
	}[k.Kind]
	text := strings.TrimRight(fmt.Sprintf("%s %s %s", name, k.Group, k.Item), " ")
	if value == nil {
		return text + " tombstone"
	}
	switch k.Kind {
	case consumerlog.KindGroup:
		v, _ := consumerlog.ReadGroup(value)
		return fmt.Sprintf("%s %d", text, v.Epoch)
	case consumerlog.KindMember:
		v, _ := consumerlog.ReadMember(value)
		text += fmt.Sprintf(" %v %q timeout=%d", v.Topics, *v.Regex, v.RebalanceTimeoutMs)
		if v.Classic != nil {
			text += fmt.Sprintf(" classic session=%d", v.Classic.SessionTimeoutMs)
		}
		return text
	case consumerlog.KindTarget:
		v, _ := consumerlog.ReadTarget(value)
		return fmt.Sprintf("%s %d", text, v.Epoch)
	case consumerlog.KindTargetMember:
		v, _ := consumerlog.ReadTargetMember(value)
		return text + " " + s.partitionsText(ownedFrom(v, 0).plain())
	case consumerlog.KindCurrent:
		v, _ := consumerlog.ReadCurrent(value)
		return fmt.Sprintf("%s %d after %d state=%d has %s gives up %s", text, v.Epoch, v.PreviousEpoch, v.State,
			s.partitionsText(ownedFrom(v.Assigned, 0).plain()), s.partitionsText(ownedFrom(v.Revoking, 0).plain()))
	default:
		v, _ := consumerlog.ReadRegex(value)
		return fmt.Sprintf("%s %v", text, v.Topics)
	}
}

// checkConsumer holds what is true of a consumer group between two events.
func checkConsumer(g *group) error {
	c := g.consumer
	if len(g.members) > 0 || len(g.pending) > 0 || g.recorded {
		return fmt.Errorf("group %s is a classic and a consumer group", g.id)
	}
	owners, static := map[assignor.TopicID]map[int32]string{}, 0
	for id, mem := range c.members {
		if id != mem.id || !mem.session.Active() {
			return fmt.Errorf("group %s: member %s stands under %s, session %v", g.id, mem.id, id, mem.session.Active())
		}
		if mem.said.InstanceID != nil {
			static++
			if c.static[*mem.said.InstanceID] != id {
				return fmt.Errorf("group %s: instance %s is not %s", g.id, *mem.said.InstanceID, id)
			}
		}
		if mem.epoch > c.assignmentEpoch || c.assignmentEpoch > c.epoch {
			return fmt.Errorf("group %s: member epoch %d, plan %d, group %d", g.id, mem.epoch, c.assignmentEpoch, c.epoch)
		}
		if (mem.state == memberUnrevoked) != (len(mem.revoking) > 0) && mem.epoch > 0 {
			return fmt.Errorf("group %s: %s in state %d gives up %v", g.id, id, mem.state, mem.revoking)
		}
		for topic, partitions := range mem.holds() {
			for p := range partitions {
				if other, taken := owners[topic][p]; taken {
					return fmt.Errorf("group %s: %x/%d belongs to %s and to %s", g.id, topic[0], p, other, id)
				}
				if owners[topic] == nil {
					owners[topic] = map[int32]string{}
				}
				owners[topic][p] = id
			}
		}
	}
	if static != len(c.static) {
		return fmt.Errorf("group %s: %d static members, %d names", g.id, static, len(c.static))
	}
	if !reflect.DeepEqual(owners, c.owners) {
		return fmt.Errorf("group %s: owners are %v, noted %v", g.id, owners, c.owners)
	}
	names := map[string]int{}
	for _, mem := range c.members {
		for _, name := range mem.said.Topics {
			names[name]++
		}
	}
	if !reflect.DeepEqual(names, c.names) {
		return fmt.Errorf("group %s: names are %v, counted %v", g.id, names, c.names)
	}
	for id := range c.targets {
		if c.members[id] == nil {
			return fmt.Errorf("group %s: a plan for %s, who is not there", g.id, id)
		}
	}
	return nil
}
