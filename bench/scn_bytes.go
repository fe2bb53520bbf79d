package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"kaas/bench/generator"
	"kaas/bench/rig"
)

// What the issue measured of Apache Kafka 4.4 on a like machine, broker CPU
// seconds a GB. `make bench-compare` measures both on this one.
const (
	kafkaByteCPU   = 3.1
	kafkaDrainCPU  = 0.31
	kafkaFanOutCPU = 3.6
	kafkaStorm     = 25_300 // requests of one record a CPU second
	kafkaReference = "against the figure of Apache Kafka on a like machine; bench-compare measures it here"
)

const allocationsPerRequest = "allocations"

// sample is one measured run of one side.
type sample struct {
	rig.Outcome
	cpu                           rig.CPU
	generator                     time.Duration // of this process's processor time
	settled                       time.Duration // from the begin until nothing of the volume was dirty, when that was asked for
	written                       int64         // bytes that the volume's device took meanwhile; 0: not known
	allocations, allocating       int64         // objects of so many requests; 0 requests: not known
	resident, anonymous, idleAnon int64
	idleResident                  int64
}

func (s sample) gigabytes() float64 { return float64(s.Bytes) / 1e9 }

// warmUpBytes go through a side before it is measured: pools are filled, the
// segments exist, TCP has found its windows.
const warmUpBytes = 64_000_000

// measure runs one side once, in a new process with an empty directory.
func measure(o options, sd side, l rig.Load) (result sample, err error) {
	l.Acks = sd.acks
	warmUp := max(o.warmUpBytes, warmUpBytes)
	if err := rig.WarmMemory(o.Bytes + warmUp + 256<<20); err != nil {
		return sample{}, err
	}
	s, err := sd.start(o, l)
	if err != nil {
		return sample{}, err
	}
	defer func() {
		if err != nil {
			err = s.explain(fmt.Errorf("%s: %w", sd.name, err))
		}
		err = errors.Join(err, s.close())
	}()
	if result.idleResident, result.idleAnon, err = s.Memory(); err != nil {
		return result, err
	}
	if _, err = s.driver.Run(warmUp); err != nil {
		return result, err
	}
	// Each run opens its connections, and asking for the count allocates, too: what a short run costs is taken off.
	var before, short int64
	var few rig.Outcome
	if s.httpAddress != "" {
		first, err := rig.Mallocs(s.httpAddress)
		if err != nil {
			return result, err
		}
		if few, err = s.driver.Run(warmUpBytes); err != nil {
			return result, err
		}
		if before, err = rig.Mallocs(s.httpAddress); err != nil {
			return result, err
		}
		short = before - first
	}
	if err := result.time(o, s); err != nil {
		return result, err
	}
	if result.resident, result.anonymous, err = s.Memory(); err != nil {
		return result, err
	}
	if s.httpAddress != "" {
		after, err := rig.Mallocs(s.httpAddress)
		if err != nil {
			return result, err
		}
		result.allocations, result.allocating = after-before-short, result.Produces+result.Fetches-few.Produces-few.Fetches
	}
	return result, nil
}

// time is the run that counts.
func (result *sample) time(o options, s *subject) error {
	if o.settle { // what the warm-up left is not of the run
		if err := rig.SyncVolume(s.dir); err != nil {
			return err
		}
	}
	before, err := s.CPU()
	if err != nil {
		return err
	}
	device := rig.DeviceWritten(s.dir)
	own, begin := generator.OwnCPU(), time.Now()
	if err := s.meter.during(func() (err error) { result.Outcome, err = s.driver.Run(o.Bytes); return err }); err != nil {
		return err
	}
	result.generator, result.written = generator.OwnCPU()-own, rig.DeviceWritten(s.dir)-device
	after, err := s.CPU()
	if err != nil {
		return err
	}
	result.cpu = after.Since(before)
	if o.settle {
		err = rig.SyncVolume(s.dir)
		result.settled = time.Since(begin)
	}
	return err
}

func each(samples []sample, f func(sample) float64) (values []float64) {
	for _, s := range samples {
		values = append(values, f(s))
	}
	return values
}

