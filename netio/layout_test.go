package netio

import (
	"testing"
	"unsafe"
)

// What every request touches of a connection stands in the lines that are prefetched.
func TestRequestTouchesFewLines(t *testing.T) {
	t.Parallel()
	const line = 64
	var c Conn
	if end := unsafe.Offsetof(c.nextReady); end > requestLines*line {
		t.Errorf("what a request touches ends at byte %d, behind %d lines", end, requestLines)
	}
	if size := unsafe.Sizeof(c); size%line != 0 {
		t.Errorf("a connection has %d bytes: the next one begins inside a line", size)
	}
}
