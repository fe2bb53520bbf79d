package codec

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	handle := func(*Request) {}
	good := API{Key: 3, Name: "Metadata", MaxVersion: 13, Handle: handle}
	for name, c := range map[string]struct {
		apis []API
		want string
	}{
		"twice":                  {[]API{good, {Key: 3, Name: "Other", MaxVersion: 1, Handle: handle}}, "twice"},
		"unknown key":            {[]API{{Key: 12345, Name: "X", Handle: handle}}, "no message"},
		"negative key":           {[]API{{Key: -1, Name: "X", Handle: handle}}, "no message"},
		"no name":                {[]API{{Key: 3, Handle: handle}}, "no name"},
		"no handler":             {[]API{{Key: 3, Name: "X"}}, "no handler"},
		"versions upside down":   {[]API{{Key: 3, Name: "X", MinVersion: 5, MaxVersion: 4, Handle: handle}}, "versions"},
		"nothing served":         {[]API{{Key: 3, Name: "X", MinServed: 5, MaxVersion: 4, Handle: handle}}, "versions"},
		"above what kmsg writes": {[]API{{Key: 3, Name: "X", MaxVersion: 99, Handle: handle}}, "highest"},
		"class":                  {[]API{{Key: 3, Name: "X", Class: 9, Handle: handle}}, "Class(9)"},
	} {
		if _, err := NewRegistry(c.apis...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	handle := func(*Request) {}
	r, err := NewRegistry(API{Key: 18, Name: "ApiVersions", MaxVersion: 4, Handle: handle}, API{Key: 0, Name: "Produce", MinServed: 3, MaxVersion: 13, Handle: handle})
	if err != nil {
		t.Fatal(err)
	}
	if all := r.All(); len(all) != 2 || all[0].Key != 0 || all[1].Key != 18 {
		t.Errorf("All() = %+v", all)
	}
	for _, key := range []int16{-1, 1, 94, 95, 32767, -32768} {
		if r.Lookup(key) != nil {
			t.Errorf("key %d is served", key)
		}
	}
	produce := r.Lookup(0)
	for version, want := range map[int16]bool{-1: false, 0: false, 2: false, 3: true, 13: true, 14: false} {
		if produce.Serves(version) != want {
			t.Errorf("Produce v%d: served %v", version, !want)
		}
	}
}

// TestKafkaVersionsCanBeEncoded: the ceiling is Kafka's, not kmsg's.
func TestKafkaVersionsCanBeEncoded(t *testing.T) {
	t.Parallel()
	for key, versions := range KafkaVersions {
		message := kmsg.RequestForKey(key)
		if message == nil || versions.Max > message.MaxVersion() || versions.Min > versions.Max {
			t.Errorf("key %d: %+v", key, versions)
		}
	}
}
