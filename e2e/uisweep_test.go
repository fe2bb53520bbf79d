//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestUserInterfaceTraffic asks for what the pages of a web interface show, with
// franz-go's admin client: an overview again and again, in between what its buttons do.
func TestUserInterfaceTraffic(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	u := &uiPages{b: b, admin: kadm.NewClient(b.client(t, kgo.MetadataMinAge(10*time.Millisecond)))}
	u.overview(t, nil, nil)
	u.createTopic(t)
	u.overview(t, map[string]int64{"orders": 0}, nil)
	u.messages(t)
	u.overview(t, map[string]int64{"orders": 90}, map[string]int64{"clerks": 60})
	u.topicSettings(t)
	u.groupPage(t)
	u.overview(t, map[string]int64{"orders": 90}, map[string]int64{"clerks": 90})
	u.clear(t)
	u.overview(t, nil, nil)
}

type uiPages struct {
	b     *broker
	admin *kadm.Client
}

// overview is what the pages of brokers, topics and consumers load: sizes, counts and
// lags of everything there is.
func (u *uiPages) overview(t *testing.T, records, lags map[string]int64) {
	t.Helper()
	ctx := testContext(t)
	versions, err := u.admin.ApiVersions(ctx)
	must(t, err)
	if one := versions[1]; len(versions) != 1 || one.Err != nil {
		t.Errorf("%+v", versions)
	}
	metadata, err := u.admin.Metadata(ctx)
	must(t, err)
	if len(metadata.Brokers) != 1 || metadata.Controller != 1 || metadata.Cluster == "" {
		t.Errorf("%+v", metadata)
	}
	var topics kadm.TopicDetails
	eventually(t, 10*time.Second, func() error { // the client keeps metadata for a moment
		if topics, err = u.admin.ListTopics(ctx); err == nil && len(topics) != len(records) {
			err = fmt.Errorf("topics %v, wanted %v", topics.Names(), records)
		}
		return err
	})
	configs, err := u.admin.DescribeTopicConfigs(ctx, topics.Names()...)
	must(t, err)
	for _, resource := range configs {
		must(t, resource.Err)
		if len(resource.Configs) < 20 {
			t.Errorf("%s has %d configs", resource.Name, len(resource.Configs))
		}
	}
	brokerConfigs, err := u.admin.DescribeBrokerConfigs(ctx, 1)
	must(t, err)
	if _, err := brokerConfigs.On("1", nil); err != nil {
		t.Error(err)
	}
	directories, err := u.admin.DescribeAllLogDirs(ctx, nil)
	must(t, err)
	must(t, directories[1].Error())
	for topic, wanted := range records {
		starts, err := u.admin.ListStartOffsets(ctx, topic)
		must(t, err)
		ends, err := u.admin.ListEndOffsets(ctx, topic)
		must(t, err)
		var total int64
		ends.Each(func(end kadm.ListedOffset) {
			start, _ := starts.Lookup(end.Topic, end.Partition)
			total += end.Offset - start.Offset
			if _, found := directories[1].LookupPartition(topic, end.Partition); !found {
				t.Errorf("partition %d of %s lies in no directory of %v", end.Partition, topic, directories)
			}
		})
		if total != wanted {
			t.Errorf("%s holds %d records, not %d", topic, total, wanted)
		}
	}
	listed, err := u.admin.ListGroups(ctx)
	must(t, err)
	found, err := u.admin.Lag(ctx, listed.Groups()...)
	must(t, err)
	must(t, found.Error())
	if len(found) != len(lags) {
		t.Errorf("groups %v, wanted %v", listed.Groups(), lags)
	}
	for group, wanted := range lags {
		if got := found[group].Lag.Total(); got != wanted || found[group].State != "Empty" {
			t.Errorf("%s lags by %d in %s, not by %d", group, got, found[group].State, wanted)
		}
	}
	_, err = u.admin.DescribeClientQuotas(ctx, false, nil)
	must(t, err)
	_, err = u.admin.DescribeUserSCRAMs(ctx)
	must(t, err)
	transactions, err := u.admin.ListTransactions(ctx, nil, nil)
	must(t, err)
	if len(transactions) != 0 {
		t.Errorf("%+v", transactions)
	}
}

