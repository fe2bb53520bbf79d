// Package bench is the benchmarks of kaas: the scenarios that say where it
// stands against the limits of this machine and against a rival, and the guard
// that no change makes it slower unnoticed.
//
// What it is: scenarios over the loads and loops of bench/rig, each run in
// turn with what it is compared with (A B B A), rows with their targets and
// verdicts in bench/results, the comparison with another broker, the profile
// for builds, and the regression guard with its baselines.
//
// What it is not: a part of the broker. It imports no room of the tower and
// none imports it; cmd/kaas mounts Command as `kaas bench`. Driving and
// reading processes is bench/rig's; bench/generator is the load generator.
//
// Goroutines: a scenario may run one load beside another and waits for it; what
// takes too long, and what a signal interrupts, has its child processes killed
// by a context's goroutine (within). They belong to the scenario that started
// them. Locks: children.mu and contender.mu, never held together or while
// calling out.
package bench
