//go:build conformance

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kaas/e2e/process"
)

// TestAdminClientAnswersAsKafka calls every method of Kafka's Java admin client, in
// good and in bad ways, on kaas and on Apache Kafka: the transcripts are the same but
// for the lines below. See AdminSweep.java.
func TestAdminClientAnswersAsKafka(t *testing.T) {
	t.Parallel()
	needJava(t)
	settings := []string{"super.users=User:ANONYMOUS", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"group.consumer.assignment.interval.ms=0", "group.consumer.assignor.offload.enable=false"}
	transcripts := make(chan map[string]string, 2)
	brokers := [2]*broker{startBroker(t, settings...), startReference(t, settings...)}
	if !brokers[0].reference {
		layUser(t, brokers[0], "alice")
	}
	var sides [2]map[string]string
	for side, b := range brokers {
		go func() {
			command := javaCommand(t, javaClassPath(t), "-Xmx256M", "AdminSweep", b.address)
			words := &process.Tail{}
			command.Stderr = words
			out, err := command.Output()
			if err != nil {
				t.Errorf("%v\n%s\n%s", err, out, words)
			}
			lines := map[string]string{}
			for line := range strings.Lines(string(out)) {
				if what, outcome, found := strings.Cut(strings.TrimSpace(line), ": "); found {
					lines[what] = outcome
				}
			}
			sides[side] = lines
			if path := os.Getenv("KAAS_E2E_TRANSCRIPT"); path != "" {
				if err := os.WriteFile(fmt.Sprintf("%s.%d", path, side), out, 0o600); err != nil {
					t.Error(err)
				}
			}
			transcripts <- lines
		}()
	}
	<-transcripts
	<-transcripts
	if t.Failed() {
		return
	}
	if kept := sides[0]["not called"]; kept != "[close, registerMetricForSubscription, unregisterMetricFromSubscription]" {
		t.Errorf("methods of the admin client that are not called: %s", kept)
	}
	differences := maps.Clone(adminDifferences)
	if !brokers[0].serves(t, listConfigResources) {
		maps.Copy(differences, withoutConfigResources)
	}
	for _, what := range slices.Sorted(maps.Keys(sides[1])) {
		kaas, kafka := sides[0][what], sides[1][what]
		allowed, differs := differences[what]
		switch {
		case kaas == kafka && (!differs || brokers[0].reference): // the list is of differences between kaas and Kafka
		case kaas == kafka:
			t.Errorf("%s is listed as a difference and is none:\n  %s", what, kaas)
		case !differs || brokers[0].reference:
			t.Errorf("%s:\n  kaas  %s\n  Kafka %s", what, kaas, kafka)
		case kaas != allowed.kaas:
			t.Errorf("%s:\n  kaas  %s\n  which should be %s, since %s", what, kaas, allowed.kaas, allowed.reason)
		}
	}
	t.Logf("%d calls, %d differ for a reason", len(sides[1]), len(differences))
}

// layUser lays down a user's resource and waits until the broker has taken it in.
func layUser(t *testing.T, b *broker, name string) {
	t.Helper()
	path := filepath.Join(b.logDir, "resources", name+".yaml")
	text := "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: " + name + "\nspec:\n  authentication:\n    type: scram-sha-512\n"
	must(t, os.WriteFile(path, []byte(text), 0o644))
	eventually(t, 20*time.Second, func() error {
		content, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(content), "reason: Reconciled") {
			err = fmt.Errorf("the user is not reconciled:\n%s", content)
		}
		return err
	})
}

// adminDifference is what kaas answers instead of what Kafka does, and why.
type adminDifference struct{ kaas, reason string }

// The reasons.
const (
	notServed    = "a key that kaas does not serve: share groups, streams groups, delegation tokens, a quorum"
	quotasOfUser = "kaas keeps quotas in the resource of a user"
	oneCopy      = "kaas keeps one copy, whatever is asked for, and tells what was asked for"
	ownError     = "kaas has a rule of its own; Kafka's error"
)

