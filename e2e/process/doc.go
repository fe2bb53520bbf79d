// Package process is what the tests of built programs share: how such a program is started and ended, where it
// may listen, what it said last, and how to wait for what it does.
//
// It knows no room of kaas and no protocol. Only tests below e2e import it.
//
// Goroutines: one for each [Process], until it has ended. Locks: [Tail] has one, a leaf.
package process
