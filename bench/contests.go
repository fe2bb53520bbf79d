package bench

import (
	"fmt"
	"slices"
	"strings"

	"kaas/bench/rig"
)

// contest is one load that both sides run, in turn.
type contest struct {
	name    string
	durable bool // flush.messages=1 on both sides; else Kafka's default, which never forces
	drain   bool // produce first; only reading is measured
	storm   bool // small keyed requests; load says only the topic
	bytes   float64
	load    rig.Load
	seconds int                 // that it takes by default beside Apache Kafka, on two processors
	judge   func(figure) figure // of the ratios to Apache Kafka; nil: none has a target
}

// restRows and latencyRows stand for rows that are no contests when rows are chosen.
const (
	restRows    = "at rest"
	latencyRows = "latency"
)

// chosen keeps the contests whose name holds one of the words, which are separated by semicolons, from the begin of a word of the
// name on: 4 KB is no part of 64 KB. It tells of a name that is none of a contest, too.
func chosen(words string) func(name string) bool {
	wanted := strings.FieldsFunc(words, func(r rune) bool { return r == ';' })
	return func(name string) bool {
		return len(wanted) == 0 || slices.ContainsFunc(wanted, func(word string) bool { return strings.Contains(" "+name, " "+strings.TrimSpace(word)) })
	}
}

// compareRows are the names of all rows.
func compareRows() []string {
	names := []string{restRows, latencyRows}
	for _, c := range contests() {
		names = append(names, c.name)
	}
	return names
}

// checkRows names what there is when nothing of it was chosen.
func checkRows(words string) error {
	names := compareRows()
	if slices.ContainsFunc(names, chosen(words)) {
		return nil
	}
	return fmt.Errorf("--rows %s: allowed are parts of these names, separated by semicolons:\n  %s", words, strings.Join(names, "\n  "))
}

// A ratio is judged by its name: a contest has a target for one of them.
const (
	cpuRatio        = "CPU per GB"
	throughputRatio = "throughput"
	requestsRatio   = "requests per CPU second"
)

func judging(name string, target func(figure) figure) func(figure) figure {
	return func(f figure) figure {
		if strings.HasPrefix(f.Name, name+",") {
			return target(f)
		}
		return f
	}
}

func below(bound float64) func(figure) figure {
	return func(f figure) figure { return f.atMost(bound) }
}
func above(bound float64) func(figure) figure {
	return func(f figure) figure { return f.atLeast(bound) }
}

// contests are the rows; the shares are of --megabytes.
func contests() []contest {
	single := rig.Load{Partitions: 100, Producers: 100, Consumers: 4, InFlight: 5, Acks: 1, BatchBytes: 200, ValueBytes: 100, MaxPartitionBytes: 1 << 20}
	durable100 := single
	durable100.Acks, durable100.BatchBytes, durable100.ValueBytes = -1, 16<<10, 1<<10
	durableSmall, durableLarge := durable100, durable100
	durableSmall.BatchBytes, durableLarge.BatchBytes = 4<<10, 64<<10
	wide := rig.CostOfAByte(1)
	wide.Partitions = 100
	large := rig.CostOfAByte(1)
	large.BatchBytes = 1_000_000
	middle := rig.CostOfAByte(1)
	middle.BatchBytes = 256 << 10
	only := rig.CostOfAByte(1)
	only.Consumers = 0
	backlog := rig.CostOfAByte(1)
	backlog.Consumers, backlog.MaxBytes = 2, 1<<20
	lz4, zstd := rig.CostOfAByte(1), rig.CostOfAByte(1)
	lz4.Codec, zstd.Codec = "lz4", "zstd"
	eight := rig.CostOfAByte(1)
	eight.FanOut, eight.Consumers = 8, 1
	small := stormLoad()
	small.Producers = 200
	return []contest{
		{name: "produce and follow, 64 KB batches, 16 partitions", bytes: 1, seconds: 18, load: rig.CostOfAByte(1), judge: judging(cpuRatio, below(0.25))},
		{name: "produce and follow, 256 KB batches, 16 partitions", bytes: 1, seconds: 14, load: middle, judge: judging(cpuRatio, below(0.25))},
		{name: "produce only, 64 KB batches, 16 partitions", bytes: 1, seconds: 14, load: only},
		{name: "produce and follow, 1 MB batches, 16 partitions", bytes: 1, seconds: 14, load: large},
		{name: "produce and follow, 64 KB batches, 100 partitions", bytes: 1, seconds: 21, load: wide},
		{name: "produce and follow, lz4, GB of compressed bytes", bytes: 0.4, seconds: 14, load: lz4},
		{name: "produce and follow, zstd, GB of compressed bytes", bytes: 0.4, seconds: 21, load: zstd},
		{name: "produce and follow, 64 KB batches, 16 partitions, acks=all", durable: true, bytes: 0.4, seconds: 18, load: rig.CostOfAByte(-1)},
		{name: "16 KB batches, 100 partitions and connections, acks=all", durable: true, bytes: 0.6, seconds: 43, load: durable100, judge: judging(throughputRatio, above(10))},
		{name: "4 KB batches, 100 partitions and connections, acks=all", durable: true, bytes: 0.15, seconds: 57, load: durableSmall, judge: judging(throughputRatio, above(10))},
		{name: "64 KB batches, 100 partitions and connections, acks=all", durable: true, bytes: 1, seconds: 65, load: durableLarge, judge: judging(throughputRatio, above(10))},
		{name: "one 100-byte record a batch, 100 partitions and connections", bytes: 0.02, seconds: 30, load: single},
		{name: "storm: 1 to 10 keyed records of 100 B, 200 connections", storm: true, bytes: 0.15, seconds: 23, load: small, judge: judging(requestsRatio, above(5))},
		{name: "read a backlog, 1 MiB fetches on 2 connections", drain: true, bytes: 1, seconds: 25, load: backlog, judge: judging(cpuRatio, below(1))},
		{name: "8 readers at the tail", bytes: 0.5, seconds: 14, load: eight, judge: judging(cpuRatio, below(0.35))},
	}
}

// stable says for both sides of a contest what an acknowledgement means. A rival may have refused to be told.
func (c contest) stable(refused bool) string {
	switch {
	case refused && c.durable:
		return "durable on kaas' side: flush.messages=1, acknowledged after the bytes are on stable storage; the rival refuses flush.messages, and acknowledges as it does by default"
	case refused:
		return "not durable on kaas' side: acknowledged from the page cache; the rival refuses flush.messages, and acknowledges as it does by default"
	case c.durable:
		return "durable on both sides: flush.messages=1, acknowledged after the bytes are on stable storage"
	}
	return "not durable on either side: acknowledged from the page cache"
}
