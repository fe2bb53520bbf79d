// Package bench is kaas' load generator and the benchmarks that guard it.
//
// What it is: scenarios that drive a broker process over TCP with prepared
// frames, the raw reference loop that the same frames are sent to in the same
// run, the measurement of both from outside (CPU, resident memory, start-up
// time), and the NDJSON rows that a run leaves in bench/results.
//
// What it is not: a part of the broker. It imports no room of the tower and
// none imports it; cmd/kaas mounts Command as `kaas bench`.
//
// The raw loop is the physical limit that a broker is compared with: read
// from the socket, CRC32C, append to a file, and the cheaper of sendfile and
// mmap+write back to the socket. It speaks just enough of the same bytes to
// be driven by the same client and promises nothing that a broker promises.
//
// Goroutines: a driver owns one goroutine per connection and waits for all of
// them before it reports; child processes belong to the run that started
// them, which ends them before it returns. Counters that a driver's
// goroutines share are atomics read after the goroutines have ended or as
// progress samples. There are no locks to order.
package bench
