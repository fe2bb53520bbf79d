// Package registry is the map from topic and number to a partition: readers take no lock and allocate nothing, one writer at a
// time copies the part that it changes.
//
// It knows nothing of what a partition is, and does not serialise its writers: their owner's lock does (logstore: Store.mu). Turns is for
// what takes longer than a lock may be held.
//
// It owns no goroutines. Turns.mu is a leaf.
package registry
