package coord

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// PartitionFor says which partition of an internal topic with count partitions
// holds a group or transactional id: Utils.abs(key.hashCode()) % count, as
// GroupCoordinatorService.partitionFor. Every client and tool finds the group's
// records there, so it can never change.
func PartitionFor(key string, count int32) int32 {
	hash := JavaStringHash(key)
	switch {
	case hash == -1<<31: // its absolute value is no int32; Utils.abs answers 0
		hash = 0
	case hash < 0:
		hash = -hash
	}
	return hash % count
}

// JavaStringHash is java.lang.String.hashCode: s[0]*31^(n-1) + … + s[n-1] over
// UTF-16 code units, in int32 arithmetic that wraps.
func JavaStringHash(s string) int32 {
	var hash int32
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			hash = 31*hash + int32(c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r >= 0x10000 { // two code units, a surrogate pair
			r -= 0x10000
			hash = 31*hash + (0xd800 + r>>10)
			r = 0xdc00 + r&0x3ff
		}
		hash = 31*hash + r
	}
	return hash
}

// JavaMapOrder sorts keys as a java.util.HashMap with these keys iterates over them:
// by their slot in a table of at least 16 that is at most three quarters full. Keys of
// one slot stay in their order.
func JavaMapOrder(keys []string) []string {
	slots := 16
	for len(keys) > slots/4*3 {
		slots *= 2
	}
	slot := func(key string) uint32 {
		hash := uint32(JavaStringHash(key))
		return (hash ^ hash>>16) & uint32(slots-1)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(slot(a), slot(b)) })
	return keys
}

// JavaLength counts UTF-16 units, as Kafka's String.length() does for
// offset.metadata.max.bytes.
func JavaLength(s string) int {
	units := utf8.RuneCountInString(s)
	for _, r := range s {
		if r >= 0x10000 {
			units++
		}
	}
	return units
}
