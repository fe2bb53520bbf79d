//go:build valgrind

package footprint

// counted: this build's instructions are counted, and what happens by the clock would be in some counts and not in others.
const counted = true
