package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const standardAuthorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// What a client asked for and may not have is logged and counted; what a list leaves
// out is not. Resources and files that can't be read are counted, too.
func TestDenialsAndResourcesAreSeen(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for name, text := range map[string]string{
		"anonymous.yaml": `apiVersion: kaas.io/v1alpha1
kind: KafkaUser
metadata: {name: anonymous}
spec:
  userName: ANONYMOUS
  authorization:
    type: simple
    acls:
      - resource: {type: cluster, name: kafka-cluster}
        operations: [Create]
      - resource: {type: topic, name: later., patternType: prefix}
        operations: [Write]
`,
		"refused.yaml": "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: refused}\nspec: {partitions: 0}\n",
		"broken.yaml":  "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: broken}\nspec: {partitions: two}\n",
	} {
		path := filepath.Join(data, "resources", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := startProcess(t, onFreePorts("--override", standardAuthorizer, "--override", "log.dirs="+data)...)
	ready := p.awaitReady()
	c, err := net.Dial("tcp", kafkaAddress(ready))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	createTopic(t, c, "hidden", 1)
	// Write on topics that do not exist yet lets a producer be idempotent (KIP-679).
	producer := kmsg.NewPtrInitProducerIDRequest()
	producer.SetVersion(1)
	send(t, c, producer)
	given := producer.ResponseKind().(*kmsg.InitProducerIDResponse)
	if receive(t, c, given); given.ErrorCode != 0 {
		t.Errorf("InitProducerId: %v", kerr.ErrorForCode(given.ErrorCode))
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.SetVersion(4)
	for range 2 { // all topics, then one by its name
		send(t, c, metadata)
		response := metadata.ResponseKind().(*kmsg.MetadataResponse)
		receive(t, c, response)
		if metadata.Topics == nil && len(response.Topics) != 0 || metadata.Topics != nil && response.Topics[0].ErrorCode != kerr.TopicAuthorizationFailed.Code {
			t.Errorf("%+v", response)
		}
		name := "hidden"
		metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	}
	var body []byte
	wanted := []string{
		`kaas_authorization_denied_total{operation="DESCRIBE",resource_type="TOPIC"} 1`,
		`kaas_authorization_denied_total{operation="CREATE",resource_type="CLUSTER"} 0`, `kaas_authorization_denied_total{operation="IDEMPOTENT_WRITE",resource_type="CLUSTER"} 0`,
		`kaas_resources{kind="KafkaTopic",ready="True"} 1`, `kaas_resources{kind="KafkaTopic",ready="False"} 1`,
		`kaas_resources{kind="KafkaUser",ready="Unknown"} 0`, "kaas_resource_files_unreadable 1",
		`kaas_resources{kind="KafkaUser",ready="True"} 1`, `kaas_resources{kind="KafkaClientMetrics",ready="True"} 0`,
	}
	await(t, "the series are there", func() bool {
		response, err := http.Get("http://" + ready["http"].(string) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(body), "\n"+wanted[len(wanted)-2]+"\n") // users are reconciled after the start
	})
	for _, series := range wanted {
		if !strings.Contains(string(body), "\n"+series+"\n") {
			t.Errorf("no %s in\n%s", series, body)
		}
	}
	if want := `"level":"INFO","msg":"authorization denied","principal":"User:ANONYMOUS","operation":"DESCRIBE","host":"127.0.0.1","resource":"Topic:LITERAL:hidden","request":"Metadata"}`; strings.Count(p.text(), want) != 1 {
		t.Errorf("no %s", want)
	}
}
