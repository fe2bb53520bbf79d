// Package auth is the port through which every request handler asks whether a
// principal may do what the request wants.
//
// What it is: Kafka's operations and resource types with their numbers on the
// wire, the [Authorizer] port, an authorizer that allows everything, and the
// bit field in which Metadata, DescribeCluster and DescribeGroups report what
// the asking principal may do.
//
// What it is not: it knows no request, no connection and no credential. A
// handler translates a denial into the error code of its own API. ACL storage
// and SASL come with the security work and stand behind the same port.
//
// Goroutines: none. An Authorizer is called from event loops, so an
// implementation answers from memory, never blocks and is safe for concurrent
// use.
//
// Lock order: no locks.
package auth
