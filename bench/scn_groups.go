package bench

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/bench/rig"
)

// groups measures the coordinator: one large group, and many small ones.
func groups(o options, out io.Writer) (figures []figure, err error) {
	for _, shape := range []struct {
		groups, members int
		name            string
	}{{1, 1000, "1,000 members in one group"}, {1000, 3, "1,000 groups of 3"}} {
		found, failure := groupsOf(o, shape.groups, shape.members, shape.name, out)
		figures = append(figures, found...)
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", shape.name, failure))
		}
	}
	return figures, err
}

func groupsOf(o options, count, members int, name string, out io.Writer) (figures []figure, err error) {
	const scenario = "groups"
	s, err := startBroker(o, rig.CostOfAByte(1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(s.explain(err), s.close()) }()
	if err := s.driver.CreateTopic(nil); err != nil {
		return nil, err
	}
	if err := firstCommit(s); err != nil { // the coordinator's topic is made by it
		return nil, err
	}
	var m *rig.Members
	var took time.Duration
	cpu, err := cpuOf(s, func() (err error) { m, took, err = rig.Join(s.address, count, members); return err })
	if m != nil {
		defer func() { err = errors.Join(err, m.Close()) }()
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%-24s %s stable in %.2f s, %.2f CPU s\n", scenario, name, took.Seconds(), cpu)
	figures = append(figures, newFigure(scenario, "kaas", "time to stable, "+name, "s", "group.initial.rebalance.delay.ms=3000 is in it", []float64{took.Seconds()}),
		newFigure(scenario, "kaas", "CPU to stable, "+name, "s", "", []float64{cpu}))
	// Clients heartbeat each 3 s by default.
	const every, length = 3 * time.Second, 9 * time.Second
	before, err := s.Written()
	if err != nil {
		return figures, err
	}
	var beats int
	cpu, err = cpuOf(s, func() (err error) { beats, err = m.Beat(every, length); return err })
	if err != nil {
		return figures, err
	}
	after, err := s.Written()
	seconds := length.Seconds()
	fmt.Fprintf(out, "%-24s %s: %d heartbeats, %.1f ms CPU and %.0f bytes written a second\n", scenario, name, beats, 1000*cpu/seconds, float64(after-before)/seconds)
	return append(figures,
		newFigure(scenario, "kaas", "CPU of a heartbeat-second, "+name, "ms/s", fmt.Sprintf("%.0f heartbeats a second", float64(beats)/seconds), []float64{1000 * cpu / seconds}),
		newFigure(scenario, "kaas", "CPU of a heartbeat, "+name, "µs", "", []float64{1e6 * cpu / float64(beats)}),
		newFigure(scenario, "kaas", "bytes written in a heartbeat-second, "+name, "B/s", "all of the broker's", []float64{float64(after-before) / seconds})), err
}

// firstCommit asks for a coordinator, which makes its topic, and commits one
// offset, until it serves.
func firstCommit(s *subject) error {
	c, err := rig.Dial(s.address)
	if err != nil {
		return err
	}
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.SetVersion(2)
	request.CoordinatorKey = "first"
	for deadline := time.Now().Add(rig.Patience); ; {
		answer, err := c.Ask(request, 0)
		if err == nil && answer.(*kmsg.FindCoordinatorResponse).ErrorCode == 0 {
			_, err = rig.Timed(s.address, [][]byte{rig.CommitFrame("first", "bench", 0)}, rig.CommitAnswer("bench"), time.Millisecond)
			if err == nil {
				return c.Close()
			}
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("no coordinator after %v: %w", rig.Patience, err), c.Close())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// commits measures offset commits of many small groups, each a request.
func commits(o options, out io.Writer) (figures []figure, err error) {
	const scenario, requests, small = "commits", 200_000, 1000
	s, err := startBroker(o, rig.CostOfAByte(1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(s.explain(err), s.close()) }()
	if err := s.driver.CreateTopic(nil); err != nil {
		return nil, err
	}
	if err := firstCommit(s); err != nil {
		return nil, err
	}
	load := &rig.Storm{Address: s.address, Connections: 50, InFlight: 20, Check: rig.CommitAnswer("bench"), Frames: func(connection int) (frames [][]byte) {
		for g := connection; g < small; g += 50 {
			frames = append(frames, rig.CommitFrame(fmt.Sprintf("small-%d", g), "bench", int64(g)))
		}
		return frames
	}}
	if _, err := load.Run(requests / 10); err != nil {
		return nil, err
	}
	var rates, costs []float64
	for range 2 * o.Rounds {
		if err := rig.WarmMemory(256 << 20); err != nil {
			return nil, err
		}
		var took time.Duration
		cpu, err := cpuOf(s, func() (err error) { took, err = load.Run(requests); return err })
		if err != nil {
			return nil, err
		}
		rates, costs = append(rates, requests/took.Seconds()), append(costs, 1e6*cpu/requests)
		fmt.Fprintf(out, "%-24s %8.0f commits/s, %.1f µs CPU each\n", scenario, requests/took.Seconds(), 1e6*cpu/requests)
	}
	figures = append(figures, newFigure(scenario, "kaas", "offset commits", "1/s", "1,000 groups, one partition each, 50 connections of 20 in flight", rates).atLeast(100_000),
		newFigure(scenario, "kaas", "CPU of an offset commit", "µs", "", costs))
	var sides [2]quantiles
	err = turns(o.Rounds, 2, func(i int) error {
		const length = 2 * time.Second
		var l rig.Latencies
		var err error
		if i == 0 {
			l, err = rig.Timed(s.address, [][]byte{rig.CommitFrame("one", "bench", 1)}, rig.CommitAnswer("bench"), length)
		} else {
			l, err = rig.Synced(s.dir, length)
		}
		if err == nil {
			sides[i].add(l)
			sayLatency(out, scenario, []string{"kaas", "bare-fdatasync"}[i], l)
		}
		return err
	})
	if err != nil {
		return figures, err
	}
	figures = append(append(figures, sides[0].figures(scenario, "kaas", "one offset commit at a time")...), sides[1].figures(scenario, "bare-fdatasync", "4 KB append and fdatasync")...)
	return append(figures, newFigure(scenario, "kaas", "commit p99, ratio to a bare append and fdatasync", "1", "", ratios(sides[0].p99, sides[1].p99))), nil
}
