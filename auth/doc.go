// Package auth knows the users and decides who may do what.
//
// What it is: Kafka's operations and resource types with their numbers on the
// wire; the [Authorizer] port that every request handler asks; the KafkaUser
// resource as Go values ([ParseUser]); the [Directory] of all users in force, and
// Kafka's StandardAuthorizer over it. docs/design/security.md says how they fit.
//
// What it is not: it knows no request and no connection; a handler translates a
// denial into the error code of its own API. Logins are in the packages below,
// scram and sasl.
//
// Goroutines: a started Directory has one, which ends with Close. An Authorizer is
// called from event loops: it answers from memory, never blocks and allocates
// nothing.
//
// Lock order: Directory.mu, held for memory operations, nothing under it.
package auth
