package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/meta"
	"kaas/meta/config"
)

// newGroupBroker serves t (two partitions) and coordinates groups in three shards.
func newGroupBroker(t testing.TB) *Broker {
	t.Helper()
	b := newDataBroker(t, testTopics{"t": 2, meta.ConsumerOffsetsTopic: 3}, func(c *config.Broker) { c.GroupInitialRebalanceDelayMs = 0 })
	awaitCoordinators(t, b)
	return b
}

// awaitCoordinators waits until all shards have loaded.
func awaitCoordinators(t testing.TB, b *Broker) {
	t.Helper()
	eventually(t, "all shards are loaded", func() bool {
		return call[*kmsg.ListGroupsResponse](t, b, testSession(), kmsg.NewPtrListGroupsRequest()).ErrorCode == 0
	})
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	await(t, what, condition)
}

// servedID is the topic's id, or zero when it is not served.
func servedID(b *Broker, name string) [16]byte {
	if topic := b.topic(name); topic != nil {
		return topic.id
	}
	return [16]byte{}
}

func versioned[R kmsg.Request](r R, version int16) R {
	r.SetVersion(version)
	return r
}

func joinRequest(version int16, group, member string) *kmsg.JoinGroupRequest {
	r := versioned(kmsg.NewPtrJoinGroupRequest(), version)
	r.Group, r.MemberID, r.ProtocolType = group, member, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, 10_000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	return r
}

// joined is a group with one member, its sync done with the assignment "plan".
func joined(t testing.TB, b *Broker, group string, version int16) *kmsg.JoinGroupResponse {
	t.Helper()
	r := call[*kmsg.JoinGroupResponse](t, b, testSession(), joinRequest(version, group, ""))
	if r.ErrorCode == kerr.MemberIDRequired.Code {
		r = call[*kmsg.JoinGroupResponse](t, b, testSession(), joinRequest(version, group, r.MemberID))
	}
	if r.ErrorCode != 0 || r.LeaderID != r.MemberID || len(r.Members) != 1 {
		t.Fatalf("join v%d: %+v", version, r)
	}
	sync := syncRequest(min(version, 5), group, r)
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: r.MemberID, MemberAssignment: []byte("plan")}}
	if s := call[*kmsg.SyncGroupResponse](t, b, testSession(), sync); s.ErrorCode != 0 || string(s.MemberAssignment) != "plan" {
		t.Fatalf("sync v%d: %+v", sync.Version, s)
	}
	return r
}

func syncRequest(version int16, group string, r *kmsg.JoinGroupResponse) *kmsg.SyncGroupRequest {
	sync := versioned(kmsg.NewPtrSyncGroupRequest(), version)
	sync.Group, sync.MemberID, sync.Generation = group, r.MemberID, r.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	return sync
}

func commitRequest(b *Broker, version int16, group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	r := versioned(kmsg.NewPtrOffsetCommitRequest(), version)
	r.Group, r.Generation = group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, kmsg.StringPtr("meta")
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: servedID(b, topic), Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return r
}

func commitCode(t testing.TB, b *Broker, r *kmsg.OffsetCommitRequest) int16 {
	t.Helper()
	return call[*kmsg.OffsetCommitResponse](t, b, testSession(), r).Topics[0].Partitions[0].ErrorCode
}

// fetchOffset is the answer for one partition in any version, or the group's error.
func fetchOffset(t testing.TB, b *Broker, version int16, group, topic string, partition int32) (offset int64, code int16) {
	t.Helper()
	r := versioned(kmsg.NewPtrOffsetFetchRequest(), version)
	if version < 8 {
		r.Group = group
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		got := call[*kmsg.OffsetFetchResponse](t, b, testSession(), r)
		if got.ErrorCode != 0 {
			return -1, got.ErrorCode
		}
		p := got.Topics[0].Partitions[0]
		return p.Offset, p.ErrorCode
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = group
	one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: servedID(b, topic), Partitions: []int32{partition}}}
	r.Groups = []kmsg.OffsetFetchRequestGroup{one}
	got := call[*kmsg.OffsetFetchResponse](t, b, testSession(), r)
	if got.Groups[0].ErrorCode != 0 {
		return -1, got.Groups[0].ErrorCode
	}
	p := got.Groups[0].Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

