// Package probe asks a log directory, again and again, whether it is there and takes writes, so that /readyz tells of a volume that
// failed, was detached or turned read-only while nobody wrote to it. What it asks and what counts as an answer:
// docs/design/logstore-conformance.md, the probe.
//
// It is not the judge of partitions: they go offline by what they meet themselves, and a probe that fails takes none down.
//
// It owns one goroutine for each directory, which asks one question at a time, so a disk that hangs holds one thread. It has no lock:
// what it found is published in one atomic pointer, the begin of a question in an atomic number.
package probe
