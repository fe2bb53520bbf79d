// Package invariants says whether this build checks what must hold at any cost: `go test -tags invariants`.
//
// It is a constant, so the compiler removes every `if invariants.Enabled` from other builds. It is not for faults of
// disk, peer or client, which are errors in every build.
//
// It starts no goroutines and has no locks.
package invariants
