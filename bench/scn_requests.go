package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"kaas/bench/rig"
)

const stormPartitions = 100

// stormOf are small keyed produce requests of 1 to 10 records of 100 bytes.
func stormOf(address, topic string, check func([]byte) error) *rig.Storm {
	return &rig.Storm{Address: address, Connections: 200, InFlight: 5, Check: check, Frames: func(connection int) (frames [][]byte) {
		random := rand.New(rand.NewPCG(7, uint64(connection)))
		for i := range 20 {
			batch := rig.KeyedBatch(random, 1+i%10, 100)
			frames = append(frames, rig.ProduceFrame(topic, int32(random.IntN(stormPartitions)), 1, batch))
		}
		return frames
	}}
}

// storm measures requests a CPU second, of the broker and of an echo.
func storm(o options, out io.Writer) (figures []figure, err error) {
	const scenario, requests = "storm", 300_000
	echo, err := startEcho(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, echo.close()) }()
	kaas, err := startKaas(neverFlush)(o, rig.Load{Topic: "storm", Partitions: stormPartitions, BatchBytes: 200, ValueBytes: 100})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kaas.close()) }()
	names, subjects := []string{"kaas", "gnet-echo"}, []*subject{kaas, echo}
	storms := []*rig.Storm{stormOf(kaas.address, "storm", rig.ProduceAnswer("storm")), stormOf(echo.address, "storm", rig.AnyAnswer)}
	for i, s := range storms {
		if _, err := s.Run(requests / 5); err != nil {
			return nil, subjects[i].explain(err)
		}
	}
	perCPU, perSecond := make([][]float64, 2), make([][]float64, 2)
	err = turns(o.Rounds, 2, func(i int) error {
		if err := rig.WarmMemory(512 << 20); err != nil {
			return err
		}
		var took time.Duration
		cpu, err := cpuOf(subjects[i], func() (err error) { took, err = storms[i].Run(requests); return err })
		if err != nil {
			return err
		}
		perCPU[i], perSecond[i] = append(perCPU[i], requests/cpu), append(perSecond[i], requests/took.Seconds())
		fmt.Fprintf(out, "%-24s %-14s %8.0f requests/s %8.0f a CPU s\n", scenario, names[i], requests/took.Seconds(), requests/cpu)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		figures = append(figures, newFigure(scenario, name, "requests per CPU second", "1/s", "", perCPU[i]), newFigure(scenario, name, "requests", "1/s", "", perSecond[i]))
	}
	return append(figures,
		newFigure(scenario, "kaas", "requests per CPU second, ratio to a bare gnet echo", "1", "", ratios(perCPU[0], perCPU[1])).atLeast(0.5),
		newFigure(scenario, "kaas", "requests per CPU second, ratio to Kafka's of one record a batch elsewhere", "1", "no target: that load is another one (25,300); bench-compare has this storm side by side", eachOver(perCPU[0], kafkaStorm))), nil
}

// eachOver divides values by one.
func eachOver(values []float64, by float64) (ratios []float64) {
	for _, v := range values {
		ratios = append(ratios, v/by)
	}
	return ratios
}

// smallFrames are produce requests of one batch to each of a topic's partitions.
func smallFrames(topic string, partitions int, acks int16, batchBytes int) (frames [][]byte) {
	batch, _ := rig.MakeBatch(rand.New(rand.NewPCG(5, 6)), batchBytes, min(batchBytes, 1024)-90)
	for p := range partitions {
		frames = append(frames, rig.ProduceFrame(topic, int32(p), acks, batch))
	}
	return frames
}

// idleCPU is the share of one processor that a subject uses for a while.
func idleCPU(s *subject, length time.Duration) (float64, error) {
	cpu, err := cpuOf(s, func() error { time.Sleep(length); return nil })
	return 100 * cpu / length.Seconds(), err
}

