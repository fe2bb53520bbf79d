package prefetch

import (
	"testing"
	"unsafe"
)

// A hint has no effect that could be asserted, but it may name any address.
func TestLinesNeverFaults(t *testing.T) {
	t.Parallel()
	var local [256]byte
	Lines(unsafe.Pointer(&local), 4)
	Lines(unsafe.Pointer(&local), 0)
	Lines(unsafe.Pointer(&local), -1)
	Lines(nil, 3)
	if local != [256]byte{} {
		t.Fatal("it wrote")
	}
}

func TestLinesDoesNotAllocate(t *testing.T) {
	object := new([512]byte)
	if n := testing.AllocsPerRun(100, func() { Lines(unsafe.Pointer(object), 8) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkLines(b *testing.B) {
	object := new([512]byte)
	for b.Loop() {
		Lines(unsafe.Pointer(object), 4)
	}
}
