// Package consumerlog reads and writes the records of KIP-848 consumer groups in
// __consumer_offsets, byte for byte as Kafka 4.4 does (its message schemas
// ConsumerGroup*Key and ConsumerGroup*Value; all values are version 0, flexible).
// It also knows the bytes that consumers of the classic protocol keep in their joins
// and plans (ConsumerProtocolSubscription, ConsumerProtocolAssignment).
//
// What it is not: it knows no group and no protocol; records of classic groups and
// offsets are kmsg's.
//
// Values that come from a log are not trusted: every length is checked against
// what is left of the bytes before memory is made for it, and tagged fields that
// are unknown are skipped, as Kafka skips them.
//
// # Goroutines and locks
//
// None. Decoded values share no memory with the bytes.
package consumerlog
