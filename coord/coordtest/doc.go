// Package coordtest is a log in memory for tests of coord and of the machines on
// it: commits can be held back, appends can fail, and a crash loses what was not
// committed. [Partition] is a data partition, for simulations of transactions.
// [Schedule] is the time of a simulation: what happens when, in one order.
//
// It is not used by the program. It starts no goroutines; its one lock is a leaf,
// callbacks run without it.
package coordtest
