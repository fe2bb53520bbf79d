//go:build race

package txn

// raceEnabled: everything is about eight times as slow.
const raceEnabled = true
