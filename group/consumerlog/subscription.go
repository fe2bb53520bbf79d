package consumerlog

import "github.com/twmb/franz-go/pkg/kbin"

// SubscriptionTopics reads the topics of a ConsumerProtocolSubscription: version
// int16, topics array of strings, then what later versions add.
func SubscriptionTopics(metadata []byte) (topics []string, ok bool) {
	r := kbin.Reader{Src: metadata}
	version := r.Int16()
	count := r.ArrayLen()
	if !r.Ok() || version < 0 || count < 0 || int(count) > len(r.Src)/2 {
		return nil, false
	}
	topics = make([]string, 0, count)
	for range count {
		topics = append(topics, r.String())
	}
	return topics, r.Ok()
}
