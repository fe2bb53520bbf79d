package bench

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"kaas/bench/rig"
)

// durable is what acks=all costs when it means stable storage.
func durable(o options, out io.Writer) (figures []figure, err error) {
	for _, part := range []func(options, io.Writer) ([]figure, error){durableThroughput, durableSustained, durableLatency, durablePartitions} {
		found, failure := part(o, out)
		figures, err = append(figures, found...), errors.Join(err, failure)
	}
	return figures, err
}

// durableWarmUpBytes let the broker's journal of commits grow to the size that it has under a load.
const durableWarmUpBytes = 300_000_000

func durableSides() []side {
	return []side{{"kaas", startKaas("1"), -1}, {"kaas-unsynced", startKaas(neverFlush), -1}}
}

// durableLoads are 64 KB batches to 16 partitions, in flight: one batch a request (20), the bytes of Java producers with four
// partitions each (80), and requests as Java producers of all partitions send them, up to max.request.size (320).
func durableLoads() (narrow, middle, wide rig.Load) {
	narrow = rig.CostOfAByte(-1)
	middle, wide = narrow, narrow
	middle.InFlight *= narrow.Partitions / narrow.Producers
	wide.Wide = true
	return narrow, middle, wide
}

func inFlight(l rig.Load) string {
	batches := l.InFlight * l.Producers
	if l.Wide {
		batches *= l.Partitions
	}
	return fmt.Sprintf(", %d in flight", batches)
}

func megabytesPerSecond(s sample) float64 { return s.gigabytes() * 1000 / s.Took.Seconds() }

// durableThroughput compares the broker with itself: acks=all with and without forcing. The runs are short: all that the
// unsynced side has written is still in memory at their end, so its figure is one of a burst, and so is the ratio.
func durableThroughput(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "durable"
	sides := durableSides()
	sustained := func(s sample) float64 { return s.gigabytes() * 1000 / s.settled.Seconds() }
	o.warmUpBytes, o.settle = durableWarmUpBytes, true
	cost, err := rig.DurableCost(o.DataParent, max(o.Bytes, 256<<20))
	if err != nil {
		return nil, err
	}
	figures = append(figures, newFigure(scenario, "bare", "CPU of durable blocks, beyond the append", "s/GB", "batches of 64 KB in blocks of 1 MiB past the page cache, a sync each, 16 files synced every 64 MiB", []float64{cost}))
	narrow, middle, wide := durableLoads()
	for _, l := range []rig.Load{narrow, middle, wide} {
		samples, err := measureInTurn(o, scenario+inFlight(l), l, o.Rounds, sides, out)
		if err != nil {
			return figures, err
		}
		what := inFlight(l)
		for i, sd := range sides {
			figures = append(figures, newFigure(scenario, sd.name, "throughput"+what, "MB/s", "produce and follow, 64 KB batches, 16 partitions, acks=all", each(samples[i], megabytesPerSecond)),
				newFigure(scenario, sd.name, "CPU"+what, "s/GB", "", each(samples[i], cpuPerGB)))
		}
		bound := each(samples[1], func(s sample) float64 {
			return float64(runtime.NumCPU()) * 1000 / ((s.cpu.Total+s.generator).Seconds()/s.gigabytes() + cost)
		})
		figures = append(figures,
			newFigure(scenario, "kaas", "throughput"+what+", ratio to its own unsynced mode", "1", "a burst: what the unsynced side wrote is in memory at the end", ratios(each(samples[0], megabytesPerSecond), each(samples[1], megabytesPerSecond))),
			newFigure(scenario, "kaas", "throughput"+what+", until nothing is dirty, ratio to its own unsynced mode", "1", "both with the time of a syncfs at the end", ratios(each(samples[0], sustained), each(samples[1], sustained))),
			newFigure(scenario, "bound", "throughput"+what, "MB/s", "all processors busy with nothing but the unsynced run, its generator and the durable blocks", bound),
			newFigure(scenario, "kaas", "throughput"+what+", ratio to the bound", "1", "", ratios(each(samples[0], megabytesPerSecond), bound)))
	}
	return figures, nil
}