// Every version of every key, on a living group; call checks every byte.
func TestGroupKeysInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for version := int16(0); version <= 9; version++ {
		group := fmt.Sprint("join", version)
		me := joined(t, b, group, version)
		for heartbeat := int16(0); heartbeat <= 4; heartbeat++ {
			r := versioned(kmsg.NewPtrHeartbeatRequest(), heartbeat)
			r.Group, r.MemberID, r.Generation = group, me.MemberID, me.Generation
			if got := call[*kmsg.HeartbeatResponse](t, b, testSession(), r); got.ErrorCode != 0 {
				t.Errorf("heartbeat v%d: %d", heartbeat, got.ErrorCode)
			}
		}
		if leave := version; leave <= 5 {
			r := versioned(kmsg.NewPtrLeaveGroupRequest(), leave)
			r.Group, r.MemberID = group, me.MemberID
			r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: me.MemberID}}
			if got := call[*kmsg.LeaveGroupResponse](t, b, testSession(), r); got.ErrorCode != 0 {
				t.Errorf("leave v%d: %+v", leave, got)
			}
			if got := call[*kmsg.LeaveGroupResponse](t, b, testSession(), r); leave < 3 && got.ErrorCode != kerr.UnknownMemberID.Code ||
				leave >= 3 && (got.ErrorCode != 0 || got.Members[0].ErrorCode != kerr.UnknownMemberID.Code) {
				t.Errorf("leave v%d again: %+v", leave, got)
			}
		}
	}
	for version := int16(2); version <= 10; version++ {
		if code := commitCode(t, b, commitRequest(b, version, "offsets", "t", 1, int64(version))); code != 0 {
			t.Errorf("commit v%d: %d", version, code)
		}
		for fetch := int16(1); fetch <= 10; fetch++ {
			if offset, code := fetchOffset(t, b, fetch, "offsets", "t", 1); offset != int64(version) || code != 0 {
				t.Errorf("fetch v%d after commit v%d: offset %d, code %d", fetch, version, offset, code)
			}
		}
	}
	me := joined(t, b, "described", 9)
	for version := int16(0); version <= 6; version++ {
		r := versioned(kmsg.NewPtrDescribeGroupsRequest(), version)
		r.Groups, r.IncludeAuthorizedOperations = []string{"described", "nobody", "offsets"}, true
		got := call[*kmsg.DescribeGroupsResponse](t, b, testSession(), r).Groups
		if got[0].State != "Stable" || got[0].Members[0].MemberID != me.MemberID || got[0].Members[0].ClientHost != "/192.0.2.7" ||
			string(got[0].Members[0].MemberAssignment) != "plan" {
			t.Errorf("describe v%d: %+v", version, got[0])
		}
		if want := int32(3400); version >= 3 && got[0].AuthorizedOperations != want {
			t.Errorf("describe v%d: authorised operations %d, want %d", version, got[0].AuthorizedOperations, want)
		}
		if unknown := got[1]; unknown.State != "Dead" || (unknown.ErrorCode == kerr.GroupIDNotFound.Code) != (version >= 6) {
			t.Errorf("describe v%d of an unknown group: %+v", version, unknown)
		}
		if got[2].State != "Empty" {
			t.Errorf("describe v%d of a group of offsets: %+v", version, got[2])
		}
	}
	for version := int16(0); version <= 5; version++ {
		r := versioned(kmsg.NewPtrListGroupsRequest(), version)
		r.StatesFilter, r.TypesFilter = []string{"sTaBlE"}, []string{"classic"}
		got := call[*kmsg.ListGroupsResponse](t, b, testSession(), r)
		if stable := len(got.Groups); got.ErrorCode != 0 || version >= 4 && stable != 5 || version < 4 && stable <= 5 {
			t.Errorf("list v%d: %+v", version, got)
		}
	}
	for version := int16(0); version <= 3; version++ {
		if code := commitCode(t, b, commitRequest(b, 5, "goes", "t", 0, 1)); code != 0 {
			t.Fatal(code)
		}
		r := versioned(kmsg.NewPtrDeleteGroupsRequest(), version)
		r.Groups = []string{"goes", "described", "nobody", "goes"}
		got := call[*kmsg.DeleteGroupsResponse](t, b, testSession(), r).Groups
		if len(got) != 3 || got[0].ErrorCode != 0 || got[1].ErrorCode != kerr.NonEmptyGroup.Code || got[2].ErrorCode != kerr.GroupIDNotFound.Code {
			t.Errorf("delete v%d: %+v", version, got)
		}
	}
}

