// Package scram is the server's half of SCRAM-SHA-512 (RFC 5802, RFC 7677,
// KIP-84): credentials and the exchange of four messages. It does no I/O and
// knows no Kafka message.
//
// It is written here because the Go libraries normalise user names with SASLprep,
// which neither Kafka's clients nor its broker do: such a broker compares another
// name than the one that the credential was made for. Passwords never come here,
// so nothing has to be prepared.
//
// An Exchange belongs to one goroutine at a time. There are no goroutines and no
// locks.
package scram
