package coord

import "testing"

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
