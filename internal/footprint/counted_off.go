//go:build !valgrind

package footprint

const counted = false
