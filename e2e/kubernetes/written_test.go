//go:build kubernetes

package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// customKinds are all of kaas.io, for kubectl.
const customKinds = "kafkatopics,kafkausers,kafkabrokerconfigs,kafkagroupconfigs,kafkaclientmetrics"

// Users are written by hand: no request makes one.
var userFiles = map[string]string{
	"billing.yaml": "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: billing\n  labels: {team: shop}\nspec:\n  authentication:\n    type: scram-sha-512\n",
	"reports.yaml": "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: reports\nspec:\n  authentication:\n    type: scram-sha-512\n" +
		"    password:\n      valueFrom:\n        secretKeyRef:\n          name: passwords\n          key: reports\n  quotas:\n    producerMaxByteRatePerBroker: 10485760\n    requestPercentage: 0.5\n",
	"passwords.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: passwords\ntype: Opaque\ndata:\n  reports: c2VjcmV0\n",
	"app.yaml":       "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: app\nspec:\n  userName: CN=app,OU=x\n  authentication:\n    type: tls\n",
	"everybody.yaml": "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: everybody\nspec:\n  userName: '*'\n",
}

// populate makes, by Kafka's protocol, everything that lands in a resource.
func populate(t *testing.T, b *broker) {
	t.Helper()
	populateTopics(t, b)
	populateUsers(t, b)
	populateConfigs(t, b)
}

func populateTopics(t *testing.T, b *broker) {
	t.Helper()
	admin, ctx := b.admin(), b.context()
	longest := strings.Repeat("N", 249)
	configs := map[string]*string{"retention.ms": kadm.StringPtr("600000"), "cleanup.policy": kadm.StringPtr("compact,delete"), "min.cleanable.dirty.ratio": kadm.StringPtr("0.50")}
	created, err := admin.CreateTopics(ctx, 2, 1, configs, "plain", "a.b", "Orders_1", "UPPER", "1-2.3-4", longest, "every")
	must(t, err)
	must(t, created.Error())
	grown, err := admin.CreatePartitions(ctx, 3, "plain", "Orders_1")
	must(t, err)
	must(t, grown.Error())
	// Every key that a topic has, at the value that it has: all of them are spec.config then.
	described, err := admin.DescribeTopicConfigs(ctx, "every")
	must(t, err)
	var all []kadm.AlterConfig
	for _, config := range described[0].Configs {
		if config.Value != nil && !config.Sensitive && *config.Value != "" {
			all = append(all, kadm.AlterConfig{Op: kadm.SetConfig, Name: config.Key, Value: config.Value})
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d keys: %v", len(all), all)
	}
	alter(t, b, kmsg.ConfigResourceTypeTopic, "every", all...)
	alter(t, b, kmsg.ConfigResourceTypeTopic, "plain", kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}, kadm.AlterConfig{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")})
	// A topic that was there and is not.
	_, err = admin.DeleteTopics(ctx, "UPPER")
	must(t, err)
	// The topics that the broker makes for itself.
	must(t, b.client().ProduceSync(ctx, &kgo.Record{Topic: "plain", Value: []byte("x")}).FirstErr())
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "plain", At: 1})
	committed, err := admin.CommitOffsets(ctx, "some-group", offsets)
	must(t, err)
	must(t, committed.Error())
	transactions := b.client(kgo.TransactionalID("some-transaction"), kgo.DefaultProduceTopic("plain"))
	must(t, transactions.BeginTransaction())
	must(t, transactions.ProduceSync(ctx, kgo.StringRecord("y")).FirstErr())
	must(t, transactions.EndTransaction(ctx, kgo.TryCommit))
}

func populateUsers(t *testing.T, b *broker) {
	t.Helper()
	admin, ctx := b.admin(), b.context()
	for name := range userFiles {
		if name != "passwords.yaml" {
			eventually(t, name+" is reconciled", func() bool { return strings.Contains(b.files()[name], "reason: Reconciled") })
		}
	}
	acls := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:billing", "User:CN=app,OU=x").AllowHosts("*", "10.0.0.1").Deny("User:billing", "User:*").DenyHosts("10.6.6.6").
			Topics("orders.", "plain").Groups("billing").TransactionalIDs("tx").Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe, kadm.OpAll)
	}
	for _, some := range []*kadm.ACLBuilder{
		acls().ResourcePatternType(kadm.ACLPatternLiteral), acls().ResourcePatternType(kadm.ACLPatternPrefixed),
		kadm.NewACLs().Allow("User:billing").AllowHosts("*").Clusters().ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAlterConfigs, kadm.OpIdempotentWrite),
	} {
		results, err := admin.CreateACLs(ctx, some)
		must(t, err)
		for _, result := range results {
			must(t, result.Err)
		}
	}
	altered, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "billing", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "set by a request"}})
	must(t, err)
	must(t, altered.Error())
	var changes []kadm.AlterClientQuotaEntry
	for _, user := range []string{"reports", "CN=app,OU=x"} {
		changes = append(changes, kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: kadm.StringPtr(user)}},
			Ops: []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: 12345678}, {Key: "request_percentage", Value: 12.5}}})
	}
	quotas, err := admin.AlterClientQuotas(ctx, changes)
	must(t, err)
	for _, result := range quotas {
		must(t, result.Err)
	}
}

