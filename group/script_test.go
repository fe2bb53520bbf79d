package group

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/group/consumerlog"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write the golden output of testdata/*.txt anew")

// TestScripts runs testdata/*.txt: blocks of commands, a line "----", and what
// came of them. Lines that begin with # are for the reader. The commands are the
// methods of script below; docs stand there.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file)
		})
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	var got strings.Builder
	for _, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		got.WriteString(commands + "\n")
		if !strings.HasPrefix(strings.TrimLeft(lastLine(commands), " "), "#") {
			got.WriteString("----\n" + s.block(commands))
		}
		got.WriteString("\n")
	}
	result := strings.TrimRight(got.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(result), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if result != string(text) {
		t.Errorf("%s differs; run with -update and look at git diff\n%s", file, firstDifference(string(text), result))
	}
}

func lastLine(s string) string { return s[strings.LastIndex(s, "\n")+1:] }

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// script is one machine on a log in memory, with a clock that stands still until
// advance.
type script struct {
	t      *testing.T
	config Config
	log    *coordtest.Log
	steps  *coord.Steps[*Machine]
	nowMs  int64
	next   int // number of the next request
	ids    int
	seen   int64 // records that were printed
	image  *meta.Image
	own    map[string]map[string]string // configurations of single groups
	out    strings.Builder
	// verified are the verifications that were taken, by producer id.
	verified map[string]*Verification
}

// The scripts' time of day begins at 1,000,000 ms, so that records are readable.
const scriptWallMs = 1_000_000

func newScript(t *testing.T) *script {
	s := &script{t: t, config: DefaultConfig(), log: coordtest.NewLog(), own: map[string]map[string]string{}, verified: map[string]*Verification{}}
	s.config.Image = func() *meta.Image { return s.image }
	s.config.GroupConfig = func(id string) map[string]string { return s.own[id] }
	s.config.NewMemberSuffix = func() string { s.ids++; return strconv.Itoa(s.ids) }
	s.load()
	return s
}

func (s *script) load() {
	config := s.config
	steps, err := coord.NewSteps(NewMachine(&config), s.log, s.nowMs, s.nowMs+scriptWallMs)
	if err != nil {
		s.t.Fatal(err)
	}
	s.steps = steps
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) block(commands string) string {
	s.out.Reset()
	for _, line := range strings.Split(commands, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.command(parse(line))
		if err := checkMachine(s.steps.Machine); err != nil {
			s.t.Fatalf("after %q: %v", line, err)
		}
	}
	return s.out.String()
}

// words of a command: a name, arguments, and name=value pairs.
type words struct {
	name  string
	args  []string
	named map[string]string
}

func parse(line string) words {
	fields := strings.Fields(line)
	w := words{name: fields[0], named: map[string]string{}}
	for _, field := range fields[1:] {
		if key, value, ok := strings.Cut(field, "="); ok && !strings.Contains(key, "/") {
			w.named[key] = value
		} else {
			w.args = append(w.args, field)
		}
	}
	return w
}

func (w words) arg(i int) string {
	if i < len(w.args) {
		return w.args[i]
	}
	return ""
}

func (w words) get(key, otherwise string) string {
	if value, ok := w.named[key]; ok {
		return value
	}
	return otherwise
}

