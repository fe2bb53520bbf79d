package invariants

import "fmt"

// Check panics in an `invariants` build when the condition does not hold. The arguments are evaluated in every build:
// on a hot path write `if invariants.Enabled { invariants.Check(...) }`.
func Check(holds bool, format string, args ...any) {
	if Enabled && !holds {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