func populateConfigs(t *testing.T, b *broker) {
	t.Helper()
	set := func(key, value string) kadm.AlterConfig {
		return kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value}
	}
	alter(t, b, kmsg.ConfigResourceTypeBroker, "", set("log.retention.ms", "86400000"), set("compression.type", "producer"))
	brokers, err := b.admin().ListBrokers(b.context())
	must(t, err)
	alter(t, b, kmsg.ConfigResourceTypeBroker, fmt.Sprint(brokers[0].NodeID), set("message.max.bytes", "2000000"))
	alter(t, b, kmsg.ConfigResourceTypeGroupConfig, "some-group", set("consumer.session.timeout.ms", "50000"))
	alter(t, b, kmsg.ConfigResourceTypeGroupConfig, "Other Group", set("consumer.heartbeat.interval.ms", "6000"))
	alter(t, b, kmsg.ConfigResourceTypeClientMetrics, "subscription-1", set("interval.ms", "30000"), set("metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer."), set("match", "client_id=a.*"))
}

func alter(t *testing.T, b *broker, kind kmsg.ConfigResourceType, name string, configs ...kadm.AlterConfig) {
	t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for _, config := range configs {
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		one.Name, one.Op, one.Value = config.Name, kmsg.IncrementalAlterConfigOp(config.Op), config.Value
		resource.Configs = append(resource.Configs, one)
	}
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(b.context(), b.client())
	must(t, err)
	if answer := response.Resources[0]; answer.ErrorCode != 0 {
		t.Fatalf("%v %s: code %d: %s", kind, name, answer.ErrorCode, *answer.ErrorMessage)
	}
}

// populated is the content of a broker that everything was made in, and its view of it.
func populated(t *testing.T) (files map[string]string, seen view) {
	t.Helper()
	b := startBroker(t, userFiles)
	populate(t, b)
	seen = viewOf(t, b)
	for _, part := range []string{seen.topics, seen.configs, seen.acls, seen.logins, seen.quotas} {
		if strings.Count(part, "\n") < 2 {
			t.Fatalf("the view lacks something: %+v", seen)
		}
	}
	b.stop()
	return b.files(), seen
}

// view is what clients see of resources.
type view struct {
	topics  string
	configs string
	acls    string
	logins  string
	quotas  string
}

func viewOf(t *testing.T, b *broker) view {
	t.Helper()
	admin, ctx := b.admin(), b.context()
	var v view
	topics, err := admin.ListTopicsWithInternal(ctx)
	must(t, err)
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		v.topics += fmt.Sprintln(name, topics[name].ID, len(topics[name].Partitions), topics[name].IsInternal)
	}
	for _, kind := range []struct {
		kind kmsg.ConfigResourceType
		name []string
	}{
		{kmsg.ConfigResourceTypeTopic, slices.Sorted(maps.Keys(topics))}, {kmsg.ConfigResourceTypeBroker, []string{"", "1"}},
		{kmsg.ConfigResourceTypeGroupConfig, []string{"some-group", "Other Group"}}, {kmsg.ConfigResourceTypeClientMetrics, []string{"subscription-1"}},
	} {
		for _, name := range kind.name {
			v.configs += overrides(t, b, kind.kind, name)
		}
	}
	acls, err := admin.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny))
	must(t, err)
	var lines []string
	for _, result := range acls {
		must(t, result.Err)
		for _, acl := range result.Described {
			lines = append(lines, fmt.Sprintln(acl))
		}
	}
	slices.Sort(lines)
	v.acls = strings.Join(lines, "")
	credentials, err := admin.DescribeUserSCRAMs(ctx)
	must(t, err)
	for _, user := range slices.Sorted(maps.Keys(credentials)) {
		v.logins += fmt.Sprintln(user, credentials[user].CredInfos)
	}
	quotas, err := admin.DescribeClientQuotas(ctx, false, nil)
	must(t, err)
	for _, entry := range quotas {
		v.quotas += fmt.Sprintln(entry.Entity, entry.Values)
	}
	return v
}

