package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta/config"
	"kaas/quota"
)

func startQuotaBroker(t *testing.T, quotas map[string]float64) *testBroker {
	t.Helper()
	return startBroker(t, func(cfg *config.Broker, o *Options) {
		cfg.Dev = true
		o.Quotas = quota.NewManager(func(user string) (map[string]float64, bool) {
			if user != "ANONYMOUS" {
				t.Errorf("asked for %q", user)
			}
			return quotas, true
		})
		o.Throttled = func(_ quota.Kind, d time.Duration) {
			if d <= 0 {
				t.Error("told of no throttle")
			}
		}
	})
}

// throttleOf sends a request and returns what the reply says and how long it was deaf
// at most, seen by a second request: from before the first one was sent, so that a
// client that gets its turn late sees no shorter time.
func throttleOf(t *testing.T, c *rawConn, request kmsg.Request) (throttleMs int32, deaf time.Duration) {
	t.Helper()
	begun := time.Now()
	c.send(request, 1)
	told, _ := c.receive(request, 1).(kmsg.ThrottleResponse).Throttle()
	c.send(apiVersions(0), 2)
	c.receive(apiVersions(0), 2)
	return told, time.Since(begun)
}

func produceOf(topic string, bytes int) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = 9, 1, 10_000
	request.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, bytes)}}}}
	return request
}

func smallFetch(topic string) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.MaxWaitMillis, request.MaxBytes, request.SessionEpoch = 11, 0, 1<<20, -1
	request.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 1 << 20}}}}
	return request
}

// TestProduceIsThrottled: the reply comes at once and tells the time, then the
// connection is deaf for that long (KIP-219). Refused records count, too.
func TestProduceIsThrottled(t *testing.T) {
	t.Parallel()
	tb := startQuotaBroker(t, map[string]float64{quota.ProducerByteRate: 10_000})
	c := tb.dial()
	told, deaf := throttleOf(t, c, produceOf("missing", 12_000))
	if told < 150 || told > 400 || deaf < time.Duration(told-50)*time.Millisecond {
		t.Errorf("told %d ms, deaf for %v", told, deaf)
	}
	if told, _ := throttleOf(t, c, smallFetch("missing")); told != 0 {
		t.Errorf("a fetch is throttled by the quota of producers: %d ms", told)
	}
}

func TestFetchIsThrottled(t *testing.T) {
	t.Parallel()
	tb := startQuotaBroker(t, map[string]float64{quota.ConsumerByteRate: 100})
	c := tb.dial()
	told, _ := throttleOf(t, c, smallFetch("missing")) // about 150 bytes as they are measured
	again, deaf := throttleOf(t, c, smallFetch("missing"))
	if told+again == 0 || again < 300 || deaf < time.Duration(again-50)*time.Millisecond {
		t.Errorf("told %d and %d ms, deaf for %v", told, again, deaf)
	}
}

// TestRequestTimeIsThrottled: what handlers take of a thread.
func TestRequestTimeIsThrottled(t *testing.T) {
	t.Parallel()
	tb := startQuotaBroker(t, map[string]float64{quota.RequestPercentage: 0.0001}) // a microsecond a second
	c := tb.dial()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	c.send(metadata, 1)
	c.receive(metadata, 1)
	c.send(apiVersions(0), 2)
	if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.frame(); err == nil {
		t.Error("the connection is not muted")
	}
	// What is owed holds on other connections of the user, and is told there.
	for _, request := range []kmsg.Request{kmsg.NewPtrDescribeClusterRequest(), produceOf("missing", 10)} {
		other := tb.dial()
		other.send(request, 1)
		if told, _ := other.receive(request, 1).(kmsg.ThrottleResponse).Throttle(); told == 0 {
			t.Errorf("key %d tells nothing", request.Key())
		}
	}
}