func (w words) num(key string, otherwise int64) int64 {
	n, err := strconv.ParseInt(w.get(key, strconv.FormatInt(otherwise, 10)), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (w words) pointer(key string) *string {
	if value, ok := w.named[key]; ok {
		return &value
	}
	return nil
}

func (w words) list(key string) []string {
	if w.named[key] == "" {
		return nil
	}
	return strings.Split(w.named[key], ",")
}

func (s *script) command(w words) {
	commands := map[string]func(words){
		"config": s.setConfig, "join": s.join, "sync": s.sync, "heartbeat": s.heartbeat, "leave": s.leave,
		"commit": s.commit, "fetch": s.fetch, "describe": s.describe, "list": s.list, "delete": s.deleteGroup,
		"offset-delete": s.offsetDelete, "advance": s.advance, "log": s.logCommand, "crash": s.crash,
		"records": s.records, "topic-deleted": s.topicDeleted, "topic-replaced": s.topicReplaced, "groups": s.groups,
	}
	maps.Copy(commands, s.consumerCommands())
	maps.Copy(commands, s.transactionCommands())
	run, ok := commands[w.name]
	if !ok {
		s.t.Fatalf("no such command: %s", w.name)
	}
	run(w)
}

// turn runs one event. When the log fails, everybody is told and the shard is
// loaded again as soon as the log can be read.
func (s *script) turn(events ...func(*Machine, *coord.Turn)) {
	if err := s.steps.Turn(s.nowMs, s.nowMs+scriptWallMs, events...); err != nil {
		s.printf("the log failed: %v", err)
		s.steps.End(err)
		s.log.Fail(nil)
		s.load()
	}
}

func (s *script) request() int {
	s.next++
	return s.next
}

// config key=value: before the first join.
func (s *script) setConfig(w words) {
	s.config.InitialRebalanceDelayMs = int32(w.num("initial-delay", int64(s.config.InitialRebalanceDelayMs)))
	s.config.MaxSize = int32(w.num("max-size", int64(s.config.MaxSize)))
	s.config.OffsetMetadataMaxChars = int32(w.num("metadata-max", int64(s.config.OffsetMetadataMaxChars)))
	s.config.OffsetsRetentionMs = w.num("retention", s.config.OffsetsRetentionMs)
	s.config.RetentionCheckIntervalMs = w.num("check", s.config.RetentionCheckIntervalMs)
	s.config.ConsumerMaxSize = int32(w.num("consumer-max-size", int64(s.config.ConsumerMaxSize)))
	s.config.PlanInTurn = int(w.num("plan-in-turn", int64(s.config.PlanInTurn)))
	s.config.ConsumerAssignmentIntervalMs = int32(w.num("assignment-interval", int64(s.config.ConsumerAssignmentIntervalMs)))
	s.config.ConsumerMigrationPolicy = w.get("migration", s.config.ConsumerMigrationPolicy)
	s.log.MaxBytes = int(w.num("max-message-bytes", int64(s.log.MaxBytes)))
	s.load()
}

// join GROUP client= member= instance= version= session= rebalance= type= protocols=name:metadata,…
func (s *script) join(w words) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(w.num("version", 5))
	req.Group, req.MemberID, req.InstanceID = w.arg(0), w.get("member", ""), w.pointer("instance")
	req.SessionTimeoutMillis = int32(w.num("session", 10_000))
	if req.Version > 0 {
		req.RebalanceTimeoutMillis = int32(w.num("rebalance", 60_000))
	}
	req.ProtocolType, req.Reason = w.get("type", "consumer"), w.pointer("reason")
	protocols := "range:m"
	if value, ok := w.named["protocols"]; ok {
		protocols = value
	}
	for _, p := range strings.Split(protocols, ",") {
		if name, metadata, _ := strings.Cut(p, ":"); name != "" {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: scriptMetadata(metadata)})
		}
	}
	n := s.request()
	client := Client{ID: w.get("client", "c"), Host: "/127.0.0.1"}
	s.turn(func(m *Machine, t *coord.Turn) {
		m.JoinGroup(t, client, req, func(r *kmsg.JoinGroupResponse) { s.printf("#%d join: %s", n, joinText(r)) })
	})
}

// scriptMetadata: "topics(a+b)" is a consumer's subscription, anything else is itself.
func scriptMetadata(text string) []byte {
	list, ok := strings.CutPrefix(text, "topics(")
	if !ok {
		return []byte(text)
	}
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = strings.Split(strings.TrimSuffix(list, ")"), "+")
	return m.AppendTo(nil)
}

func joinText(r *kmsg.JoinGroupResponse) string {
	if r.ErrorCode != 0 {
		return fmt.Sprintf("error %d member=%s", r.ErrorCode, r.MemberID)
	}
	text := fmt.Sprintf("generation=%d member=%s leader=%s %s/%s", r.Generation, r.MemberID, r.LeaderID, *r.ProtocolType, *r.Protocol)
	if r.SkipAssignment {
		text += " skip-assignment"
	}
	for _, m := range r.Members {
		text += " " + m.MemberID
		if m.InstanceID != nil {
			text += "(" + *m.InstanceID + ")"
		}
	}
	return text
}

