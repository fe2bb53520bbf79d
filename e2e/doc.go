// Package e2e holds the end-to-end tests: the built binary, driven over TCP
// by programs that are not ours.
//
// What it is: Go tests behind the build tag e2e. They start the broker binary
// named by KAAS_BIN on a free port with an empty directory and then use kcat,
// Apache Kafka's own command-line tools (e2e/kafka fetches their jars), franz-go,
// and the Java programs in e2e/conformance: one judges every version of every key
// with Kafka's protocol classes, one calls every method of its admin client, others
// are applications of its plain clients and of Kafka Streams.
//
// What it is not: a place for unit tests or for timing. It imports no other
// package of kaas, so nothing in it can agree with a bug of the broker by
// sharing its code.
//
// The same tests run against Apache Kafka (KAAS_E2E_TARGET=kafka): that run
// is the proof that the tests themselves are right.
//
// A program that is missing fails the test with the words that install it;
// nothing is skipped in silence.
//
// Goroutines: each test owns the ones that it starts and waits for them
// before it returns; a broker under test is killed by its test's cleanup.
// There are no locks to order.
package e2e
