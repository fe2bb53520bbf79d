package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta"
)

// consumerHeartbeat is a heartbeat of member m in g; at epoch 0 it joins and subscribes to t.
func consumerHeartbeat(version int16, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := versioned(kmsg.NewPtrConsumerGroupHeartbeatRequest(), version)
	r.Group, r.MemberID, r.MemberEpoch = "g", "m", epoch
	if epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 10_000, []string{"t"}
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return r
}

func consumerDescribe(version int16) *kmsg.ConsumerGroupDescribeRequest {
	r := versioned(kmsg.NewPtrConsumerGroupDescribeRequest(), version)
	r.Groups, r.IncludeAuthorizedOperations = []string{"g", "nobody"}, true
	return r
}

func TestConsumerGroupKeysInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for version := int16(0); version <= 1; version++ {
		got := call[*kmsg.ConsumerGroupHeartbeatResponse](t, b, testSession(), consumerHeartbeat(version, 0))
		if got.ErrorCode != 0 || *got.MemberID != "m" || got.MemberEpoch != 2 || got.HeartbeatIntervalMillis != 5000 || len(got.Assignment.Topics) != 1 ||
			got.Assignment.Topics[0].TopicID != servedID(b, "t") || len(got.Assignment.Topics[0].Partitions) != 2 {
			t.Errorf("v%d: %+v", version, got)
		}
		if got := call[*kmsg.ConsumerGroupHeartbeatResponse](t, b, testSession(), consumerHeartbeat(version, 2)); got.ErrorCode != 0 || got.Assignment != nil {
			t.Errorf("v%d: %+v", version, got)
		}
		groups := call[*kmsg.ConsumerGroupDescribeResponse](t, b, testSession(), consumerDescribe(version)).Groups
		if g := groups[0]; g.ErrorCode != 0 || g.State != "Stable" || g.Members[0].ClientHost != "/192.0.2.7" || g.Members[0].Assignment.TopicPartitions[0].Topic != "t" ||
			g.AuthorizedOperations != 3400 || (g.Members[0].MemberType == 1) != (version == 1) {
			t.Errorf("v%d: %+v", version, g)
		}
		if groups[1].ErrorCode != kerr.GroupIDNotFound.Code {
			t.Errorf("v%d: %+v", version, groups[1])
		}
	}
	anonymous := consumerHeartbeat(0, 0)
	anonymous.MemberID, anonymous.Group = "", "anonymous"
	if got := call[*kmsg.ConsumerGroupHeartbeatResponse](t, b, testSession(), anonymous); got.ErrorCode != 0 || *got.MemberID == "" {
		t.Errorf("v0 without a member id: %+v", got)
	}
}

// The configuration of a group counts from its next heartbeat on.
func TestConsumerGroupOfItsOwnConfig(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	for _, want := range []struct {
		own        meta.NamedConfigs
		intervalMs int32
	}{{nil, 5_000}, {meta.NamedConfigs{"g": {"consumer.heartbeat.interval.ms": "7000"}}, 7_000}, {meta.NamedConfigs{"other": {"consumer.heartbeat.interval.ms": "7000"}}, 5_000}} {
		b.Images.SetConfigs(meta.KindGroupConfig, want.own)
		if got := call[*kmsg.ConsumerGroupHeartbeatResponse](t, b, testSession(), consumerHeartbeat(1, 0)); got.ErrorCode != 0 || got.HeartbeatIntervalMillis != want.intervalMs {
			t.Errorf("with %v: %+v", want.own, got)
		}
	}
}

// Both keys ask for what Kafka asks; an expression matches only what may be described.
func TestConsumerGroupAuthorization(t *testing.T) {
	t.Parallel()
	b := newGroupBroker(t)
	heartbeat := func(r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
		return call[*kmsg.ConsumerGroupHeartbeatResponse](t, b, testSession(), r)
	}
	describe := func() int16 {
		return call[*kmsg.ConsumerGroupDescribeResponse](t, b, testSession(), consumerDescribe(1)).Groups[0].ErrorCode
	}
	if got := heartbeat(consumerHeartbeat(1, 0)); got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	group, topic := kerr.GroupAuthorizationFailed.Code, kerr.TopicAuthorizationFailed.Code
	for _, tc := range []struct {
		denied string
		want   int16
		ask    func() int16
	}{
		{"READ GROUP g", group, func() int16 { return heartbeat(consumerHeartbeat(1, 2)).ErrorCode }},
		{"DESCRIBE TOPIC t", topic, func() int16 { return heartbeat(consumerHeartbeat(1, 0)).ErrorCode }},
		{"DESCRIBE TOPIC t", 0, func() int16 { return heartbeat(consumerHeartbeat(1, 2)).ErrorCode }},
		{"DESCRIBE GROUP g", group, describe},
		{"DESCRIBE TOPIC t", topic, describe},
		{"DESCRIBE TOPIC u", 0, describe},
	} {
		b.Authorizer = deny{tc.denied: true} // no request is under way between two of them
		if got := tc.ask(); got != tc.want {
			t.Errorf("%s denied: code %d, want %d", tc.denied, got, tc.want)
		}
	}
	for _, denied := range []string{"DESCRIBE TOPIC t", "DESCRIBE TOPIC u"} {
		b.Authorizer = deny{denied: true}
		r := consumerHeartbeat(1, 0)
		r.Group, r.SubscribedTopicNames, r.SubscribedTopicRegex = denied, nil, kmsg.StringPtr("t|__.*")
		got := heartbeat(r)
		hasT := false
		for _, assigned := range got.Assignment.Topics {
			hasT = hasT || assigned.TopicID == servedID(b, "t")
		}
		if got.ErrorCode != 0 || hasT != (denied == "DESCRIBE TOPIC u") {
			t.Errorf("%s denied: %+v", denied, got)
		}
	}
}
