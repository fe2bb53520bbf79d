// Package generator is `kaas bench load`: a load generator for any broker that
// speaks Kafka's protocol.
//
// What it is: producers and consumers on franz-go, extra connections that idle
// or come and go, latencies in HDR histograms, and reports as a table, NDJSON
// and one HTML page that needs no network. In the open loop, records have
// intended send times, and latencies count from those: a broker that stalls
// is charged for every record that should have been sent meanwhile
// (coordinated omission). In the closed loop, each producer keeps a number of
// records under way.
//
// What it is not: the tool for limits. The client's own work is in its
// figures, and it says how much that was; `kaas bench frames` sends prepared
// frames. It imports no room of the tower.
//
// Goroutines: Run owns all of them and waits for them before it returns.
// Locks: recorder.mu, held for one insertion or one exchange of histograms,
// never while calling out. Counters are atomics; a reader sees each of them
// at some moment of the interval, which is all that a progress line says.
//
// assets holds uPlot 1.6.30 (MIT, see assets/LICENSE) for the page.
package generator
