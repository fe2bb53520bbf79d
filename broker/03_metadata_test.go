package broker

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/meta"
)

// TestMetadataGolden pins one reply in each layout: v0 (no controller), v1, v8
// (the last that is not flexible), v9 (flexible), v13.
func TestMetadataGolden(t *testing.T) {
	t.Parallel()
	const (
		correlation = "000004d2"
		broker      = "00000001" + "00000001" + "0009" + "3139322e302e322e31" + "00002384"
		brokerV9    = "02" + "00000001" + "0a" + "3139322e302e322e31" + "00002384" + "00" + "00"
		cluster     = "0009" + "636c75737465722d30"
		clusterV9   = "0a" + "636c75737465722d30"
		controller  = "00000001"
		partition   = "0000" + "00000000" + "00000001"
		epoch       = "00000000"
		replicas    = "00000001" + "00000001" + "00000001" + "00000001"
		replicasV9  = "02" + "00000001" + "02" + "00000001" + "01"
		omitted     = "80000000"
		id          = "07000000000000000000000000000000"
	)
	for version, want := range map[int16]string{
		0:  correlation + broker + "00000001" + "0000" + "000174" + "00000001" + partition + replicas,
		1:  correlation + broker + "ffff" + controller + "00000001" + "0000" + "000174" + "00" + "00000001" + partition + replicas,
		8:  correlation + "00000000" + broker + "ffff" + cluster + controller + "00000001" + "0000" + "000174" + "00" + "00000001" + partition + epoch + replicas + "00000000" + omitted + omitted,
		9:  correlation + "00" + "00000000" + brokerV9 + clusterV9 + controller + "02" + "0000" + "0274" + "00" + "02" + partition + epoch + replicasV9 + "00" + omitted + "00" + omitted + "00",
		13: correlation + "00" + "00000000" + brokerV9 + clusterV9 + controller + "02" + "0000" + "0274" + id + "00" + "02" + partition + epoch + replicasV9 + "00" + omitted + "00" + "0000" + "00",
	} {
		b := newImageBroker(t, topicOf("t", 7, 1))
		raw, err := exchange(t, b, testSession(), encode(metadataRequest(version, "t")))
		if err != nil {
			t.Errorf("v%d: %v", version, err)
		} else if got := hex.EncodeToString(raw); got != want {
			t.Errorf("v%d:\n got %s\nwant %s", version, got, want)
		}
	}
}

func encode(request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1234)[4:]
}

func metadataRequest(version int16, names ...string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.Version = version
	request.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	return request
}

func metadataSummary(response *kmsg.MetadataResponse) []string {
	var summary []string
	for i := range response.Topics {
		topic := &response.Topics[i]
		name := "null"
		if topic.Topic != nil {
			name = *topic.Topic
		}
		summary = append(summary, fmt.Sprintf("%s %d %d", name, topic.ErrorCode, len(topic.Partitions)))
	}
	return summary
}

func TestMetadataWhichTopics(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf("a", 1, 2), topicOf("b", 2, 1), topicOf(meta.ConsumerOffsetsTopic, 3, 50))
	all := []string{"__consumer_offsets 0 50", "a 0 2", "b 0 1"}
	null := func(version int16) *kmsg.MetadataRequest {
		request := metadataRequest(version)
		request.Topics = nil
		return request
	}
	for version := int16(0); version <= 13; version++ {
		empty := metadataSummary(call[*kmsg.MetadataResponse](t, b, testSession(), metadataRequest(version)))
		if want := map[bool][]string{true: all, false: nil}[version == 0]; !slices.Equal(empty, want) {
			t.Errorf("v%d, empty list: %q", version, empty)
		}
		if version > 0 {
			if got := metadataSummary(call[*kmsg.MetadataResponse](t, b, testSession(), null(version))); !slices.Equal(got, all) {
				t.Errorf("v%d, null: %q", version, got)
			}
		}
		request := metadataRequest(version, "b", "missing", "in valid", "", "b", "__transaction_state")
		if version < 4 {
			b.Config.AutoCreateTopicsEnable = false // there is no flag in the request
		}
		response := call[*kmsg.MetadataResponse](t, b, testSession(), request)
		if got, want := metadataSummary(response), []string{"b 0 1", "missing 3 0", "in valid 17 0", " 17 0", "__transaction_state 3 0"}; !slices.Equal(got, want) {
			t.Errorf("v%d: %q, want %q", version, got, want)
		}
		if version >= 1 && !response.Topics[4].IsInternal {
			t.Errorf("v%d: __transaction_state is not internal", version)
		}
		b.Config.AutoCreateTopicsEnable = true
	}
}

