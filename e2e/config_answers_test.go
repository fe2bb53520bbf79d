//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// configAnswers compares the refusals of what is asked about the configuration of
// brokers and about quotas. Their words are not compared. Keys that nobody knows are left
// out: Kafka keeps them, kaas takes them for a mistake.
func configAnswers(t *testing.T, brokers [2]*broker) {
	p := newPair(t, brokers, "configs", 1)
	for _, name := range []string{"1", ""} {
		for _, entry := range []struct{ key, value string }{
			{"broker.rack", "x"}, {"node.id", "1"}, {"log.retention.hours", "3"}, {"auto.create.topics.enable", "false"},
			{"log.retention.ms", "soon"}, {"log.segment.bytes", "1"}, {"max.connections", "99999999999"}, {"log.cleaner.threads", "0"},
			{"transaction.partition.verification.enable", "perhaps"},
		} {
			what := fmt.Sprintf("%s=%s of broker %q", entry.key, entry.value, name)
			for version := int16(0); version <= 1; version++ {
				p.alterIncrementally(t, version, what, name, entry.key, kmsg.IncrementalAlterConfigOpSet, &entry.value)
			}
			for version := int16(0); version <= 2; version++ {
				p.same(t, fmt.Sprintf("AlterConfigs v%d %s", version, what), func(int) kmsg.Request {
					r := kmsg.NewPtrAlterConfigsRequest()
					r.Version, r.ValidateOnly = version, true
					r.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: name,
						Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: entry.key, Value: &entry.value}}}}
					return r
				}, withoutWords)
			}
		}
		for what, op := range map[string]kmsg.IncrementalAlterConfigOp{"append": kmsg.IncrementalAlterConfigOpAppend, "subtract": kmsg.IncrementalAlterConfigOpSubtract, "no operation": 9} {
			for _, key := range []string{"log.retention.ms", "no.such.key", "broker.rack", "log.cleanup.policy"} {
				p.alterIncrementally(t, 1, what+" "+key, name, key, op, ptr("compact"))
			}
		}
		p.alterIncrementally(t, 1, "set to null", name, "log.retention.ms", kmsg.IncrementalAlterConfigOpSet, nil)
		p.alterIncrementally(t, 1, "append null", name, "log.cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, nil)
	}
	exact, standard, specified := kmsg.QuotasMatchTypeExact, kmsg.QuotasMatchTypeDefault, kmsg.QuotasMatchTypeAny
	type component = kmsg.DescribeClientQuotasRequestComponent
	for version := int16(0); version <= 1; version++ {
		for _, filter := range [][]component{
			{{EntityType: "planet", MatchType: exact, Match: ptr("earth")}}, {{EntityType: "planet", MatchType: specified}}, {{EntityType: "planet", MatchType: 7}},
			{{EntityType: "User", MatchType: specified}}, {{EntityType: "", MatchType: specified}},
			{{EntityType: "user", MatchType: specified}, {EntityType: "planet", MatchType: specified}},
			{{EntityType: "user", MatchType: exact, Match: ptr("nobody")}}, {{EntityType: "user", MatchType: standard}}, {{EntityType: "user", MatchType: exact}},
			{{EntityType: "user", MatchType: specified, Match: ptr("nobody")}}, {{EntityType: "user", MatchType: standard, Match: ptr("nobody")}}, {{EntityType: "user", MatchType: 7}},
			{{EntityType: "user", MatchType: specified}, {EntityType: "user", MatchType: specified}},
			{{EntityType: "client-id", MatchType: specified}}, {{EntityType: "ip", MatchType: specified}}, {{EntityType: "ip", MatchType: exact, Match: ptr("here")}},
			{{EntityType: "user", MatchType: specified}, {EntityType: "client-id", MatchType: standard}},
			{{EntityType: "user", MatchType: specified}, {EntityType: "ip", MatchType: specified}}, {{EntityType: "ip", MatchType: specified}, {EntityType: "client-id", MatchType: specified}},
			nil,
		} {
			p.same(t, fmt.Sprintf("DescribeClientQuotas v%d %+v", version, filter), func(int) kmsg.Request {
				return &kmsg.DescribeClientQuotasRequest{Version: version, Components: filter}
			}, withoutWords)
		}
	}
}

// alterIncrementally asks whether a broker would take it.
func (p *pair) alterIncrementally(t *testing.T, version int16, what, name, key string, op kmsg.IncrementalAlterConfigOp, value *string) {
	t.Helper()
	p.same(t, fmt.Sprintf("IncrementalAlterConfigs v%d %s", version, what), func(int) kmsg.Request {
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.Version, r.ValidateOnly = version, true
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: op, Value: value}}}}
		return r
	}, withoutWords)
}

func withoutWords(response kmsg.Response) kmsg.Response {
	switch r := response.(type) {
	case *kmsg.IncrementalAlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ErrorMessage = nil
		}
	case *kmsg.AlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ErrorMessage = nil
		}
	case *kmsg.DescribeClientQuotasResponse:
		r.ErrorMessage = nil
	}
	return response
}
