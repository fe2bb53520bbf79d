// Package limits holds every bound of the program: how many, how long, how many bytes. A queue, map or buffer anywhere
// takes its bound from here or from the broker's configuration.
//
// Each room has its own file. A bound that is the sum of others is written as that sum, one holder a line with its
// reason, so that a change of one moves the others.
//
// It is not configuration: what an operator may change is a Kafka key in meta/config. It starts no goroutines and has
// no locks.
package limits
