// Package healer tries something again and again for each of many keys until it works, with pauses that grow: the log store
// brings partitions back with it that a failing disk took down. It knows nothing of partitions.
//
// Each key that is added has a goroutine until its try has succeeded or Stop was called. The one lock is a leaf.
package healer