func TestOffsetsOfUnknownTopics(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	request := commitRequest(b, 8, "g", "t", 0, 5)
	request.Topics = append(request.Topics, commitRequest(b, 8, "g", "nowhere", 0, 1).Topics[0], commitRequest(b, 8, "g", "t", 7, 1).Topics[0])
	got := call[*kmsg.OffsetCommitResponse](t, b, testSession(), request).Topics
	unknown := kerr.UnknownTopicOrPartition.Code
	if got[0].Partitions[0].ErrorCode != 0 || got[1].Partitions[0].ErrorCode != unknown || got[2].Partitions[0].ErrorCode != unknown {
		t.Errorf("commit to known and unknown topics: %+v", got)
	}
	if code := commitCode(t, b, commitRequest(b, 10, "g", "nowhere", 0, 5)); code != kerr.UnknownTopicID.Code {
		t.Errorf("commit by an unknown id: %d", code)
	}
	if offset, code := fetchOffset(t, b, 9, "g", "nowhere", 3); offset != -1 || code != 0 {
		t.Errorf("fetch of an unknown topic: offset %d, code %d", offset, code)
	}
	if offset, code := fetchOffset(t, b, 10, "g", "nowhere", 3); offset != -1 || code != kerr.UnknownTopicID.Code {
		t.Errorf("fetch by an unknown id: offset %d, code %d", offset, code)
	}
	if offset, _ := fetchOffset(t, b, 8, "g", "t", 0); offset != 5 {
		t.Errorf("the known partition has offset %d", offset)
	}
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group = "g"
	for _, topic := range []string{"t", "nowhere"} {
		del.Topics = append(del.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	deleted := call[*kmsg.OffsetDeleteResponse](t, b, testSession(), del)
	if deleted.ErrorCode != 0 || deleted.Topics[0].Partitions[0].ErrorCode != 0 || deleted.Topics[1].Partitions[0].ErrorCode != unknown {
		t.Errorf("offset delete: %+v", deleted)
	}
	if offset, _ := fetchOffset(t, b, 8, "g", "t", 0); offset != -1 {
		t.Errorf("the deleted offset is %d", offset)
	}
	del.Group = ""
	if nameless := call[*kmsg.OffsetDeleteResponse](t, b, testSession(), del); nameless.ErrorCode != kerr.InvalidGroupID.Code || len(nameless.Topics) != 0 {
		t.Errorf("offset delete without a group: %+v", nameless)
	}
}

// A topic of which the request names no partition is in the answer only if something is
// wrong with it, as in Kafka 4.4.
func TestTopicsWithoutPartitions(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for _, version := range []int16{2, 9, 10} {
		request := commitRequest(b, version, "g", "t", 0, 5)
		bare, unknown := request.Topics[0], commitRequest(b, version, "g", "nowhere", 0, 1).Topics[0]
		bare.Partitions, unknown.Partitions = nil, nil
		request.Topics = append([]kmsg.OffsetCommitRequestTopic{bare, unknown}, request.Topics...)
		got := call[*kmsg.OffsetCommitResponse](t, b, testSession(), request).Topics
		if len(got) != 2 || got[0].Topic != unknown.Topic && version < 10 || got[0].TopicID != unknown.TopicID && version >= 10 || len(got[0].Partitions) != 0 || len(got[1].Partitions) != 1 {
			t.Errorf("OffsetCommit v%d: %+v", version, got)
		}
	}
	txn := kmsg.NewPtrTxnOffsetCommitRequest()
	txn.Version, txn.TransactionalID, txn.Group = 3, "id", "g"
	txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t"}, {Topic: "nowhere"}}
	if got := call[*kmsg.TxnOffsetCommitResponse](t, b, testSession(), txn).Topics; len(got) != 1 || got[0].Topic != "nowhere" {
		t.Errorf("TxnOffsetCommit: %+v", got)
	}
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group, del.Topics = "g", []kmsg.OffsetDeleteRequestTopic{{Topic: "t"}, {Topic: "nowhere"}}
	if got := call[*kmsg.OffsetDeleteResponse](t, b, testSession(), del); got.ErrorCode != 0 || len(got.Topics) != 1 || got.Topics[0].Topic != "nowhere" {
		t.Errorf("OffsetDelete: %+v", got)
	}
}

// told counts what it denies.
type told struct {
	deny
	denials []auth.Denial
}

func (a *told) Denied(d auth.Denial) { a.denials = append(a.denials, d) }

// A topic that is denied is one question, and is told once, however many of its partitions a request names.
func TestDeniedTopicIsAskedForOnce(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	if code := commitCode(t, b, commitRequest(b, 8, "g", "t", 0, 5)); code != 0 { // the group is there
		t.Fatal(code)
	}
	a := &told{deny: deny{"READ TOPIC t": true}}
	b.Authorizer = a
	commit := commitRequest(b, 8, "g", "t", 0, 5)
	commit.Topics[0].Partitions = append(commit.Topics[0].Partitions, commit.Topics[0].Partitions[0])
	txn := kmsg.NewPtrTxnOffsetCommitRequest()
	txn.Version, txn.TransactionalID, txn.Group = 3, "id", "g"
	txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: make([]kmsg.TxnOffsetCommitRequestTopicPartition, 2)}}
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group, del.Topics = "g", []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 2)}}
	fetch := versioned(kmsg.NewPtrFetchRequest(), 11)
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "t"}}
	for i := range int32(3) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = i, 1000
		fetch.Topics[0].Partitions = append(fetch.Topics[0].Partitions, p)
	}
	for _, request := range []kmsg.Request{commit, txn, del, fetch} {
		a.denials = nil
		var codes []int16
		switch got := call[kmsg.Response](t, b, &testConnection().Session, request).(type) {
		case *kmsg.OffsetCommitResponse:
			for _, p := range got.Topics[0].Partitions {
				codes = append(codes, p.ErrorCode)
			}
		case *kmsg.TxnOffsetCommitResponse:
			for _, p := range got.Topics[0].Partitions {
				codes = append(codes, p.ErrorCode)
			}
		case *kmsg.OffsetDeleteResponse:
			for _, p := range got.Topics[0].Partitions {
				codes = append(codes, p.ErrorCode)
			}
		case *kmsg.FetchResponse:
			for _, p := range got.Topics[0].Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		name := kmsg.NameForKey(request.Key())
		if len(codes) < 2 || slices.ContainsFunc(codes, func(code int16) bool { return code != kerr.TopicAuthorizationFailed.Code }) {
			t.Errorf("%s: %v", name, codes)
		}
		if len(a.denials) != 1 {
			t.Errorf("%s: told %d times", name, len(a.denials))
		}
	}
}

