// Package bufpool lends byte buffers with a reference count: frames from the network, replies on their way out.
//
// A buffer comes from a size class (512 B to 1 MiB, powers of two); larger ones are made and left to the collector.
// Get and Release do not allocate in steady state. What nobody has used for a while goes back to the collector, so an
// idle broker keeps no buffers.
// A part (Buf.Part) is a range of a buffer with a count of its own: the frames of one read share its buffer.
//
// It is not an arena and it zeroes nothing: contents after Get are undefined. In an `invariants` build a released
// buffer is filled with 0xDB and a second release panics.
//
// It starts one goroutine, which exists only while idle buffers exist and trims them. Lock order: each class and the list
// of part headers have one mutex, no two are held at once, nothing is called under one.
package bufpool
