//go:build invariants

package invariants

// Enabled is true in builds with the tag `invariants`: borrowed buffers are poisoned, double releases panic.
const Enabled = true