// Null topics ask for everything; many groups in one request; order is kept.
func TestOffsetFetchOfAll(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for i := range int32(2) {
		for _, group := range []string{"a", "b"} {
			if code := commitCode(t, b, commitRequest(b, 8, group, "t", i, int64(10+i))); code != 0 {
				t.Fatal(code)
			}
		}
	}
	for version := int16(2); version <= 10; version++ {
		r := versioned(kmsg.NewPtrOffsetFetchRequest(), version)
		r.Group, r.Topics = "a", nil
		for _, group := range []string{"b", "nobody", "a"} {
			one := kmsg.NewOffsetFetchRequestGroup()
			one.Group = group
			r.Groups = append(r.Groups, one)
		}
		got := call[*kmsg.OffsetFetchResponse](t, b, testSession(), r)
		if version < 8 {
			if got.ErrorCode != 0 || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 2 || *got.Topics[0].Partitions[1].Metadata != "meta" {
				t.Errorf("v%d: %+v", version, got)
			}
			continue
		}
		for i, want := range []struct {
			group  string
			topics int
		}{{"b", 1}, {"nobody", 0}, {"a", 1}} {
			if g := got.Groups[i]; g.Group != want.group || g.ErrorCode != 0 || len(g.Topics) != want.topics {
				t.Errorf("v%d group %d: %+v", version, i, g)
			}
		}
		if id := got.Groups[0].Topics[0].TopicID; version >= 10 && id != servedID(b, "t") {
			t.Errorf("v%d: topic id %x", version, id)
		}
	}
}