// overrides are what was set, not what is a default.
func overrides(t *testing.T, b *broker, kind kmsg.ConfigResourceType, name string) string {
	t.Helper()
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(b.context(), b.client())
	must(t, err)
	var lines []string
	for _, config := range response.Resources[0].Configs {
		switch config.Source {
		case kmsg.ConfigSourceDefaultConfig, kmsg.ConfigSourceStaticBrokerConfig:
			continue
		}
		if config.Value != nil {
			lines = append(lines, fmt.Sprintf("%v %s %s=%s\n", kind, name, config.Name, *config.Value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func saveTo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// What the broker writes is what kubectl apply accepts: nothing is refused, pruned or
// changed, and a second time nothing happens.
func TestWrittenManifestsApply(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	files, _ := populated(t)
	want := objectsOf(t, files)
	kinds := map[string]int{}
	for _, one := range want {
		kinds[one.kind()]++
	}
	if fmt.Sprint(kinds) != "map[KafkaBrokerConfig:2 KafkaClientMetrics:1 KafkaGroupConfig:2 KafkaTopic:8 KafkaUser:4 Secret:2]" {
		t.Errorf("%v", kinds)
	}
	dir := saveTo(t, files)
	for _, way := range []string{"client", "server"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			c := *c
			c.t = t
			namespace := "written-" + way
			c.run("create", "namespace", namespace)
			apply := []string{"apply", "-n", namespace, "-f", dir}
			if way == "server" {
				apply = append(apply, "--server-side")
			}
			first := c.run(apply...)
			got := c.objects(namespace, customKinds+",secrets")
			same(t, "after kubectl apply, "+way+" side", got, want, false)
			second := c.run(apply...)
			again := c.objects(namespace, customKinds+",secrets")
			for id, before := range got {
				if was, is := before.part("metadata")["resourceVersion"], again[id].part("metadata")["resourceVersion"]; was != is {
					t.Errorf("%s was changed by the second apply: resourceVersion %v, then %v\n%s\n%s", id, was, is, first, second)
				}
			}
			// (Client-side apply says "configured" all the same: it sends again what a server
			// keeps to itself, status, creationTimestamp and stringData.)
			diff := append([]string{"diff"}, apply[1:]...)
			if out := c.run(diff...); out != "" {
				t.Errorf("kubectl diff shows\n%s", out)
			}
			// The status goes its own way, since only its owner writes it.
			for name, text := range files {
				if parse(t, text).kind() != "Secret" {
					c.run("apply", "-n", namespace, "--server-side", "--subresource=status", "--field-manager=kaas", "-f", filepath.Join(dir, name))
				}
			}
			same(t, "with status, "+way+" side", c.objects(namespace, customKinds+",secrets"), want, true)
		})
	}
}

// The other way: what kubectl shows of these objects, with all that a server sets, is
// what a fresh broker takes: the same topics, configurations, ACLs and logins.
func TestManifestsOfTheServerAreTaken(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	files, seen := populated(t)
	dir, namespace := saveTo(t, files), "taken"
	c.run("create", "namespace", namespace)
	c.run("apply", "-n", namespace, "-f", dir)
	for name, text := range files {
		if parse(t, text).kind() != "Secret" {
			c.run("apply", "-n", namespace, "--server-side", "--subresource=status", "--field-manager=kaas", "-f", filepath.Join(dir, name))
		}
	}
	shown := map[string]string{}
	for i, name := range strings.Fields(c.run("get", "-n", namespace, "-o", "name", customKinds+",secrets")) {
		text := c.run("get", "-n", namespace, "--show-managed-fields", "-o", "yaml", name)
		for _, field := range []string{"managedFields:", "uid:", "resourceVersion:", "creationTimestamp:"} {
			if !strings.Contains(text, field) {
				t.Errorf("%s shows no %s", name, field)
			}
		}
		shown[fmt.Sprintf("object-%d.yaml", i)] = text
	}
	want := objectsOf(t, shown)
	b := startBroker(t, shown)
	var now view
	eventually(t, "all is in force", func() bool { now = viewOf(t, b); return now == seen })
	b.login("billing", "set by a request")
	b.login("reports", "secret")
	b.stop()
	if text := b.log.String(); strings.Contains(text, `"level":"WARN"`) || strings.Contains(text, `"level":"ERROR"`) {
		t.Errorf("the broker complains:\n%s", text)
	}
	// It changed nothing but what it says of itself in status.
	same(t, "in the files of the second broker", objectsOf(t, b.files()), want, false)
}

func (b *broker) login(user, password string) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.sasl), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	must(b.t, err)
	defer client.Close()
	if err := client.Ping(b.context()); err != nil {
		b.t.Errorf("%s can't log in: %v", user, err)
	}
}
