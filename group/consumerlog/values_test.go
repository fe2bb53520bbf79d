package consumerlog

import (
	"encoding/hex"
	"reflect"
	"testing"
)

func text(s string) *string { return &s }

// samples are one of each value, with what it must be in bytes .
func samples() map[string]struct {
	value  any
	bytes  []byte
	decode func([]byte) (any, error)
} {
	topic := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	group, plainGroup := &Group{Epoch: 7, MetadataHash: -2}, &Group{Epoch: 7}
	member := &Member{
		InstanceID: text("i"), ClientID: "c", ClientHost: "/h", Topics: []string{"a", "b"}, Regex: text("x.*"), RebalanceTimeoutMs: 5, Assignor: text("uniform"),
		Classic: &Classic{SessionTimeoutMs: 45, Protocols: []Protocol{{Name: "range", Metadata: []byte{9}}}},
	}
	target := &Target{Epoch: 3, TimestampMs: 4}
	plan := []TopicPartitions{{TopicID: topic, Partitions: []int32{0, 2}}}
	current := &Current{Epoch: 5, PreviousEpoch: 4, State: 1, Assigned: []TopicPartitions{{TopicID: topic, Partitions: []int32{1}, Epochs: []int32{5}}}, Revoking: plan}
	regex := &Regex{Topics: []string{"t"}, Version: 8, TimestampMs: 9}
	type sample = struct {
		value  any
		bytes  []byte
		decode func([]byte) (any, error)
	}
	return map[string]sample{
		"group":      {group, group.Append(nil), func(b []byte) (any, error) { return ReadGroup(b) }},
		"plainGroup": {plainGroup, plainGroup.Append(nil), func(b []byte) (any, error) { return ReadGroup(b) }},
		"member":     {member, member.Append(nil), func(b []byte) (any, error) { return ReadMember(b) }},
		"target":     {target, target.Append(nil), func(b []byte) (any, error) { return ReadTarget(b) }},
		"plan":       {plan, AppendTargetMember(nil, plan), func(b []byte) (any, error) { return ReadTargetMember(b) }},
		"current":    {current, current.Append(nil), func(b []byte) (any, error) { return ReadCurrent(b) }},
		"regex":      {regex, regex.Append(nil), func(b []byte) (any, error) { return ReadRegex(b) }},
	}
}

// kafkaBytes are the samples as Kafka 4.4's message classes read and write them.
var kafkaBytes = map[string]string{
	"current":    "0000000000050000000401020102030405060708090a0b0c0d0e0f1002000000010100050200000005020102030405060708090a0b0c0d0e0f100300000000000000020000",
	"group":      "000000000007010008fffffffffffffffe",
	"member":     "00000269000263032f68030261026204782e2a0000000508756e69666f726d010010010000002d020672616e676502090000",
	"plainGroup": "00000000000700",
	"plan":       "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
	"regex":      "00000202740000000000000008000000000000000900",
	"target":     "0000000000030100080000000000000004",
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, s := range samples() {
		if got := hex.EncodeToString(s.bytes); got != kafkaBytes[name] {
			t.Errorf("%s: %s, Kafka writes %s", name, got, kafkaBytes[name])
		}
		got, err := s.decode(s.bytes)
		if err != nil || !reflect.DeepEqual(got, s.value) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for cut := range s.bytes {
			if _, err := s.decode(s.bytes[:cut]); err == nil {
				t.Errorf("%s: %d of %d bytes are a value", name, cut, len(s.bytes))
			}
		}
		if _, err := s.decode(append([]byte{0, 1}, s.bytes[2:]...)); err == nil {
			t.Errorf("%s: version 1 is unknown", name)
		}
	}
	for _, k := range []Key{{KindGroup, "g", ""}, {KindMember, "g", "m"}, {KindRegex, "g", "a.*"}, {KindTarget, "g", ""}} {
		if got, err := ReadKey(k.Append(nil)); err != nil || got != k {
			t.Errorf("%+v: %+v, %v", k, got, err)
		}
	}
	for _, bad := range []string{"", "00", "0002", "0009000167", "000300", "0005000167"} {
		b, _ := hex.DecodeString(bad)
		if k, err := ReadKey(b); err == nil {
			t.Errorf("%s is key %+v", bad, k)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, s := range samples() {
			v, err := s.decode(b)
			if err != nil {
				continue
			}
			encoded := map[string]func() []byte{
				"group": func() []byte { return v.(*Group).Append(nil) }, "plainGroup": func() []byte { return v.(*Group).Append(nil) },
				"member": func() []byte { return v.(*Member).Append(nil) }, "target": func() []byte { return v.(*Target).Append(nil) },
				"plan":    func() []byte { return AppendTargetMember(nil, v.([]TopicPartitions)) },
				"current": func() []byte { return v.(*Current).Append(nil) }, "regex": func() []byte { return v.(*Regex).Append(nil) },
			}[name]()
			again, err := s.decode(encoded)
			if err != nil || !reflect.DeepEqual(v, again) {
				t.Errorf("%s: %+v, then %+v, %v", name, v, again, err)
			}
		}
	})
}