func (u *uiPages) createTopic(t *testing.T) {
	t.Helper()
	validated, err := u.admin.ValidateCreateTopics(testContext(t), 3, 1, nil, "orders")
	must(t, err)
	must(t, validated.Error())
	made, err := u.admin.CreateTopic(testContext(t), 3, 1, map[string]*string{"retention.ms": ptr("3600000")}, "orders")
	must(t, err)
	must(t, made.Err)
	if made.NumPartitions != 3 || made.ReplicationFactor != 1 || *made.Configs["retention.ms"].Value != "3600000" {
		t.Errorf("%+v", made)
	}
}

// messages is the page that shows records: some are produced, searched by time, and read.
func (u *uiPages) messages(t *testing.T) {
	t.Helper()
	client := u.b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 90 {
		client.Produce(testContext(t), &kgo.Record{Topic: "orders", Partition: int32(i % 3), Value: fmt.Append(nil, i), Timestamp: begin.Add(time.Duration(i/3) * time.Minute)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	must(t, client.Flush(testContext(t)))
	after, err := u.admin.ListOffsetsAfterMilli(testContext(t), begin.Add(10*time.Minute).UnixMilli(), "orders")
	must(t, err)
	for partition := range int32(3) {
		if at, _ := after.Lookup("orders", partition); at.Offset != 10 || at.Err != nil {
			t.Errorf("%+v", at)
		}
	}
	reader := u.b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {2: kgo.NewOffset().At(29)}}))
	records := reader.PollFetches(testContext(t)).Records()
	if len(records) != 1 || string(records[0].Value) != "89" {
		t.Errorf("%v", records)
	}
	offsets := kadm.Offsets{}
	for partition := range int32(3) {
		offsets.AddOffset("orders", partition, 10, -1)
	}
	must(t, u.admin.CommitAllOffsets(testContext(t), "clerks", offsets))
}

func (u *uiPages) topicSettings(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	altered, err := u.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Op: kadm.AppendConfig, Value: ptr("compact")}, {Name: "retention.ms", Op: kadm.DeleteConfig}}, "orders")
	must(t, err)
	_, err = altered.On("orders", nil)
	must(t, err)
	described, err := u.admin.DescribeTopicConfigs(ctx, "orders")
	must(t, err)
	values := map[string]string{}
	for _, c := range described[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	if values["cleanup.policy"] != "delete,compact" || values["retention.ms"] != "604800000" {
		t.Errorf("%v", values)
	}
	grown, err := u.admin.UpdatePartitions(ctx, 4, "orders")
	must(t, err)
	must(t, grown.Error())
	reassigned, err := u.admin.ListPartitionReassignments(ctx, nil)
	must(t, err)
	if len(reassigned) != 0 {
		t.Errorf("%v", reassigned)
	}
}

// groupPage resets offsets, which is a commit, and shows the group.
func (u *uiPages) groupPage(t *testing.T) {
	t.Helper()
	offsets := kadm.Offsets{}
	for partition := range int32(4) {
		offsets.AddOffset("orders", partition, 0, -1)
	}
	must(t, u.admin.CommitAllOffsets(testContext(t), "clerks", offsets))
	groups, err := u.admin.DescribeGroups(testContext(t), "clerks")
	must(t, err)
	if g := groups["clerks"]; g.Err != nil || g.State != "Empty" || len(g.Members) != 0 || g.Coordinator.NodeID != 1 {
		t.Errorf("%+v", g)
	}
}

// clear deletes the records, the group and the topic.
func (u *uiPages) clear(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	offsets := kadm.Offsets{}
	offsets.AddOffset("orders", 0, -1, -1)
	deleted, err := u.admin.DeleteRecords(ctx, offsets)
	must(t, err)
	if at, _ := deleted.Lookup("orders", 0); at.Err != nil || at.LowWatermark != 30 {
		t.Errorf("%+v", at)
	}
	group, err := u.admin.DeleteGroup(ctx, "clerks")
	must(t, err)
	must(t, group.Err)
	topic, err := u.admin.DeleteTopic(ctx, "orders")
	must(t, err)
	must(t, topic.Err)
}
