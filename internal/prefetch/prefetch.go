//go:build amd64 || arm64

package prefetch

import "unsafe"

// Lines asks for so many cache lines (64 bytes each, at least one) from p on.
//
//go:noescape
func Lines(p unsafe.Pointer, lines int)
