package meta

import "strings"

// CompareAge orders resources that claim the same Kafka name: the older first,
// then by name, so that everybody finds the same winner.
func CompareAge(a, b Object) int {
	if order := a.Meta().CreationTimestamp.Compare(b.Meta().CreationTimestamp); order != 0 {
		return order
	}
	return strings.Compare(a.Meta().Name, b.Meta().Name)
}