func cpuPerGB(s sample) float64 { return s.cpu.Total.Seconds() / s.gigabytes() }

// perRequest is of the requests that a run has more than a short one: what does not come again with each of them is in both.
func perRequest(s sample) float64 { return float64(s.allocations) / float64(s.allocating) }

const mib = 1 << 20

func sideFigures(scenario, name string, samples []sample) []figure {
	add := func(figureName, unit string, f func(sample) float64) figure {
		return newFigure(scenario, name, figureName, unit, "", each(samples, f))
	}
	figures := []figure{
		add("CPU", "s/GB", cpuPerGB),
		add("CPU, user", "s/GB", func(s sample) float64 { return s.cpu.User.Seconds() / s.gigabytes() }),
		add("CPU, system", "s/GB", func(s sample) float64 { return s.cpu.System.Seconds() / s.gigabytes() }),
		add("throughput", "MB/s", func(s sample) float64 { return s.gigabytes() * 1000 / s.Took.Seconds() }),
		add("resident memory, loaded", "MiB", func(s sample) float64 { return float64(s.resident) / mib }),
		add("anonymous memory, loaded", "MiB", func(s sample) float64 { return float64(s.anonymous) / mib }),
	}
	if len(samples) > 0 && samples[0].Fetches > 0 {
		figures = append(figures, add("bytes per fetch", "KiB", func(s sample) float64 { return float64(s.Bytes) / float64(s.Fetches) / 1024 }))
	}
	if len(samples) > 0 && samples[0].allocating > 0 {
		figures = append(figures, add(allocationsPerRequest, "objects/request", perRequest).noting("of a run less those of a shorter one; timers and collections cost some; make bench-check counts exactly"))
	}
	return figures
}

// rounds measures each side in turn, each time in a new process.
func measureInTurn(o options, name string, l rig.Load, rounds int, sides []side, out io.Writer) ([][]sample, error) {
	samples := make([][]sample, len(sides))
	err := turns(rounds, len(sides), func(i int) error {
		s, err := measure(o, sides[i], l)
		if err != nil {
			return err
		}
		samples[i] = append(samples[i], s)
		fmt.Fprintf(out, "%-24s %-14s %7.0f MB/s %6.3f CPU s/GB\n", name, sides[i].name, s.gigabytes()*1000/s.Took.Seconds(), cpuPerGB(s))
		return nil
	})
	return samples, err
}

// unforced are the broker and the two raw loops, none of which forces anything.
func unforced() []side {
	return []side{{"kaas", startKaas(neverFlush), 1}, {rawSide + rawSendfile, startRaw(rawSendfile), 1}, {rawSide + rawMapped, startRaw(rawMapped), 1}}
}

const rawSide = "raw-"

// againstRaw is the broker's cost as a ratio to the cheaper raw loop.
func againstRaw(scenario string, sides []side, samples [][]sample) (figures []figure) {
	for i, sd := range sides {
		figures = append(figures, sideFigures(scenario, sd.name, samples[i])...)
	}
	best := 1
	if median(each(samples[2], cpuPerGB)) < median(each(samples[1], cpuPerGB)) {
		best = 2
	}
	ratio := newFigure(scenario, "kaas", "CPU, ratio to the cheaper raw loop", "1", sides[best].name, ratios(each(samples[0], cpuPerGB), each(samples[best], cpuPerGB)))
	return append(figures, ratio)
}

// costOfBytes is the first row of the targets: produce and follow at the tail.
func costOfBytes(o options, out io.Writer) (figures []figure, err error) {
	for _, kib := range []int{64, 256} {
		l, rounds := rig.CostOfAByte(1), o.Rounds
		l.BatchBytes = kib << 10
		name := fmt.Sprintf("bytes, %d KB", kib)
		if kib != 64 {
			rounds = 1
		}
		samples, err := measureInTurn(o, name, l, rounds, unforced(), out)
		if err != nil {
			return figures, err
		}
		found := againstRaw(name, unforced(), samples)
		last := len(found) - 1
		found[last] = found[last].atMost(1.25)
		for i, f := range found {
			if f.Name == allocationsPerRequest {
				found[i] = f.judged("0, to a tenth", math.Abs(f.Median) < 0.05)
			}
		}
		figures = append(figures, found...)
		figures = append(figures, newFigure(name, "kaas", "CPU", "s/GB", kafkaReference, each(samples[0], cpuPerGB)).atMost(0.25*kafkaByteCPU))
	}
	return figures, nil
}