func TestDeletedTopicTakesItsOffsets(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for i := range 20 { // in all shards
		if code := commitCode(t, b, commitRequest(b, 8, fmt.Sprint("g", i), "t", 0, 5)); code != 0 {
			t.Fatal(code)
		}
	}
	for _, hook := range b.hooks.topicRemoved {
		hook("t", servedID(b, "t"))
	}
	eventually(t, "the groups have gone with their only offsets", func() bool {
		return len(call[*kmsg.ListGroupsResponse](t, b, testSession(), kmsg.NewPtrListGroupsRequest()).Groups) == 0
	})
}

// Before the offsets topic exists nobody coordinates.
func TestGroupsWithoutOffsetsTopic(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	not := kerr.NotCoordinator.Code
	if r := call[*kmsg.JoinGroupResponse](t, b, testSession(), joinRequest(5, "g", "")); r.ErrorCode != not {
		t.Errorf("join: %d", r.ErrorCode)
	}
	if code := commitCode(t, b, commitRequest(b, 8, "g", "t", 0, 1)); code != not {
		t.Errorf("commit: %d", code)
	}
	for version := int16(1); version <= 10; version++ {
		if _, code := fetchOffset(t, b, version, "g", "t", 0); code != not {
			t.Errorf("fetch v%d: %d", version, code)
		}
	}
	if r := call[*kmsg.ListGroupsResponse](t, b, testSession(), kmsg.NewPtrListGroupsRequest()); r.ErrorCode != 0 || len(r.Groups) != 0 {
		t.Errorf("list: %+v", r)
	}
}

