// Package sasl is the state of one connection's authentication as Kafka's
// SaslServerAuthenticator has it: which requests it may send, the handshake, the
// tokens, how long it stays authenticated (KIP-368). It knows no request's bytes
// and does no I/O: the broker translates.
//
// A Session belongs to its connection's event loop. There are no goroutines and no
// locks.
package sasl
