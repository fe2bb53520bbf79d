package config

import (
	"bufio"
	"os"
	"reflect"
	"strings"
	"testing"
)

type kafkaKey struct{ kind, name, typ, def, dynamic string }

func kafkaKeys(t *testing.T) []kafkaKey {
	t.Helper()
	f, err := os.Open("testdata/kafka-4.4.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []kafkaKey
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		c := strings.Split(s.Text(), "\t")
		out = append(out, kafkaKey{c[0], c[1], c[2], c[3], c[4]})
	}
	if len(out) < 400 {
		t.Fatalf("only %d keys", len(out))
	}
	return out
}

func TestEveryKeyOfKafkaIsKnown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kafka := range kafkaKeys(t) {
		seen[kafka.kind+kafka.name] = true
		k := TopicKey(kafka.name)
		if kafka.kind == "broker" {
			k = BrokerKey(kafka.name)
			if _, inert := InertKey(kafka.name); inert == (k != nil) {
				t.Errorf("%s must stand in exactly one of brokerKeys and inertGroups", kafka.name)
			}
			if k == nil {
				continue
			}
		}
		if k == nil {
			t.Errorf("%s key %s is missing", kafka.kind, kafka.name)
			continue
		}
		compare(t, k, kafka)
	}
	for _, k := range TopicKeys() {
		if !seen["topic"+k.Name] {
			t.Errorf("Kafka has no topic key %s", k.Name)
		}
	}
	for _, k := range BrokerKeys() {
		if seen["broker"+k.Name] == k.OwnKey {
			t.Errorf("%s: OwnKey is %v", k.Name, k.OwnKey)
		}
	}
}

func compare(t *testing.T, k *Key, kafka kafkaKey) {
	t.Helper()
	if string(k.Type) != kafka.typ {
		t.Errorf("%s: type %s, Kafka has %s", k.Name, k.Type, kafka.typ)
	}
	def := k.Default
	if k.NullDefault {
		def = "(null)"
	}
	if k.KafkaDefault == "" && def != kafka.def && k.Name != "listener.security.protocol.map" {
		t.Errorf("%s: default %q, Kafka has %q and the row says nothing", k.Name, def, kafka.def)
	}
	if kafka.kind == "broker" && k.Dynamic != (kafka.dynamic != "") {
		t.Errorf("%s: dynamic %v, Kafka says %q", k.Name, k.Dynamic, kafka.dynamic)
	}
}

func TestRowsAreWhole(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]*Key{TopicKeys(), BrokerKeys()} {
		for i, k := range keys {
			if i > 0 && keys[i-1].Name == k.Name {
				t.Errorf("%s stands twice", k.Name)
			}
			if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
				t.Errorf("%s: documentation %q", k.Name, k.Doc)
			}
			if (k.Standing != Honoured) != (k.Why != "") {
				t.Errorf("%s: standing %s and reason %q", k.Name, k.Standing, k.Why)
			}
			if k.Standing == Fixed && len(k.Only) == 0 {
				t.Errorf("%s is fixed at nothing", k.Name)
			}
			if !k.NullDefault {
				if err := k.Validate(k.Default); err != nil {
					t.Errorf("its own default: %v", err)
				}
			}
			for _, s := range k.Synonyms {
				if _, inert := InertKey(s.Name); BrokerKey(s.Name) == nil && !inert {
					t.Errorf("%s: no synonym %s", k.Name, s.Name)
				}
			}
		}
	}
}

// Keys that code reads by another way than a tagged field.
var readElsewhere = map[string]bool{
	"broker.id": true, "listeners": true, "advertised.listeners": true, "listener.security.protocol.map": true,
	"controller.listener.names": true, "log.dirs": true, "log.dir": true, "log.flush.scheduler.interval.ms": true,
}

func TestFieldsMatchKeys(t *testing.T) {
	t.Parallel()
	synonyms := map[string]bool{}
	for _, k := range TopicKeys() {
		for _, s := range k.Synonyms {
			synonyms[s.Name] = true
		}
		_, tagged := topicFields[k.Name]
		special := k.Name == "cleanup.policy" || k.Name == "message.timestamp.type" || k.Name == "internal.segment.bytes"
		if k.Standing == Honoured && !tagged && !special || k.Standing == NoEffect && tagged {
			t.Errorf("topic key %s is %s, has a field: %v", k.Name, k.Standing, tagged || special)
		}
	}
	for _, k := range BrokerKeys() {
		_, tagged := brokerFields()[k.Name]
		if k.Standing == Honoured && !tagged && !readElsewhere[k.Name] && !synonyms[k.Name] {
			t.Errorf("broker key %s is honoured and nothing reads it", k.Name)
		}
	}
	checkFields(t, reflect.TypeFor[Broker](), brokerFields(), BrokerKey)
	checkFields(t, reflect.TypeFor[Topic](), topicFields, TopicKey)
}

func checkFields(t *testing.T, structure reflect.Type, index map[string]int, key func(string) *Key) {
	t.Helper()
	kinds := map[Type]reflect.Kind{Boolean: reflect.Bool, String: reflect.String, Password: reflect.String, Class: reflect.String, Int: reflect.Int32, Short: reflect.Int32,
		Long: reflect.Int64, Double: reflect.Float64, List: reflect.Slice}
	for name, i := range index {
		k := key(name)
		if k == nil {
			t.Errorf("field %s: no key %s", structure.Field(i).Name, name)
			continue
		}
		if got := structure.Field(i).Type.Kind(); got != kinds[k.Type] {
			t.Errorf("field %s is a %s, %s is %s", structure.Field(i).Name, got, name, k.Type)
		}
	}
}
