package netio

import (
	"testing"
	"unsafe"
)

// Among thousands of connections each cache line that a request touches is a miss: what every request touches stands in five.
func TestRequestTouchesFewLines(t *testing.T) {
	t.Parallel()
	const line, requestLines = 64, 5
	var c Conn
	if end := unsafe.Offsetof(c.nextReady); end > requestLines*line {
		t.Errorf("what a request touches ends at byte %d, behind %d lines", end, requestLines)
	}
	if size := unsafe.Sizeof(c); size%line != 0 {
		t.Errorf("a connection has %d bytes: the next one begins inside a line", size)
	}
}
