//go:build conformance

package e2e

import (
	"net"
	"testing"
)

// TestConformance uses every version of every API that the broker advertises,
// in requests that Apache Kafka's own Java classes encode, and judges the
// answers with the same classes; see e2e/conformance.
func TestConformance(t *testing.T) {
	t.Parallel()
	java := []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", javaClassPath(t)}

	// First the judge itself: it must refuse what it is there to find.
	t.Log(run(t, nil, "java", append(java, "SelfTest")...))

	b := startBroker(t)
	host, port, err := net.SplitHostPort(b.address)
	must(t, err)
	arguments := append(java, "Conformance", host, port)
	if targetIsKafka() {
		arguments = append(arguments, "--reference") // it serves more than kaas means to
	}
	stdout, stderr, err := try(t, nil, "java", arguments...)
	t.Log(stdout)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
}
