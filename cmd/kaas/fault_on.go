//go:build guardtest

package main

import (
	"os"
	"slices"
	"syscall"

	"kaas/internal/bufpool"
	"kaas/netio"
)

// faulty makes the hot path worse in the way that KAAS_GUARD_FAULT names, once
// for each request: the regression guard's own tests show that it notices.
// Only builds with the tag guardtest hold this.
func faulty(h netio.Handler) netio.Handler {
	fault := os.Getenv("KAAS_GUARD_FAULT")
	if !slices.Contains([]string{"", "copy", "allocation", "syscall"}, fault) {
		panic("KAAS_GUARD_FAULT is " + fault + ": allowed is copy, allocation or syscall")
	}
	return &faultyHandler{h, fault, make([]byte, 1<<20)}
}

type faultyHandler struct {
	netio.Handler
	fault   string
	scratch []byte // loops write it at the same time: nobody reads it
}

var kept []byte // what is allocated must not stay on the stack

func (f *faultyHandler) OnFrame(c *netio.Conn, frame *bufpool.Buf) error {
	switch f.fault {
	case "copy":
		copy(f.scratch, frame.B)
	case "allocation":
		kept = make([]byte, 32)
	case "syscall":
		_ = syscall.Getppid()
	}
	return f.Handler.OnFrame(c, frame)
}