// durableSustainedBytes bounds a warm-up of durableSustained: where the kernel lets more of a large memory become dirty, the
// unsynced side is still measured as a burst, in part. The rows say how much of what it took it has written.
const durableSustainedBytes = 8_000_000_000

// durableSustained compares the two modes as they go on for longer than the kernel keeps dirty pages: the warm-up fills memory up to the
// limit at which it writes back, nothing is synced before or after the run that counts, and who writes what to the disk meanwhile, the broker or
// the kernel, takes from the same processors. The target is of producers that send what Kafka's do.
func durableSustained(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "durable"
	sides := durableSides()
	background, err := rig.DirtyBackground()
	if err != nil {
		return nil, err
	}
	o.warmUpBytes = min(background+background/4, durableSustainedBytes)
	o.Bytes = max(o.Bytes, min(background, durableSustainedBytes))
	narrow, _, wide := durableLoads()
	for _, l := range []rig.Load{wide, narrow} {
		rounds := o.Rounds
		if !l.Wide {
			rounds = 1
		}
		samples, err := measureInTurn(o, scenario+", sustained"+inFlight(l), l, rounds, sides, out)
		if err != nil {
			return figures, err
		}
		what := ", sustained" + inFlight(l)
		for i, sd := range sides {
			figures = append(figures, newFigure(scenario, sd.name, "throughput"+what, "MB/s", fmt.Sprintf("%.1f GB after %.1f GB", float64(o.Bytes)/1e9, float64(o.warmUpBytes)/1e9), each(samples[i], megabytesPerSecond)),
				newFigure(scenario, sd.name, "CPU"+what, "s/GB", "without that of kernel threads that write back", each(samples[i], cpuPerGB)))
			if samples[i][0].written > 0 {
				figures = append(figures, newFigure(scenario, sd.name, "bytes to the device for each produced"+what, "1", "all that the device took meanwhile", each(samples[i], func(s sample) float64 { return float64(s.written) / float64(s.Bytes) })))
			}
		}
		ratio := newFigure(scenario, "kaas", "throughput"+what+", ratio to its own unsynced mode", "1", "both longer than the kernel keeps dirty pages", ratios(each(samples[0], megabytesPerSecond), each(samples[1], megabytesPerSecond)))
		if l.Wide {
			ratio = ratio.atLeast(0.9)
		}
		figures = append(figures, ratio)
	}
	return figures, nil
}

// durableLatency compares an acknowledged 4 KB with a bare 4 KB append and fdatasync, one at a time, in short blocks that take
// turns: the disk has better and worse seconds.
func durableLatency(o options, out io.Writer) (figures []figure, err error) {
	const scenario, length = "durable", time.Second
	s, err := startKaas("1")(o, rig.Load{Topic: "one", Partitions: 1, BatchBytes: 4096, ValueBytes: 900})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := rig.SyncVolume(s.dir); err != nil { // what was written before is not written back meanwhile
		return nil, err
	}
	frames := smallFrames("one", 1, -1, 4096)
	// Until the journal of commits has its size, for a load that does not end.
	if _, err := rig.Timed(s.address, frames, rig.ProduceAnswer("one"), 2*time.Second); err != nil {
		return nil, s.explain(err)
	}
	var sides [2]quantiles
	err = turns(4*o.Rounds, 2, func(i int) error {
		if err := rig.WarmMemory(64 << 20); err != nil {
			return err
		}
		name, run := "kaas", func() (rig.Latencies, error) {
			return rig.Timed(s.address, frames, rig.ProduceAnswer("one"), length)
		}
		if i == 1 {
			name, run = "bare-fdatasync", func() (rig.Latencies, error) { return rig.Synced(s.dir, length) }
		}
		l, err := run()
		if err == nil {
			sides[i].add(l)
			sayLatency(out, scenario, name+", one at a time", l)
		}
		return s.explain(err)
	})
	if err != nil {
		return nil, err
	}
	figures = append(sides[0].figures(scenario, "kaas", "ack, one at a time"), sides[1].figures(scenario, "bare-fdatasync", "4 KB append and fdatasync")...)
	return append(figures, newFigure(scenario, "kaas", "ack p99, ratio to a bare append and fdatasync", "1", "acks=all, 4 KB, one at a time, blocks of a second in turn", ratios(sides[0].p99, sides[1].p99)).atMost(1.2)), nil
}

