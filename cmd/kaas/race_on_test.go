//go:build race

package main

// raceEnabled: under the race detector sync.Pool drops at random, so what is
// pooled allocates.
const raceEnabled = true
