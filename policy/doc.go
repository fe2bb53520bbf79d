// Package policy evaluates the policies that operators write for admin requests:
// CEL expressions, the language that Kubernetes itself uses for admission.
//
// A policy is one expression over the metadata of a request. true or "" lets the
// request pass; false denies it, and so does a text, which is then the message
// that the client reads. It is compiled once, at start, and only when it is
// configured; a broker without policies never touches the CEL library beyond
// what the Go linker initialises.
//
// It is not an authorizer: who may do what is package auth, and is asked first.
// It knows no request, no resource and no Kafka error code; package admin hands it
// values by name and turns a denial into POLICY_VIOLATION.
//
// A policy fails closed: what can't be evaluated, or costs more than
// limits.PolicyCost, is denied with the reason.
//
// Ownership: a Policy is immutable and safe for concurrent use. The package starts
// no goroutine and has no locks.
package policy
