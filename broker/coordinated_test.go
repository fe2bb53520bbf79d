package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta"
	"kaas/meta/config"
	"kaas/obs"
)

func TestMetricsOfCoordinators(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2, meta.ConsumerOffsetsTopic: 3, meta.TransactionStateTopic: 2}, func(c *config.Broker) { c.GroupInitialRebalanceDelayMs = 0 })
	registry := obs.NewRegistry()
	b.RegisterMetrics(registry)
	awaitCoordinators(t, b)
	joined(t, b, "a", 3)
	joined(t, b, "b", 3)
	for partition := range int32(2) {
		if code := commitCode(t, b, commitRequest(b, 8, "simple", "t", partition, 5)); code != 0 {
			t.Fatalf("commit: %d", code)
		}
	}
	init := versioned(kmsg.NewPtrInitProducerIDRequest(), 4)
	init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("x"), 1_000
	eventually(t, "a producer id", func() bool {
		return call[*kmsg.InitProducerIDResponse](t, b, testSession(), init).ErrorCode == 0
	})
	var text strings.Builder
	registry.Write(&text)
	for _, want := range []string{
		`kaas_groups{protocol="classic",state="Stable"} 2`, `kaas_groups{protocol="classic",state="Empty"} 1`, `kaas_groups{protocol="consumer",state="Stable"} 0`,
		`kaas_group_members{protocol="classic"} 2`, "kaas_group_offsets 2", "kaas_group_offset_commits_total 2",
		`kaas_group_rebalances_total{protocol="classic"} 2`, `kaas_transactions{state="Empty"} 1`, `kaas_transactions_ended_total{result="commit"} 0`,
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, text.String())
		}
	}
}
