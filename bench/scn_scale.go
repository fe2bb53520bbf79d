package bench

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"kaas/bench/rig"
)

// awaitReady waits until /readyz says so, and returns the time since exec.
func awaitReady(s *subject) (time.Duration, error) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for {
		response, err := client.Get("http://" + s.httpAddress + "/readyz")
		ready := err == nil && response.StatusCode == http.StatusOK
		if err == nil {
			_ = response.Body.Close() // its words are not wanted
		}
		took := time.Since(s.Started)
		switch {
		case ready:
			return took, nil
		case took > 4*rig.Patience:
			return took, s.explain(fmt.Errorf("not ready after %v", took))
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// spread keeps 40 requests in flight on 10 connections, spread over all
// partitions of a topic.
func spread(address, topic string, partitions int) *rig.Storm {
	all := smallFrames(topic, partitions, 1, 1024)
	return &rig.Storm{Address: address, Connections: 10, InFlight: 4, Check: rig.ProduceAnswer(topic), Frames: func(connection int) (mine [][]byte) {
		for i := connection; i < len(all); i += 10 {
			mine = append(mine, all[i])
		}
		return mine
	}}
}

// manyPartitions compares a broker of 10 partitions with one of 10,000.
func manyPartitions(o options, out io.Writer) (figures []figure, err error) {
	const scenario, requests = "partitions", 100_000
	counts := []int{10, 10_000}
	subjects, storms := make([]*subject, 2), make([]*rig.Storm, 2)
	var anonymous [2]int64
	for i, n := range counts {
		s, err := startBroker(o, rig.Load{Topic: "many", Partitions: n, BatchBytes: 1024, ValueBytes: 900})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		began := time.Now()
		if err := s.driver.CreateTopic([][2]string{{"flush.messages", neverFlush}}); err != nil {
			return nil, s.explain(err)
		}
		if n == 10_000 {
			figures = append(figures, newFigure(scenario, "kaas", "create 10,000 partitions", "s", "one topic", []float64{time.Since(began).Seconds()}))
		}
		if _, anonymous[i], err = s.Memory(); err != nil {
			return figures, err
		}
		subjects[i], storms[i] = s, spread(s.address, "many", n)
	}
	many := subjects[1]
	figures = append(figures, newFigure(scenario, "kaas", "anonymous memory of a partition", "KiB", "never written to", []float64{float64(anonymous[1]-anonymous[0]) / 9990 / 1024}))
	time.Sleep(2 * time.Second)
	var shares []float64
	for range 2 {
		share, err := idleCPU(many, 5*time.Second)
		if err != nil {
			return figures, err
		}
		shares = append(shares, share)
	}
	figures = append(figures, newFigure(scenario, "kaas", "CPU, 10,000 idle partitions", "% of a processor", "no clients", shares).atMost(0.1))
	for i := range storms { // each partition has been written to before it counts
		if _, err := storms[i].Run(int64(2 * counts[i])); err != nil {
			return figures, subjects[i].explain(err)
		}
	}
	costs := make([][]float64, 2)
	err = turns(o.Rounds, 2, func(i int) error {
		if err := rig.WarmMemory(512 << 20); err != nil {
			return err
		}
		cpu, err := cpuOf(subjects[i], func() error { _, err := storms[i].Run(requests); return err })
		if err != nil {
			return err
		}
		costs[i] = append(costs[i], 1e6*cpu/requests)
		fmt.Fprintf(out, "%-24s %6d partitions %7.2f µs a request\n", scenario, counts[i], 1e6*cpu/requests)
		return nil
	})
	if err != nil {
		return figures, err
	}
	figures = append(figures, newFigure(scenario, "kaas", "CPU per request, 10 partitions", "µs", "", costs[0]), newFigure(scenario, "kaas", "CPU per request, 10,000 partitions", "µs", "", costs[1]),
		newFigure(scenario, "kaas", "CPU per request, 10,000 against 10 partitions", "1", "1 KB each, 10 connections, spread over all partitions", ratios(costs[1], costs[0])).atMost(1.2))
	found, err := bareAppends(o, scenario, counts, costs, out)
	figures = append(figures, found...)
	if err != nil {
		return figures, err
	}
	found, err = openTimes(many, scenario, out)
	return append(figures, found...), err
}

// bareAppends tells how much of what a request costs more is the kernel's: the
// same writes without a broker.
func bareAppends(o options, scenario string, counts []int, costs [][]float64, out io.Writer) (figures []figure, err error) {
	const writes = 100_000
	bare := make([][]float64, 2)
	err = turns(o.Rounds, 2, func(i int) error {
		if err := rig.WarmMemory(512 << 20); err != nil {
			return err
		}
		each, err := rig.Appends(o.DataParent, counts[i], writes, 1024)
		bare[i] = append(bare[i], each.Seconds()*1e6)
		fmt.Fprintf(out, "%-24s %6d files      %7.2f µs a pwrite\n", scenario, counts[i], each.Seconds()*1e6)
		return err
	})
	if err != nil {
		return nil, err
	}
	rest := make([]float64, len(costs[1]))
	for i, cost := range costs[1] {
		rest[i] = cost - (median(bare[1]) - median(bare[0]))
	}
	return []figure{
		newFigure(scenario, "pwrite", "CPU of a write, 10 files", "µs", "", bare[0]),
		newFigure(scenario, "pwrite", "CPU of a write, 10,000 files", "µs", "", bare[1]),
		newFigure(scenario, "pwrite", "CPU of a write, 10,000 against 10 files", "1", "", ratios(bare[1], bare[0])),
		newFigure(scenario, "kaas", "CPU per request, growth from 10 to 10,000 partitions, ratio to a bare pwrite's", "1", "", ratios(ratios(costs[1], costs[0]), ratios(bare[1], bare[0]))),
		newFigure(scenario, "kaas", "CPU per request, 10,000 against 10 partitions, less what a bare pwrite costs more", "1", "", ratios(rest, costs[0])),
	}, nil
}

// openTimes starts a broker of 10,000 partitions again, after a clean stop and
// after a crash.
func openTimes(many *subject, scenario string, out io.Writer) (figures []figure, err error) {
	for _, how := range []struct {
		name string
		end  func()
	}{{"after a clean stop", func() { many.Stop() }}, {"after kill -9", func() { many.Kill() }}} {
		began := time.Now()
		how.end()
		stopped := time.Since(began)
		if err := many.again(); err != nil {
			return figures, err
		}
		ready, err := awaitReady(many)
		if err != nil {
			return figures, err
		}
		used, err := many.CPU()
		if err != nil {
			return figures, err
		}
		fmt.Fprintf(out, "%-24s exec to ready %s %.0f ms, %.2f CPU s\n", scenario, how.name, milliseconds(ready), used.Total.Seconds())
		figures = append(figures, newFigure(scenario, "kaas", "exec to ready, 10,000 partitions "+how.name, "ms", fmt.Sprintf("%.2f CPU s; the stop took %.0f ms", used.Total.Seconds(), milliseconds(stopped)), []float64{milliseconds(ready)}))
	}
	return figures, nil
}

// recovery kills a broker that has written a lot and forced nothing, and
// measures the next start.
func recovery(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "recovery"
	if err := rig.WarmMemory(o.RecoveryBytes + 512<<20); err != nil {
		return nil, err
	}
	l := rig.CostOfAByte(1)
	l.Consumers = 0
	s, err := startKaas(neverFlush)(o, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.driver.Run(o.RecoveryBytes); err != nil {
		return nil, s.explain(err)
	}
	s.Kill()
	if err := s.again(); err != nil {
		return nil, err
	}
	ready, err := awaitReady(s)
	if err != nil {
		return nil, err
	}
	used, err := s.CPU()
	if err != nil {
		return nil, err
	}
	gigabytes := float64(o.RecoveryBytes) / 1e9
	fmt.Fprintf(out, "%-24s %.1f GB in %.2f s, %.2f CPU s\n", scenario, gigabytes, ready.Seconds(), used.Total.Seconds())
	// What is there must be all that was acknowledged: the page cache has survived.
	s.driver.Consumers, s.driver.Producers = 4, 0
	if _, err := s.driver.Run(0); err != nil {
		return nil, s.explain(fmt.Errorf("after the recovery: %w", err))
	}
	name := fmt.Sprintf("of %.0f GB after kill -9", gigabytes)
	return append(figures, newFigure(scenario, "kaas", "exec to ready "+name, "s", "16 partitions, nothing forced before, in the page cache; every record was read afterwards", []float64{ready.Seconds()}),
		newFigure(scenario, "kaas", "CPU "+name, "s", "", []float64{used.Total.Seconds()})), nil
}
