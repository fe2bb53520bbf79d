package docs

import (
	"bytes"
	"fmt"
	"strings"

	"kaas/obs"
)

// Metrics is the table of metrics for docs/running.md.
func Metrics() []byte {
	var b bytes.Buffer
	b.WriteString("| series | type | what | Apache Kafka's |\n|---|---|---|---|\n")
	for _, f := range obs.Families {
		labels := ""
		if len(f.Labels) > 0 {
			labels = "{" + strings.Join(f.Labels, ",") + "}"
		}
		kafka := ""
		if f.Kafka != "" {
			kafka = "`" + f.Kafka + "`"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", f.Name, labels, f.Kind, escape(f.Help), kafka)
	}
	return b.Bytes()
}