// sync GROUP member= generation= instance= version= type= protocol= plan=member:assignment,…
func (s *script) sync(w words) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group = int16(w.num("version", 3)), w.arg(0)
	req.MemberID, req.InstanceID, req.Generation = w.get("member", ""), w.pointer("instance"), int32(w.num("generation", 1))
	req.ProtocolType, req.Protocol = w.pointer("type"), w.pointer("protocol")
	for _, p := range w.list("plan") {
		member, assignment, _ := strings.Cut(p, ":")
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: member, MemberAssignment: []byte(assignment)})
	}
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.SyncGroup(t, req, func(r *kmsg.SyncGroupResponse) {
			switch {
			case r.MemberAssignment == nil:
				s.printf("#%d sync: null assignment", n)
			case r.ErrorCode != 0:
				s.printf("#%d sync: error %d", n, r.ErrorCode)
			default:
				s.printf("#%d sync: assignment=%s %s/%s", n, assignmentText(r.MemberAssignment), deref(r.ProtocolType), deref(r.Protocol))
			}
		})
	})
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// assignmentText shows what the coordinator made itself in a readable form.
func assignmentText(b []byte) string {
	topics, ok := consumerlog.AssignedTopics(b)
	if !ok {
		return fmt.Sprintf("%q", b)
	}
	text := ""
	for _, t := range topics {
		text += fmt.Sprintf("%s%v", t.Name, t.Partitions)
	}
	return "(" + text + ")"
}

// heartbeat GROUP member= generation= instance=
func (s *script) heartbeat(w words) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = w.arg(0), w.get("member", ""), w.pointer("instance"), int32(w.num("generation", 1))
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) { s.printf("#%d heartbeat: %s", n, codeText(m.Heartbeat(t, req))) })
}

func codeText(code int16) string {
	if code == 0 {
		return "ok"
	}
	return fmt.Sprintf("error %d", code)
}

// leave GROUP MEMBER… ; @instance names a static member, member@instance both.
func (s *script) leave(w words) {
	var members []kmsg.LeaveGroupRequestMember
	for _, arg := range w.args[1:] {
		id, instance, static := strings.Cut(arg, "@")
		one := kmsg.LeaveGroupRequestMember{MemberID: id, Reason: w.pointer("reason")}
		if static {
			one.InstanceID = &instance
		}
		members = append(members, one)
	}
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.LeaveGroup(t, w.arg(0), members, func(r *kmsg.LeaveGroupResponse) {
			text := codeText(r.ErrorCode)
			for _, one := range r.Members {
				text += fmt.Sprintf(" %s:%s", one.MemberID, codeText(one.ErrorCode))
			}
			s.printf("#%d leave: %s", n, text)
		})
	})
}

// commit GROUP topic/partition=offset[@epoch][:metadata] … member= generation= instance= version= retention=
func (s *script) commit(w words) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = int16(w.num("version", 7)), w.arg(0)
	req.MemberID, req.InstanceID, req.Generation = w.get("member", ""), w.pointer("instance"), int32(w.num("generation", -1))
	req.RetentionTimeMillis = w.num("retention", -1)
	for _, arg := range w.args[1:] {
		req.Topics = append(req.Topics, committedTopic(arg))
	}
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.OffsetCommit(t, req, func(r *kmsg.OffsetCommitResponse) {
			text := ""
			for i := range r.Topics {
				for _, p := range r.Topics[i].Partitions {
					text += fmt.Sprintf(" %s/%d:%s", r.Topics[i].Topic, p.Partition, codeText(p.ErrorCode))
				}
			}
			s.printf("#%d commit:%s", n, text)
		})
	})
}

