//go:build !race

package coordinators

const raceEnabled = false
