// Package prefetch asks the processor for memory that is about to be touched.
//
// Among ten thousand partitions or thousands of connections a request finds nothing of its own in the caches, and what it
// touches is a chain: each object holds the pointer to the next. A miss costs about as much as the checksum of a small
// batch. Where the objects of the next step are known early, all their lines are asked for at once, and come while
// something else is done (docs/design/performance-log.md has what that gave).
//
// It is a hint: it never faults, whatever the pointer, orders nothing and changes nothing, so it may name memory that other
// goroutines write. It is not a way to make a loop faster whose memory is in the caches: a call costs a nanosecond or two.
//
// No goroutines, no locks.
package prefetch
