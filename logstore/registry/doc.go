// Package registry is the map from topic and number to a partition: readers take no lock and allocate nothing, one writer at a
// time copies the part that it changes.
//
// It knows nothing of what a partition is, and does not serialise its writers: their owner's lock does (logstore: Store.mu).
//
// It owns no goroutines and has no lock.
package registry