// committedTopic: topic/partition=offset@epoch:metadata.
func committedTopic(arg string) kmsg.OffsetCommitRequestTopic {
	where, what, _ := strings.Cut(arg, "=")
	topic, partition := splitPartition(where)
	what, metadata, _ := strings.Cut(what, ":")
	offset, epoch, hasEpoch := strings.Cut(what, "@")
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Metadata, p.LeaderEpoch = partition, &metadata, -1
	p.Offset, _ = strconv.ParseInt(offset, 10, 64)
	if hasEpoch {
		epoch, _ := strconv.ParseInt(epoch, 10, 32)
		p.LeaderEpoch = int32(epoch)
	}
	name, id := topicAndID(topic)
	return kmsg.OffsetCommitRequestTopic{Topic: name, TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}
}

// topicAndID: "t#2" is the topic t with id 2; without it the id is that of the name's first byte.
func topicAndID(text string) (string, [16]byte) {
	name, number, ok := strings.Cut(text, "#")
	id := [16]byte{name[0]}
	if ok {
		n, _ := strconv.Atoi(number)
		id = [16]byte{byte(n)}
	}
	return name, id
}

func splitPartition(text string) (string, int32) {
	topic, partition, _ := strings.Cut(text, "/")
	n, _ := strconv.ParseInt(partition, 10, 32)
	return topic, int32(n)
}

// fetch GROUP [topic/partition…] [stable=true]; without partitions: all.
func (s *script) fetch(w words) {
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = w.arg(0)
	for _, arg := range w.args[1:] {
		topic, partition := splitPartition(arg)
		name, id := topicAndID(topic)
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: name, TopicID: id, Partitions: []int32{partition}})
	}
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.OffsetFetch(t, &req, w.get("stable", "") == "true", func(r *kmsg.OffsetFetchResponseGroup) {
			text := codeText(r.ErrorCode)
			for _, topic := range r.Topics {
				for _, p := range topic.Partitions {
					text += fmt.Sprintf(" %s/%d=%d", topic.Topic, p.Partition, p.Offset)
					if p.LeaderEpoch >= 0 {
						text += fmt.Sprintf("@%d", p.LeaderEpoch)
					}
					if *p.Metadata != "" {
						text += ":" + *p.Metadata
					}
					if p.ErrorCode != 0 {
						text += fmt.Sprintf("!%d", p.ErrorCode)
					}
				}
			}
			s.printf("#%d fetch: %s", n, text)
		})
	})
}

// describe GROUP version=
func (s *script) describe(w words) {
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.DescribeGroup(t, w.arg(0), int16(w.num("version", 5)), func(r *kmsg.DescribeGroupsResponseGroup) {
			text := fmt.Sprintf("%s %s/%s", r.State, r.ProtocolType, r.Protocol)
			if r.ErrorCode != 0 {
				text = codeText(r.ErrorCode) + " " + text
			}
			for _, mem := range r.Members {
				instance := ""
				if mem.InstanceID != nil {
					instance = "(" + *mem.InstanceID + ")"
				}
				text += fmt.Sprintf(" %s%s[%s %s %q %q]", mem.MemberID, instance, mem.ClientID, mem.ClientHost, mem.ProtocolMetadata, mem.MemberAssignment)
			}
			s.printf("#%d describe: %s", n, text)
		})
	})
}

// list states= types=
func (s *script) list(w words) {
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.ListGroups(t, w.list("states"), w.list("types"), func(groups []kmsg.ListGroupsResponseGroup, err error) {
			text := ""
			for _, g := range groups {
				text += fmt.Sprintf(" %s[%s %s %s]", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
			}
			s.printf("#%d list:%s %s", n, text, codeText(ErrorCode(err)))
		})
	})
}

// delete GROUP
func (s *script) deleteGroup(w words) {
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.DeleteGroup(t, w.arg(0), func(code int16) { s.printf("#%d delete: %s", n, codeText(code)) })
	})
}

// offset-delete GROUP topic/partition…
func (s *script) offsetDelete(w words) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = w.arg(0)
	for _, arg := range w.args[1:] {
		topic, partition := splitPartition(arg)
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}}})
	}
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.OffsetDelete(t, req, func(r *kmsg.OffsetDeleteResponse) {
			text := codeText(r.ErrorCode)
			for _, topic := range r.Topics {
				for _, p := range topic.Partitions {
					text += fmt.Sprintf(" %s/%d:%s", topic.Topic, p.Partition, codeText(p.ErrorCode))
				}
			}
			s.printf("#%d offset-delete: %s", n, text)
		})
	})
}

