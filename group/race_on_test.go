//go:build race

package group

// raceEnabled: everything is about eight times as slow.
const raceEnabled = true
