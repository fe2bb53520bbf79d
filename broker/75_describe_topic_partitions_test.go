package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDescribeTopicPartitions: the answers are Kafka 4.4's to the same requests.
func TestDescribeTopicPartitions(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf("exists", 1, 2), topicOf("nope2", 2, 1), topicOf("secret", 3, 1))
	b.Authorizer = deny{"DESCRIBE TOPIC secret": true}
	for _, c := range []struct {
		topics string
		limit  int32
		cursor string
		want   string
	}{
		{"exists nope", 2000, "", "exists:0[0 1] nope:3[]"},
		{"exists", 1, "", "exists:0[0] → exists/1"},
		{"exists", 2, "", "exists:0[0 1]"},
		{"nope2 exists", 2, "", "exists:0[0 1] → nope2/0"},
		{"nope2 exists zz", 2, "", "exists:0[0 1] → nope2/0"},
		{"", 2, "", "exists:0[0 1] → nope2/0"},
		{"", -5, "exists/1", "exists:0[1] → nope2/0"},
		{"", 2000, "f/3", "nope2:0[0]"},
		{"nope2", 5, "exists/1", "nope2:42[]"},
		{"exists", 5, "exists/-1", "exists:42[]"},
		{"exists", 5, "exists/7", "exists:0[]"},
		{"exists exists", 5, "", "exists:0[0 1]"},
		{"in~valid", 5, "", "in~valid:17[]"},
		{"__transaction_state", 1, "", "internal __transaction_state:3[]"},
		{"__transaction_state", 1, "exists/0", "__transaction_state:42[]"},
		{"secret exists", 1, "", "exists:0[0] secret:29[] → exists/1"},
		{"", 2000, "", "exists:0[0 1] nope2:0[0]"},
	} {
		request := kmsg.NewPtrDescribeTopicPartitionsRequest()
		request.ResponsePartitionLimit = c.limit
		for _, name := range strings.Fields(c.topics) {
			topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
			topic.Topic = name
			request.Topics = append(request.Topics, topic)
		}
		if c.cursor != "" {
			cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
			if _, err := fmt.Sscanf(strings.Replace(c.cursor, "/", " ", 1), "%s %d", &cursor.Topic, &cursor.Partition); err != nil {
				t.Fatal(err)
			}
			request.Cursor = &cursor
		}
		response := call[*kmsg.DescribeTopicPartitionsResponse](t, b, testSession(), request)
		var got []string
		for i := range response.Topics {
			topic := &response.Topics[i]
			var partitions []int32
			for _, p := range topic.Partitions {
				if p.LeaderID != 1 || len(p.Replicas) != 1 || len(p.ISR) != 1 || p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
					t.Errorf("%+v: %+v", c, p)
				}
				partitions = append(partitions, p.Partition)
			}
			internal := ""
			if topic.IsInternal {
				internal = "internal "
			}
			got = append(got, fmt.Sprintf("%s%s:%d%v", internal, *topic.Topic, topic.ErrorCode, partitions))
		}
		if response.NextCursor != nil {
			got = append(got, fmt.Sprintf("→ %s/%d", response.NextCursor.Topic, response.NextCursor.Partition))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: got %s", c, strings.Join(got, " "))
		}
	}
}
