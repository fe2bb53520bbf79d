package docs

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kaas/codec"
)

// LeftOut is one line of the ledger of what is left out on purpose.
type LeftOut struct{ What, Sees, Why string }

// Protocol is docs/protocol.md.
func Protocol(apis []codec.API, leftOut []LeftOut) []byte {
	var b bytes.Buffer
	b.WriteString(generated)
	b.WriteString("# Protocol\n\nWhat a client may send. A version outside these ranges is not advertised; a request that uses one closes its connection, as in Kafka, except ApiVersions, which is answered.\n\n")
	b.WriteString("*Where it runs*: inline and two-phase requests run on the connection's event loop (two-phase ones are answered later, when data or time has come), pool requests on the admin workers.\n\n")
	b.WriteString("| key | API | versions | where it runs | note |\n|---|---|---|---|---|\n")
	for _, api := range sortedAPIs(apis) {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", api.Key, api.Name, versions(api), class(api.Class), escape(api.Note))
	}
	b.WriteString("\n## Left out\n\n| what | what a client sees | why |\n|---|---|---|\n")
	for _, l := range leftOut {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", escape(l.What), escape(l.Sees), escape(l.Why))
	}
	return b.Bytes()
}

// WorksToday is the list for README.md.
func WorksToday(apis []codec.API) []byte {
	var b bytes.Buffer
	groups := []struct {
		title string
		keys  []int16
	}{
		{"Data", []int16{0, 1, 2, 23}},
		{"Cluster", []int16{3, 18, 60, 75}},
		{"Groups and offsets", []int16{8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69}},
		{"Producers and transactions", []int16{22, 24, 25, 26, 27, 28, 61, 65, 66}},
		{"Logins and ACLs", []int16{17, 29, 30, 31, 36, 50, 51}},
		{"Admin", nil},
	}
	rest := sortedAPIs(apis)
	for _, group := range groups {
		var names []string
		var left []codec.API
		for _, api := range rest {
			if group.keys != nil && !slices.Contains(group.keys, api.Key) {
				left = append(left, api)
				continue
			}
			names = append(names, fmt.Sprintf("%s %s", api.Name, versions(api)))
		}
		rest = left
		if len(names) > 0 {
			fmt.Fprintf(&b, "- **%s**: %s\n", group.title, strings.Join(names, ", "))
		}
	}
	return b.Bytes()
}

func sortedAPIs(apis []codec.API) []codec.API {
	sorted := slices.Clone(apis)
	slices.SortFunc(sorted, func(a, b codec.API) int { return cmp.Compare(a.Key, b.Key) })
	return sorted
}

func versions(api codec.API) string {
	from := max(api.MinVersion, api.MinServed)
	if from == api.MaxVersion {
		return fmt.Sprintf("v%d", from)
	}
	return fmt.Sprintf("v%d–v%d", from, api.MaxVersion)
}

func class(c codec.Class) string {
	switch c {
	case codec.Inline:
		return "inline"
	case codec.TwoPhase:
		return "two-phase"
	case codec.Pool:
		return "pool"
	}
	panic(fmt.Sprintf("docs: no word for class %d", c))
}