// appendOnly is half of it: what goes in and is not read.
func appendOnly(o options, out io.Writer) ([]figure, error) {
	l := rig.CostOfAByte(1)
	l.Consumers = 0
	samples, err := measureInTurn(o, "append", l, 1, unforced(), out)
	if err != nil {
		return nil, err
	}
	return againstRaw("append", unforced(), samples), nil
}

// drain reads a warm backlog with two connections and fetches of 1 MiB, again
// and again.
func drain(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "drain"
	l := rig.CostOfAByte(1)
	l.Consumers, l.MaxPartitionBytes, l.MaxBytes = 2, 1<<20, 1<<20
	if err := rig.WarmMemory(3*o.Bytes + 512<<20); err != nil {
		return nil, err
	}
	sides := unforced()
	subjects, err := startAll(o, l, sides...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(subjects)) }()
	read := func(s *subject) (outcome rig.Outcome, err error) {
		producers := s.driver.Producers
		s.driver.Rewind()
		s.driver.Producers = 0
		defer func() { s.driver.Producers = producers }()
		return s.driver.Run(0)
	}
	for _, s := range subjects {
		s.driver.Consumers = 0
		_, err := s.driver.Run(o.Bytes)
		s.driver.Consumers = l.Consumers
		if err == nil {
			_, err = read(s) // so that all of it is mapped where it is going to be
		}
		if err != nil {
			return nil, s.explain(err)
		}
	}
	costs, speeds := make([][]float64, len(sides)), make([][]float64, len(sides))
	err = turns(2*o.Rounds, len(sides), func(i int) error {
		var moved rig.Outcome
		cpu, err := cpuOf(subjects[i], func() (err error) { moved, err = read(subjects[i]); return err })
		if err != nil {
			return err
		}
		gigabytes := float64(moved.Bytes) / 1e9
		costs[i], speeds[i] = append(costs[i], cpu/gigabytes), append(speeds[i], gigabytes*1000/moved.Took.Seconds())
		fmt.Fprintf(out, "%-24s %-14s %7.0f MB/s %6.3f CPU s/GB, %.0f KiB a fetch\n", scenario, sides[i].name, gigabytes*1000/moved.Took.Seconds(), cpu/gigabytes, float64(moved.Bytes)/float64(moved.Fetches)/1024)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, sd := range sides {
		figures = append(figures, newFigure(scenario, sd.name, "CPU", "s/GB", "", costs[i]), newFigure(scenario, sd.name, "throughput", "MB/s", "", speeds[i]))
	}
	best := 1
	if median(costs[2]) < median(costs[1]) {
		best = 2
	}
	return append(figures,
		newFigure(scenario, "kaas", "GB per CPU second, ratio to the cheaper raw loop", "1", sides[best].name, ratios(costs[best], costs[0])).atLeast(0.95),
		newFigure(scenario, "kaas", "CPU", "s/GB", kafkaReference, costs[0]).atMost(kafkaDrainCPU)), nil
}

// fanOut produces once and follows eight times.
func fanOut(o options, out io.Writer) ([]figure, error) {
	const scenario = "fan-out"
	l := rig.CostOfAByte(1)
	l.FanOut, l.Consumers = 8, 1
	o.Bytes /= 2
	samples, err := measureInTurn(o, scenario, l, 1, unforced(), out)
	if err != nil {
		return nil, err
	}
	figures := againstRaw(scenario, unforced(), samples)
	return append(figures, newFigure(scenario, "kaas", "CPU per GB produced", "s/GB", kafkaReference, each(samples[0], cpuPerGB)).atMost(0.35*kafkaFanOutCPU)), nil
}
