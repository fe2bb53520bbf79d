package docs

import (
	"bytes"
	"fmt"
	"strings"

	"kaas/meta/config"
)

const generated = "<!-- Written by make generate; do not edit. -->\n\n"

// Configuration is docs/configuration.md.
func Configuration() []byte {
	var b bytes.Buffer
	b.WriteString(generated)
	b.WriteString(configurationIntro)
	b.WriteString("## Topic keys\n\nSet them with `kafka-topics --config`, `kafka-configs` or in a `KafkaTopic` resource. All topic keys of Kafka 4.4 are here.\n\n")
	table(&b, config.TopicKeys())
	b.WriteString("\n## Broker keys\n\nSet them in `server.properties`, by `KAFKA_` variables or by `--override`. Those marked *at run time* can also be changed while the broker runs, with `kafka-configs --entity-type brokers` or in a [`KafkaBrokerConfig`](resources.md#kafkabrokerconfig) resource.\n\n")
	table(&b, config.BrokerKeys())
	b.WriteString("\n## Keys of groups\n\nSet them with `kafka-configs --entity-type groups` or in a `KafkaGroupConfig` resource; they win over the broker's keys of the same meaning.\n\n")
	table(&b, config.GroupKeys.Keys())
	b.WriteString("\n## Keys of client metrics\n\nSet them with `kafka-configs --entity-type client-metrics` or in a `KafkaClientMetrics` resource.\n\n")
	table(&b, config.ClientMetricsKeys.Keys())
	b.WriteString("\n## Broker keys without effect\n\nThese keys are accepted at any value, so that a file or a container that was made for Kafka starts. The broker names those that are set in one line at its start.\n")
	for _, group := range config.InertKeys() {
		fmt.Fprintf(&b, "\n**%s**: `%s`\n", group.Why, strings.Join(group.Keys, "`, `"))
	}
	return b.Bytes()
}

const configurationIntro = `# Configuration

Names, types, defaults and units are those of Apache Kafka 4.4. What differs is said in the row.

**Where settings come from.** The file on the command line, then environment variables, then ` + "`--override`" + `; what comes later wins.
A variable is the key with ` + "`KAFKA_`" + ` before it, upper case, ` + "`_`" + ` for a dot, ` + "`__`" + ` for ` + "`_`, `___` for `-`" + `, as in Kafka's container image: ` + "`KAFKA_LOG_DIRS`" + ` is ` + "`log.dirs`" + `.
Variables of the image's launcher (` + "`KAFKA_HEAP_OPTS`, `KAFKA_OPTS`" + ` and the like) and those that Kubernetes makes for a Service named kafka are passed over. ` + "`CLUSTER_ID`" + ` names the cluster of a new data directory.

**What happens to a key.** *honoured*: it acts as in Kafka. *fixed*: it is accepted at the value that describes what kaas does, and refused otherwise. *no effect*: it is accepted and changes nothing. *later*: as no effect, until what it steers is built. *refused*: it is an error, because ignoring it would be dangerous.
An unknown broker key is a warning that names it; an unknown topic key is an error, as in Kafka. A bad value is an error that names key, value and what is allowed: the broker exits with 1 and has touched nothing.

**Listeners.** Without ` + "`advertised.listeners`" + ` a client is told the address that it connected to, so a broker behind a port mapping with equal ports needs no setting at all. A listener that a KRaft file has for its controller is left out and named among the settings without effect. The security protocols ` + "`PLAINTEXT`" + ` and ` + "`SASL_PLAINTEXT`" + ` are built; a listener with another one is an error.

**http.address** (` + "`127.0.0.1:8080`" + `) serves ` + "`/healthz`, `/readyz`, `/metrics`" + `, and ` + "`/debug/pprof`" + ` when profiling.pprof.enable is set. Two brokers on one host are common: if the default address is taken, the second broker says so and runs without it. An address that was set must be free.

**flush.messages and Kafka's default.** Kafka never forces its log on the produce path by default: it trusts that replicas do not fail together. kaas keeps one copy, on its volume, so its default is 1: ` + "`acks=all`" + ` is answered, and records become visible, after the commit that covers them. One commit serves every producer that waits at that moment. Set ` + "`flush.messages`" + ` (for all topics ` + "`log.flush.interval.messages`" + `) to 9223372036854775807 to get Kafka's default: acknowledged records may then be lost when the machine fails, not when the process does.

`

func table(b *bytes.Buffer, keys []*config.Key) {
	b.WriteString("| key | type | default | takes | what it does |\n|---|---|---|---|---|\n")
	for _, k := range keys {
		if k.Internal && (k.Standing != config.Honoured || !k.OwnKey) {
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", k.Name, strings.ToLower(string(k.Type)), defaultCell(k), escape(k.Allowed()), escape(meaning(k)))
	}
}

func defaultCell(k *config.Key) string {
	value := "`" + k.Default + "`"
	switch {
	case k.NullDefault:
		value = "not set"
	case k.Default == "":
		value = "empty"
	}
	if k.KafkaDefault != "" {
		value += " (Kafka: " + k.KafkaDefault + ")"
	}
	return escape(value)
}

func meaning(k *config.Key) string {
	s := k.Doc
	if k.Standing != config.Honoured {
		s += " *" + upperFirst(k.Standing.String()) + "*: " + k.Why + "."
	}
	if k.Changeable() && k.Standing == config.Honoured {
		s += " *At run time*."
	}
	if k.OwnKey && !k.Internal { // the internal ones are outside of Kafka's own list
		s += " Kafka does not have this key."
	}
	if len(k.Synonyms) > 0 {
		names := make([]string, len(k.Synonyms))
		for i, synonym := range k.Synonyms {
			names[i] = "`" + synonym.Name + "`"
		}
		s += " If not set: " + strings.Join(names, ", ") + "."
	}
	return s
}

func escape(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
