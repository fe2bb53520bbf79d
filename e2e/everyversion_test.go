//go:build e2e

package e2e

import (
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestEveryVersionByKmsg sends the plainest request of every key in every version that
// is advertised, those of administrators too: the answer is read by kmsg to its last
// byte and is the same when it is written again. What is asked for in them is up to
// TestConformance, which does the same with Kafka's classes.
func TestEveryVersionByKmsg(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.createTopic(t, "t", 1, nil)
	conn, err := net.Dial("tcp", b.address)
	must(t, err)
	defer conn.Close()
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.Version, ask.ClientSoftwareName, ask.ClientSoftwareVersion = 3, "e2e", "1"
	answers := map[int16]int16{}
	for _, advertised := range exchange(t, conn, ask).(*kmsg.ApiVersionsResponse).ApiKeys {
		plainest := kmsg.RequestForKey(advertised.ApiKey)
		if plainest == nil {
			if !targetIsKafka() {
				t.Errorf("kmsg knows no key %d", advertised.ApiKey)
			}
			continue
		}
		if advertised.MaxVersion > plainest.MaxVersion() && !targetIsKafka() {
			t.Errorf("%T is advertised up to version %d, kmsg knows %d", plainest, advertised.MaxVersion, plainest.MaxVersion())
		}
		for version := advertised.MinVersion; version <= min(advertised.MaxVersion, plainest.MaxVersion()); version++ {
			request := kmsg.RequestForKey(advertised.ApiKey)
			request.(interface{ Default() }).Default()
			request.SetVersion(version)
			switch r := request.(type) {
			case *kmsg.ApiVersionsRequest:
				r.ClientSoftwareName, r.ClientSoftwareVersion = "e2e", "1"
			case *kmsg.ProduceRequest:
				if version < 3 {
					continue // advertised for old clients' sake and refused
				}
				r.Acks = -1
			case *kmsg.SASLHandshakeRequest, *kmsg.SASLAuthenticateRequest:
				continue // need a listener with a login; TestUserTools has one
			}
			if targetIsKafka() && beyondKaas[advertised.ApiKey] {
				continue
			}
			exchange(t, conn, request)
			answers[advertised.ApiKey]++
		}
	}
	for _, key := range []int16{19, 20, 21, 29, 30, 31, 32, 33, 34, 35, 37, 43, 44, 45, 46, 48, 49, 50, 51} {
		if answers[key] == 0 {
			t.Errorf("no version of the admin key %d was answered", key)
		}
	}
	total := int16(0)
	for _, n := range answers {
		total += n
	}
	t.Logf("%d versions of %d keys", total, len(answers))
}

// beyondKaas are keys of Apache Kafka that kaas does not serve and that need more than
// a plain request.
var beyondKaas = map[int16]bool{}
