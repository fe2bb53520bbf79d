// Package delay makes operations wait without a goroutine or an allocation for
// each: a [Timer] is a heap of deadlines with one goroutine, a [Queue] runs
// operations on a few workers. Heap entries and queue links are fields of the
// operations, so both are bounded by what exists anyway.
//
// It is not a scheduler and knows nothing of requests; who owns an operation
// when several could act on it is decided by the operation, see [Expirer].
//
// Goroutines: one for each started Timer, the workers of each started Queue;
// they end with Stop. Locks: one in each, no two are held at once, and nothing
// but Expire is called under one.
package delay