// adminDifferences are the calls that kaas answers otherwise.
var adminDifferences = map[string]adminDifference{
	"createTopics of three replicas":                   {"{three=1 partitions, 3 replicas, cleanup.policy delete from DEFAULT_CONFIG}", oneCopy},
	"deleteTopics of three replicas":                   {"{three=done}", oneCopy},
	"alterClientQuotas, of a client":                   {"{ClientQuotaEntity{client-id=app, user=alice}=InvalidRequestException}", quotasOfUser},
	"alterClientQuotas, unknown":                       {"{ClientQuotaEntity{user=alice}=InvalidConfigurationException}", ownError + " is INVALID_REQUEST"},
	"describeClientQuotas":                             {"{ClientQuotaEntity{user=alice}={producer_byte_rate=1000.0, request_percentage=50.0}}", quotasOfUser},
	"describeClientQuotas, all":                        {"{ClientQuotaEntity{user=alice}={producer_byte_rate=1000.0, request_percentage=50.0}}", quotasOfUser},
	"alterClientQuotas, remove":                        {"{ClientQuotaEntity{client-id=app, user=alice}=InvalidRequestException}", quotasOfUser},
	"alterUserScramCredentials, a deletion of nothing": {"{alice=UnsupportedVersionException}", "kaas serves SCRAM-SHA-512 alone"},
	"describeDelegationToken":                          {"UnsupportedVersionException", notServed},
	"createDelegationToken":                            {"UnsupportedVersionException", notServed},
	"renewDelegationToken":                             {"UnsupportedVersionException", notServed},
	"expireDelegationToken":                            {"UnsupportedVersionException", notServed},
	"describeShareGroups":                              {"{missing=UnsupportedVersionException}", notServed},
	"listShareGroupOffsets":                            {"UnsupportedVersionException", notServed},
	"alterShareGroupOffsets":                           {"UnsupportedVersionException", notServed},
	"deleteShareGroupOffsets":                          {"UnsupportedVersionException", notServed},
	"deleteShareGroups":                                {"{missing=GroupIdNotFoundException}", notServed},
	"describeStreamsGroups":                            {"{missing=UnsupportedVersionException}", notServed},
	"describeFeatures":                                 {"[group.version, metadata.version, transaction.version]", notServed},
	"updateFeatures, only validated":                   {"{no.such.feature=UnsupportedVersionException}", notServed},
	"describeMetadataQuorum":                           {"UnsupportedVersionException", notServed},
	"unregisterBroker":                                 {"UnsupportedVersionException", notServed},
	"unregisterController":                             {"UnsupportedVersionException", notServed},
	"addRaftVoter":                                     {"UnsupportedVersionException", notServed},
	"removeRaftVoter":                                  {"UnsupportedVersionException", notServed},
}

// withoutConfigResources are the differences of a kaas that does not serve
// ListConfigResources, and with it neither configs of groups nor of client metrics.
var withoutConfigResources = func() map[string]adminDifference {
	const reason = "configs of groups and client metrics are not served yet"
	all := map[string]adminDifference{}
	for _, what := range []string{"incrementalAlterConfigs a group", "incrementalAlterConfigs a group in a bad way", "incrementalAlterConfigs a group's unknown key", "describeConfigs of a group", "incrementalAlterConfigs a group back"} {
		all[what] = adminDifference{"{ConfigResource(type=GROUP, name='settings')=UnsupportedVersionException}", reason}
	}
	for _, what := range []string{"incrementalAlterConfigs client metrics", "incrementalAlterConfigs client metrics in a bad way", "describeConfigs of client metrics", "incrementalAlterConfigs client metrics back"} {
		all[what] = adminDifference{"{ConfigResource(type=CLIENT_METRICS, name='watch')=UnsupportedVersionException}", reason}
	}
	for _, what := range []string{"listConfigResources of groups and client metrics", "listConfigResources of brokers", "listConfigResources of topics", "listClientMetricsResources", "listConfigResources at the end"} {
		all[what] = adminDifference{"UnsupportedVersionException", reason}
	}
	return all
}()
