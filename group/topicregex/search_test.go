package topicregex

import (
	"strings"
	"testing"

	"kaas/internal/limits"
)

// An expression that would cost a shard too much is refused before it is compiled.
func TestLargeRegex(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", limits.GroupRegexBytes)
	for regex, ok := range map[string]bool{
		long: true, long + "a": false, "(?:a{100}){10}": true, "(?:a{1000}){70}": false, "(?:(?:a{1000}){1000}){1000}": false,
		"orders-(?:eu|us)-[0-9]+": true, "a)(b": false, "(?i)a|b{2,5}|.*": true,
	} {
		if _, err := Compile(regex); (err == nil) != ok {
			t.Errorf("%.40s: %v", regex, err)
		}
	}
}
