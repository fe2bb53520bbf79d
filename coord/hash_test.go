package coord

import (
	"slices"
	"testing"
)

// Hashes are Java's; partitions are those in which Apache Kafka 4.4 was seen to
// keep these groups' offsets.
func TestPartitionFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		key       string
		hash      int32
		partition int32 // of 50
	}{
		{"", 0, 0},
		{"payments", 1382682413, 13},
		{"orders-service", 23943117, 17},
		{"consumer-group-a", 147483068, 18},
		{"negative-hash-1", -1704008758, 8}, // with the sign bit masked it would be 40
		{"negative-hash-2", -1704008757, 7},
		{"группа", 1749938458, 8},
		{"😀-group", -1198440043, 43},        // a surrogate pair counts as two units
		{"polygenelubricants", -1 << 31, 0}, // has no absolute value in int32
	} {
		if got := JavaStringHash(tc.key); got != tc.hash {
			t.Errorf("JavaStringHash(%q) = %d, want %d", tc.key, got, tc.hash)
		}
		if got := PartitionFor(tc.key, 50); got != tc.partition {
			t.Errorf("PartitionFor(%q, 50) = %d, want %d", tc.key, got, tc.partition)
		}
	}
}

// The orders are those in which java.util.HashMap of OpenJDK 17 iterates over these keys.
func TestJavaMapOrder(t *testing.T) {
	t.Parallel()
	many := []string{"k0", "k1", "k10", "k11", "k12", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"} // thirteen: a table of 32
	for _, c := range []struct{ keys, want []string }{
		{nil, nil},
		{[]string{"cooperative-sticky", "range", "roundrobin", "sticky"}, []string{"sticky", "range", "roundrobin", "cooperative-sticky"}},
		{many, []string{"k0", "k1", "k2", "k3", "k4", "k11", "k5", "k10", "k6", "k7", "k12", "k8", "k9"}},
		{many[:12], []string{"k0", "k1", "k2", "k3", "k4", "k11", "k5", "k10", "k6", "k7", "k12", "k8"}},
	} {
		if got := JavaMapOrder(slices.Clone(c.keys)); !slices.Equal(got, c.want) {
			t.Errorf("JavaMapOrder(%q) = %q, want %q", c.keys, got, c.want)
		}
	}
}

func TestJavaLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "é€": 2, "😀x": 3} {
		if got := JavaLength(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