// Every handler asks for what Kafka asks.
func TestGroupAuthorization(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	if code := commitCode(t, b, commitRequest(b, 8, "g", "t", 0, 5)); code != 0 {
		t.Fatal(code)
	}
	group, topic := kerr.GroupAuthorizationFailed.Code, kerr.TopicAuthorizationFailed.Code
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group = "g"
	del.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g"}
	deleteGroups := kmsg.NewPtrDeleteGroupsRequest()
	deleteGroups.Groups = []string{"g"}
	leave := versioned(kmsg.NewPtrLeaveGroupRequest(), 4)
	heartbeat, sync := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrSyncGroupRequest()
	leave.Group, heartbeat.Group, sync.Group = "g", "g", "g"
	for _, tc := range []struct {
		denied string
		want   int16
		ask    func() int16
	}{
		{"READ GROUP g", group, func() int16 { return commitCode(t, b, commitRequest(b, 8, "g", "t", 0, 5)) }},
		{"READ TOPIC t", topic, func() int16 { return commitCode(t, b, commitRequest(b, 8, "g", "t", 0, 5)) }},
		{"READ TOPIC t", topic, func() int16 { return commitCode(t, b, commitRequest(b, 10, "g", "t", 0, 5)) }},
		{"DESCRIBE GROUP g", group, func() int16 { _, code := fetchOffset(t, b, 1, "g", "t", 0); return code }},
		{"DESCRIBE GROUP g", group, func() int16 { _, code := fetchOffset(t, b, 9, "g", "t", 0); return code }},
		{"DESCRIBE TOPIC t", topic, func() int16 { _, code := fetchOffset(t, b, 5, "g", "t", 0); return code }},
		{"DESCRIBE TOPIC t", topic, func() int16 { _, code := fetchOffset(t, b, 10, "g", "t", 0); return code }},
		{"READ GROUP g", group, func() int16 {
			return call[*kmsg.JoinGroupResponse](t, b, testSession(), joinRequest(5, "g", "")).ErrorCode
		}},
		{"READ GROUP g", group, func() int16 { return call[*kmsg.HeartbeatResponse](t, b, testSession(), heartbeat).ErrorCode }},
		{"READ GROUP g", group, func() int16 { return call[*kmsg.SyncGroupResponse](t, b, testSession(), sync).ErrorCode }},
		{"READ GROUP g", group, func() int16 { return call[*kmsg.LeaveGroupResponse](t, b, testSession(), leave).ErrorCode }},
		{"DESCRIBE GROUP g", group, func() int16 {
			return call[*kmsg.DescribeGroupsResponse](t, b, testSession(), describe).Groups[0].ErrorCode
		}},
		{"DELETE GROUP g", group, func() int16 {
			return call[*kmsg.DeleteGroupsResponse](t, b, testSession(), deleteGroups).Groups[0].ErrorCode
		}},
		{"DELETE GROUP g", group, func() int16 { return call[*kmsg.OffsetDeleteResponse](t, b, testSession(), del).ErrorCode }},
		{"READ TOPIC t", topic, func() int16 {
			return call[*kmsg.OffsetDeleteResponse](t, b, testSession(), del).Topics[0].Partitions[0].ErrorCode
		}},
	} {
		b.Authorizer = deny{tc.denied: true} // no request is under way between two of them
		if got := tc.ask(); got != tc.want {
			t.Errorf("%s denied: code %d, want %d", tc.denied, got, tc.want)
		}
	}
	list := func(denied deny) int {
		b.Authorizer = denied
		return len(call[*kmsg.ListGroupsResponse](t, b, testSession(), kmsg.NewPtrListGroupsRequest()).Groups)
	}
	if list(deny{"DESCRIBE GROUP g": true}) != 1 || list(deny{"DESCRIBE CLUSTER kafka-cluster": true}) != 1 ||
		list(deny{"DESCRIBE GROUP g": true, "DESCRIBE CLUSTER kafka-cluster": true}) != 0 {
		t.Error("ListGroups needs DESCRIBE on the cluster, or on the group")
	}
	all := versioned(kmsg.NewPtrOffsetFetchRequest(), 7)
	all.Group, all.Topics = "g", nil
	b.Authorizer = deny{"DESCRIBE TOPIC t": true}
	if got := call[*kmsg.OffsetFetchResponse](t, b, testSession(), all); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("all offsets show a topic that may not be seen: %+v", got)
	}
}

// A body that ends early closes its connection, whatever the key and version; a
// broker at its bound answers what clients retry.
func TestGroupKeysOnBadAndTooMuchInput(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for _, api := range b.coordinators.APIs() {
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			request := kmsg.RequestForKey(api.Key)
			request.SetVersion(version)
			wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1)[4:]
			if body := len(request.AppendTo(nil)); body > 1 {
				if _, err := exchange(t, b, testSession(), wire[:len(wire)-1]); err == nil {
					t.Errorf("%s v%d: a byte too few is taken", api.Name, version)
				}
			}
			frame := bufpool.Get(len(wire))
			copy(frame.B, wire)
			header, body, err := codec.ParseHeader(frame.B)
			if err != nil {
				t.Fatal(err)
			}
			sink := newReplySink()
			api.Refuse(codec.NewRequest(&api, header, body, frame, testSession(), sink, time.Time{}, b), kerr.ThrottlingQuotaExceeded.Code, 100)
			<-sink.ended
			if sink.closed != nil {
				t.Fatalf("%s v%d: refused with %v", api.Name, version, sink.closed)
			}
			refused := parseReply[kmsg.Response](t, request, sink.reply[4:], 1)
			if throttled, ok := refused.(kmsg.ThrottleResponse); ok && version >= 4 {
				if ms, _ := throttled.Throttle(); ms != 100 {
					t.Errorf("%s v%d: throttled for %d ms", api.Name, version, ms)
				}
			}
		}
	}
}
