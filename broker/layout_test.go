package broker

import (
	"testing"
	"unsafe"
)

// Among thousands of connections each cache line that a request touches is a miss.
func TestRequestTouchesTwoLinesOfAConnection(t *testing.T) {
	t.Parallel()
	const line, requestLines = 64, 2
	var c connection
	if end := unsafe.Offsetof(c.Session) + unsafe.Offsetof(c.Session.ID); end > requestLines*line {
		t.Errorf("what a request touches ends at byte %d, behind %d lines", end, requestLines)
	}
	if size := unsafe.Sizeof(c); size%line != 0 {
		t.Errorf("a connection has %d bytes: the next one begins inside a line", size)
	}
}
