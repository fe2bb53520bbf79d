// Package firstuse makes topics because a client names them: auto-creation by
// Metadata, and the internal topics that FindCoordinator needs. It knows with what
// each of them is made and how long a reply may wait for it.
//
// What it is not: it does not decide who may create what (the handlers ask the
// authorizer), and it makes nothing itself; a topic is a resource, and
// meta.TopicCreator writes it.
//
// # Goroutines and locks
//
// None. Create blocks and runs on the worker pool.
package firstuse