func TestMetadataByID(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf("a", 1, 2), topicOf("hidden", 2, 1))
	b.Authorizer = deny{"DESCRIBE TOPIC hidden": true}
	byID := func(version int16, ids ...byte) *kmsg.MetadataRequest {
		request := metadataRequest(version)
		for _, id := range ids {
			topic := kmsg.NewMetadataRequestTopic()
			topic.TopicID = [16]byte{id}
			request.Topics = append(request.Topics, topic)
		}
		return request
	}
	for _, version := range []int16{12, 13} {
		request := byID(version, 1, 9, 2, 1)
		name := "a"
		request.Topics = append(request.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		response := call[*kmsg.MetadataResponse](t, b, testSession(), request)
		if got, want := metadataSummary(response), []string{"a 0 2", "null 100 0", "null 100 0"}; !slices.Equal(got, want) {
			t.Errorf("v%d: %q, want %q", version, got, want)
		}
		if response.Topics[1].TopicID != [16]byte{9} || response.Topics[2].TopicID != [16]byte{2} {
			t.Errorf("v%d: ids %v", version, response.Topics)
		}
	}
	// Before v12 an id, or a null name, is an invalid request, answered as Kafka does:
	// no brokers, every topic with the error.
	for _, version := range []int16{10, 11} {
		request := byID(version, 1)
		if version == 10 {
			name := "a"
			request.Topics[0].Topic = &name
		}
		response := call[*kmsg.MetadataResponse](t, b, testSession(), request)
		if len(response.Brokers) != 0 || response.ControllerID != -1 || response.ClusterID != nil || len(response.Topics) != 1 || response.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("v%d: %+v", version, response)
		}
	}
	request := byID(13, 0)
	if response := call[*kmsg.MetadataResponse](t, b, testSession(), request); response.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("neither name nor id: %+v", response)
	}
}

func TestMetadataListenerOfTheClient(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	inside, outside := meta.BrokerInfo{ID: 2, Endpoints: map[string]meta.Endpoint{"PLAINTEXT": {Host: "two", Port: 1}}}, meta.BrokerInfo{ID: 3, Rack: "r3", Endpoints: map[string]meta.Endpoint{"OUTSIDE": {Host: "three", Port: 2}}}
	image := b.Images.Load()
	b.Images.Store(image.WithBrokers(append(slices.Clone(image.Brokers), inside, outside), 2))
	session := testSession()
	for _, c := range []struct{ listener, want string }{
		{"PLAINTEXT", "[1 192.0.2.1:9092 2 two:1]"},
		{"OUTSIDE", "[1 broker.example:30092 3 three:2]"},
		{"UNKNOWN", "[1 192.0.2.1:9092]"},
	} {
		session.Listener = c.listener
		var got []string
		response := call[*kmsg.MetadataResponse](t, b, session, metadataRequest(9))
		for _, node := range response.Brokers {
			got = append(got, fmt.Sprintf("%d %s:%d", node.NodeID, node.Host, node.Port))
		}
		if fmt.Sprint(got) != c.want || response.ControllerID != 2 || *response.ClusterID != "cluster-0" {
			t.Errorf("%s: %v, want %s", c.listener, got, c.want)
		}
	}
}

