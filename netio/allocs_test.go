package netio

import (
	"io"
	"testing"

	"kaas/internal/bufpool"
	"kaas/internal/invariants"
)

// A request costs no allocation, whoever completes it and whatever its reply is made of. Not parallel: the allocations
// of the whole process are counted.
func TestRequestsDoNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("an invariants build does not reuse slots")
	}
	file, _, mapping := testFile(t, 128<<10)
	pin := nopPin{}
	elsewhere := make(chan *Slot, 16)
	go func() {
		for s := range elsewhere {
			s.Bytes(bufpool.Get(8))
			s.Done()
		}
	}()
	defer close(elsewhere)
	handlers := map[string]struct {
		reply int
		frame func(c *Conn, frame *bufpool.Buf) error
	}{
		"on the loop": {4 + 64, echo},
		"by another goroutine": {8, func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			elsewhere <- c.Reserve()
			return nil
		}},
		"file ranges": {4 + 1000 + 128<<10, func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			s := c.Reserve()
			s.Bytes(bufpool.Get(4))
			s.File(FileRange{FD: int(file.Fd()), Len: 1000, Mem: mapping[:1000], Pin: pin})
			s.File(FileRange{FD: int(file.Fd()), Len: 128 << 10, Mem: mapping, Pin: pin})
			s.Done()
			return nil
		}},
	}
	for name, what := range handlers {
		t.Run(name, func(t *testing.T) {
			_, addr := startServer(t, &testHandler{frame: what.frame}, nil)
			c := dial(t, addr)
			request, answer := frameOf(make([]byte, 64)), make([]byte, what.reply)
			allocs := testing.AllocsPerRun(500, func() {
				if _, err := c.Write(request); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					t.Fatal(err)
				}
			})
			if allocs >= 0.05 { // what the rest of the process does meanwhile
				t.Errorf("%v allocations a request", allocs)
			}
		})
	}
}

type nopPin struct{}

func (nopPin) Release() {}
