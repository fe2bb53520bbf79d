//go:build race

package coordinators

// raceEnabled: everything is about eight times as slow.
const raceEnabled = true