func TestMetadataAuthorization(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf("open", 1, 1), topicOf("hidden", 2, 1))
	b.Authorizer = deny{
		"DESCRIBE TOPIC hidden": true, "DESCRIBE TOPIC hidden-missing": true, "ALTER TOPIC open": true,
		"CREATE CLUSTER kafka-cluster": true, "CREATE TOPIC no-create": true,
	}
	request := metadataRequest(8, "open", "hidden", "hidden-missing", "missing")
	request.IncludeTopicAuthorizedOperations, request.IncludeClusterAuthorizedOperations = true, true
	response := call[*kmsg.MetadataResponse](t, b, testSession(), request)
	if got, want := metadataSummary(response), []string{"open 0 1", "hidden 29 0", "hidden-missing 29 0", "missing 3 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if response.Topics[1].TopicID != meta.ZeroUUID {
		t.Error("the id of a hidden topic is told")
	}
	// 3576 and 8096 are what Kafka 4.4 answers without an authorizer.
	if got := response.Topics[0].AuthorizedOperations; got != 3576&^(1<<auth.OperationAlter) {
		t.Errorf("topic operations %d", got)
	}
	if hidden, missing := response.Topics[2].AuthorizedOperations, response.Topics[3].AuthorizedOperations; hidden != -2147483648 || missing != 3576 {
		t.Errorf("operations of a hidden topic %d, of a missing one %d", hidden, missing)
	}
	if got := response.AuthorizedOperations; got != 8096&^(1<<auth.OperationCreate) {
		t.Errorf("cluster operations %d", got)
	}
	request = metadataRequest(8, "no-create")
	request.AllowAutoTopicCreation = true
	if got := metadataSummary(call[*kmsg.MetadataResponse](t, b, testSession(), request)); !slices.Equal(got, []string{"no-create 29 0"}) {
		t.Errorf("%q", got)
	}
	all := metadataRequest(8)
	all.Topics = nil
	if got := metadataSummary(call[*kmsg.MetadataResponse](t, b, testSession(), all)); !slices.Equal(got, []string{"open 0 1"}) {
		t.Errorf("all topics: %q", got)
	}
	b.Authorizer = deny{"DESCRIBE CLUSTER kafka-cluster": true}
	request = metadataRequest(10)
	request.IncludeClusterAuthorizedOperations = true
	if got := call[*kmsg.MetadataResponse](t, b, testSession(), request).AuthorizedOperations; got != 0 {
		t.Errorf("cluster operations without Describe: %d", got)
	}
}

// imageCreator makes topics in the image.
type imageCreator struct {
	broker *Broker
	err    error
	made   chan string
}

func (c *imageCreator) EnsureTopic(_ context.Context, name string, partitions int32, config map[string]string) error {
	c.made <- fmt.Sprintf("%s %d %v", name, partitions, config)
	if c.err == nil {
		if partitions == -1 {
			partitions = 1
		}
		c.broker.Images.Store(c.broker.Images.Load().WithTopics([]*meta.Topic{topicOf(name, 9, int(partitions))}, nil))
	}
	return c.err
}

func TestMetadataAutoCreation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version int16
		allow   bool // the flag of the request
		enabled bool
		pool    Pool
		err     error
		want    string
		made    string
	}{
		{"v0 has no flag", 0, false, true, goPool{}, nil, "new 0 1", "new -1 map[]"},
		{"v3 has no flag", 3, false, true, goPool{}, nil, "new 0 1", "new -1 map[]"},
		{"flag", 4, true, true, goPool{}, nil, "new 0 1", "new -1 map[]"},
		{"flag, latest", 13, true, true, goPool{}, nil, "new 0 1", "new -1 map[]"},
		{"without the flag", 9, false, true, goPool{}, nil, "new 3 0", ""},
		{"switched off", 9, true, false, goPool{}, nil, "new 3 0", ""},
		{"pool is full", 9, true, true, fullPool{}, nil, "new 3 0", ""},
		{"creation fails", 9, true, true, goPool{}, meta.ErrUnavailable, "new 3 0", "new -1 map[]"},
	} {
		b := newImageBroker(t)
		creator := &imageCreator{broker: b, err: c.err, made: make(chan string, 10)}
		b.TopicCreator, b.Pool, b.Config.AutoCreateTopicsEnable = creator, c.pool, c.enabled
		request := metadataRequest(c.version, "new", "new")
		request.AllowAutoTopicCreation = c.allow
		if got := metadataSummary(call[*kmsg.MetadataResponse](t, b, testSession(), request)); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		close(creator.made)
		if made := <-creator.made; made != c.made {
			t.Errorf("%s: made %q, want %q", c.name, made, c.made)
		}
	}
}

func TestMetadataPartitionWithoutLeader(t *testing.T) {
	t.Parallel()
	topic := topicOf("t", 1, 2)
	topic.Partitions[1] = meta.PartitionInfo{Leader: -1, LeaderEpoch: -1}
	b := newImageBroker(t, topic)
	response := call[*kmsg.MetadataResponse](t, b, testSession(), metadataRequest(9, "t"))
	p := response.Topics[0].Partitions
	if p[0].ErrorCode != 0 || p[0].Leader != 1 || p[1].ErrorCode != kerr.LeaderNotAvailable.Code || p[1].Leader != -1 || p[1].LeaderEpoch != -1 {
		t.Errorf("%+v", p)
	}
}