// durablePiece is how long 1 and 100 partitions are measured before it is the turn of the other.
const durablePiece = 300 * time.Millisecond

// durablePartitions offers the same number of requests a second to more and
// more partitions: a commit must serve all that wait, whatever their files.
func durablePartitions(o options, out io.Writer) (figures []figure, err error) {
	const scenario, rate = "durable", 2000
	counts := []int{1, 10, 100, 1000}
	s, err := startBroker(o, rig.CostOfAByte(-1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := rig.SyncVolume(s.dir); err != nil {
		return nil, err
	}
	found := make([]quantiles, len(counts))
	paced := make([]*rig.Paced, len(counts))
	run := func(i int) (rig.Latencies, error) {
		if err := rig.WarmMemory(64 << 20); err != nil {
			return nil, err
		}
		l, err := paced[i].Run()
		if err != nil {
			err = s.explain(fmt.Errorf("%d partitions: %w", counts[i], err))
		}
		return l, err
	}
	for i, n := range counts {
		topic := fmt.Sprintf("spread-%d", n)
		d := rig.NewDriver(rig.Load{Topic: topic, Partitions: n, BatchBytes: 4096, ValueBytes: 900}, s.address)
		if err := d.CreateTopic([][2]string{{"flush.messages", "1"}}); err != nil {
			return nil, s.explain(err)
		}
		paced[i] = &rig.Paced{Address: s.address, Frames: smallFrames(topic, n, -1, 4096), Check: rig.ProduceAnswer(topic), Connections: 8, Rate: rate, WarmUp: time.Second / 4, Length: 3 * time.Second / 2}
		if _, err := run(i); err != nil { // the files are made, and the journal of commits has its size
			return nil, err
		}
	}
	// 1 and 100 are compared, so they are neighbours, in turn, and in pieces so short that most have no stall of a virtual machine in
	// them (docs/design/logstore-figures.md): one of 15 ms is the p99 of 1.5 s. The median of the pairs is judged.
	paced[0].Length, paced[2].Length = durablePiece, durablePiece
	order := []int{1, 3}
	for range 16 * o.Rounds {
		order = append(order, 0, 2, 2, 0)
	}
	var late []float64
	for _, i := range append(order, 3, 1) {
		l, err := run(i)
		if err != nil {
			return nil, err
		}
		found[i].add(l)
		if i == 2 {
			late = append(late, paced[i].Late.At(0.99))
		}
		sayLatency(out, scenario, fmt.Sprintf("kaas, %d partitions", counts[i]), l)
	}
	for i, n := range counts {
		figures = append(figures, found[i].figures(scenario, "kaas", fmt.Sprintf("ack, %d/s over %d partitions", rate, n))[1:]...)
		if n == 100 {
			figures = append(figures, newFigure(scenario, "bare", "lateness of the sender, 100 partitions, p99", "ms", "in the latencies beside it: it had no processor", late))
			figures = append(figures, newFigure(scenario, "kaas", "ack p99, 100 partitions against 1", "1", fmt.Sprintf("%d requests of 4 KB a second in all, at intended times, 8 connections", rate), ratios(found[i].p99, found[0].p99)).atMost(1.3))
		}
	}
	return figures, nil
}