// advance MS: the clock moves to each deadline in turn.
func (s *script) advance(w words) {
	ms, err := strconv.ParseInt(w.arg(0), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	end := s.nowMs + ms
	for {
		atMs, ok := s.steps.NextTimer()
		if !ok || atMs > end {
			break
		}
		s.nowMs = max(s.nowMs, atMs)
		s.turn()
	}
	s.nowMs = end
	s.turn()
}

// log hold | commit | fail: commits wait, go on, or fail (then the shard reloads).
func (s *script) logCommand(w words) {
	switch w.arg(0) {
	case "hold":
		s.log.Hold()
	case "commit":
		s.log.Commit()
		s.turn()
	case "fail":
		s.log.Fail(errors.New("the disk is gone"))
	default:
		s.t.Fatalf("log %s", w.arg(0))
	}
}

// crash [keep=N]: the broker dies and is started again; N batches that were not
// committed happen to be on the disk.
func (s *script) crash(w words) {
	s.log = s.log.Crash(int(w.num("keep", 0)))
	s.steps.End(coord.ErrNotCoordinator)
	s.load()
}

// records prints what has come to the log since it was asked last.
func (s *script) records(words) {
	err := s.log.Records(s.seen, func(offset int64, key, value []byte) {
		text := recordText(key, value)
		if kind := consumerlog.Kind(key[1]); kind.Known() {
			text = s.consumerRecordText(key, value)
		}
		s.printf("%d %s", offset, text)
		s.seen = offset + 1
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func recordText(key, value []byte) string {
	if len(key) == 4 && key[0] == 0 && key[1] == 0 { // a control record
		return [...]string{"abort marker", "commit marker"}[key[3]]
	}
	r := kbin.Reader{Src: key}
	if r.Int16() == keyOffsetCommit {
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(key); err != nil {
			return err.Error()
		}
		where := fmt.Sprintf("offset %s %s/%d", k.Group, k.Topic, k.Partition)
		if value == nil {
			return where + " tombstone"
		}
		o, err := decodeOffset(value)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s v%d %d epoch=%d %q at=%d expire=%d id=%d", where, value[1], o.offset, o.leaderEpoch, o.metadata, o.commitMs, o.expireMs, o.topicID[0])
	}
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return err.Error()
	}
	if value == nil {
		return "group " + k.Group + " tombstone"
	}
	v, err := decodeGroup(value)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("group %s v%d %s generation=%d", k.Group, v.Version, v.ProtocolType, v.Generation)
	if v.Protocol != nil {
		text += " " + *v.Protocol
	}
	if v.Leader != nil {
		text += " leader=" + *v.Leader
	}
	for _, m := range v.Members {
		text += fmt.Sprintf(" %s[%s %d/%d %q %q]", m.MemberID, m.ClientID, m.SessionTimeoutMillis, m.RebalanceTimeoutMillis, m.Subscription, m.Assignment)
	}
	return text
}

// topic-deleted TOPIC[#ID]
func (s *script) topicDeleted(w words) {
	name, id := topicAndID(w.arg(0))
	s.turn(func(m *Machine, t *coord.Turn) { m.TopicsDeleted(t, map[string][16]byte{name: id}) })
	s.advance(words{args: []string{"0"}})
}

// topic-replaced TOPIC#ID: of all topics the broker knows this one.
func (s *script) topicReplaced(w words) {
	name, id := topicAndID(w.arg(0))
	s.turn(func(m *Machine, t *coord.Turn) {
		m.TopicsReplaced(t, func(topic string) [16]byte {
			if topic == name {
				return id
			}
			return [16]byte{}
		})
	})
	s.advance(words{args: []string{"0"}})
}

// groups prints which groups are in memory.
func (s *script) groups(words) {
	ids := s.steps.Machine.sortedIDs()
	slices.Sort(ids)
	s.printf("in memory: %s", strings.Join(ids, " "))
}
