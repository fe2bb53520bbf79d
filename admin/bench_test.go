package admin

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// writtenBytes is what this process has sent to its disks, 0 where that is not told.
func writtenBytes() int64 {
	content, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// What 1,000 topics cost as resources, without their partitions: from the request to
// the image. (With partitions: kaas bench.)
func BenchmarkCreateThousandTopics(b *testing.B) {
	const n = 1000
	for _, perRequest := range []int{1, n} {
		b.Run(fmt.Sprintf("per_request=%d", perRequest), func(b *testing.B) {
			var bytes int64
			for b.Loop() {
				b.StopTimer()
				h := newHarness(b, harnessOptions{quiet: true})
				before := writtenBytes()
				b.StartTimer()
				for first := 0; first < n; first += perRequest {
					topics := make([]kmsg.CreateTopicsRequestTopic, perRequest)
					for i := range topics {
						topics[i] = newTopicRequest(fmt.Sprint("topic-", first+i), 1)
					}
					for _, result := range h.create(7, false, topics...) {
						if result.ErrorCode != 0 {
							b.Fatal(result.ErrorCode, text(result.ErrorMessage))
						}
					}
				}
				bytes += writtenBytes() - before
			}
			b.ReportMetric(float64(bytes)/float64(b.N), "diskB/op")
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/1000topics")
		})
	}
}

// DescribeConfigs of 1,000 topics in one request, all keys with documentation.
func BenchmarkDescribeThousandConfigs(b *testing.B) {
	const n = 1000
	h := newHarness(b, harnessOptions{quiet: true})
	topics := make([]kmsg.CreateTopicsRequestTopic, n)
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.IncludeSynonyms, request.IncludeDocumentation = true, true
	for i := range topics {
		topics[i] = newTopicRequest(fmt.Sprint("topic-", i), 1, "retention.ms", "777000")
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topics[i].Topic
		request.Resources = append(request.Resources, resource)
	}
	h.create(7, false, topics...)
	b.ReportAllocs()
	for b.Loop() {
		s := h.submit(request, 4)
		if reply := <-s.reply; len(reply) < n*100 {
			b.Fatal(len(reply), s.err)
		}
	}
}