// idleConsumers measures what a broker costs whose consumers wait, and a raw loop of the same polls.
func idleConsumers(o options, out io.Writer) (figures []figure, err error) {
	const scenario, partitions, consumers = "idle", 1000, 1000
	s, err := startKaas(neverFlush)(o, rig.Load{Topic: "idle", Partitions: partitions, BatchBytes: 200, ValueBytes: 100})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, wait := range []struct {
		ms    int32
		who   string
		turns int
	}{{5000, "franz-go's default", 2}, {500, "the Java client's default", 1}} {
		raw, err := startLoop(o, rig.Load{Partitions: 1, BatchBytes: 200, ValueBytes: 100}, func(address, _ string) []string {
			return []string{"polls-loop", address, (time.Duration(wait.ms) * time.Millisecond).String()}
		})
		if err != nil {
			return figures, err
		}
		sides, names := []*subject{s, raw}, []string{"kaas", "raw-polls"}
		shares := make([][]float64, len(sides))
		visit := func(i int) error {
			polls, err := rig.StartPolls(sides[i].address, "idle", partitions, consumers, wait.ms)
			if err != nil {
				return err
			}
			time.Sleep(2 * time.Second) // the begin of 1,000 connections is not idle
			for range 2 {
				share, err := idleCPU(sides[i], 5*time.Second)
				if err != nil {
					return errors.Join(err, polls.Close())
				}
				shares[i] = append(shares[i], share)
				fmt.Fprintf(out, "%-24s %-14s %6.3f %% of a processor, max.wait %d ms\n", scenario, names[i], share, wait.ms)
			}
			return polls.Close()
		}
		for _, i := range []int{0, 1, 1, 0}[:2*wait.turns] {
			if err = visit(i); err != nil {
				return figures, errors.Join(sides[i].explain(err), raw.close())
			}
		}
		if err := raw.close(); err != nil {
			return figures, err
		}
		what := fmt.Sprintf("CPU, 1,000 partitions and consumers, max.wait %d ms", wait.ms)
		f := newFigure(scenario, names[0], what, "% of a processor", wait.who, shares[0])
		if wait.ms == 5000 {
			f = f.atMost(0.2)
		}
		figures = append(figures, f, newFigure(scenario, names[1], what, "% of a processor", "the same polls to one thread that reads, waits and sends", shares[1]),
			newFigure(scenario, names[0], what+", ratio to a raw loop of the same polls", "1", "", ratios(shares[0], shares[1])))
	}
	return figures, nil
}

// manyConnections compares ten requests in flight on 10 and on 5,000
// connections, of the broker and of a bare echo: what sockets cost by themselves.
func manyConnections(o options, out io.Writer) (figures []figure, err error) {
	const scenario, hands, requests = "connections", 10, 100_000
	s, err := startKaas(neverFlush)(o, rig.Load{Topic: "many", Partitions: 10, BatchBytes: 1024, ValueBytes: 900})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	echo, err := startEcho(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, echo.close()) }()
	counts, names, subjects := []int{10, 5000}, []string{"kaas", "gnet-echo"}, []*subject{s, echo}
	produce := smallFrames("many", 1, 1, 1024)[0]
	small := make([]byte, 60) // as large as the answer to produce
	binary.BigEndian.PutUint32(small, uint32(len(small)-4))
	frames, checks := [][]byte{produce, small}, []func([]byte) error{rig.ProduceAnswer("many"), rig.AnyAnswer}
	costs := make([][]float64, 4) // by side and count
	rotas := make([]*rig.Rota, 4)
	for i := range rotas {
		side, connections := i/2, counts[i%2]
		if rotas[i], err = rig.NewRota(subjects[side].address, connections, hands, frames[side], checks[side]); err != nil {
			return nil, subjects[side].explain(err)
		}
		defer func() { err = errors.Join(err, rotas[i].Close()) }()
		if err := rotas[i].Run(2 * connections * hands); err != nil {
			return nil, subjects[side].explain(err)
		}
	}
	err = turns(o.Rounds, 4, func(i int) error {
		if err := rig.WarmMemory(256 << 20); err != nil {
			return err
		}
		cpu, err := cpuOf(subjects[i/2], func() error { return rotas[i].Run(requests) })
		if err != nil {
			return err
		}
		costs[i] = append(costs[i], 1e6*cpu/requests)
		fmt.Fprintf(out, "%-24s %-14s %6d connections %7.2f µs a request\n", scenario, names[i/2], counts[i%2], 1e6*cpu/requests)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for side, name := range names {
		few, many := costs[2*side], costs[2*side+1]
		growth := newFigure(scenario, name, "CPU per request, 5,000 against 10 connections", "1", "ten in flight in both", ratios(many, few))
		if side == 0 {
			growth = growth.atMost(1.2)
		}
		figures = append(figures, newFigure(scenario, name, "CPU per request, 10 connections", "µs", "", few),
			newFigure(scenario, name, "CPU per request, 5,000 connections", "µs", "", many), growth)
	}
	figures = append(figures, newFigure(scenario, "kaas", "CPU per request, growth from 10 to 5,000 connections, ratio to the echo's", "1", "", ratios(ratios(costs[1], costs[0]), ratios(costs[3], costs[2]))))
	_, anonymous, err := s.Memory()
	return append(figures, newFigure(scenario, "kaas", "anonymous memory, 5,010 connections", "MiB", "", []float64{float64(anonymous) / mib})), err
}
