package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"kaas/bench/rig"
)

// The cost of profiles is some per cent of what differs by more from run to run and from process to process, so its parts are
// measured where each can be seen. Samples of the processor are switched on and off in one process. A push is the processor
// time of a process that rests after a load, for as long as it takes to have pushed that, less that of one without profiles.
// What else can be asked for (labels, mutexes, blocking) is seen in many sets of processes only, and is the least exact.
const (
	samplingTurns     = 15 // by rounds; each is off, on, on, off
	samplingRequests  = 30_000
	samplingLength    = time.Second // of a profile, which must be longer than what it is on for
	profilingSets     = 6           // by rounds
	profilingTurns    = 2           // each is one A B B A of blocks
	profilingRequests = 20_000
	profilingInterval = 15 * time.Second // of pushes, by default
	pushInterval      = 4 * time.Second  // where pushes are measured
	pushes            = 2                // by rounds
)

const (
	kindsByDefault = "cpu, alloc, inuse, goroutine"
	kindsAll       = "all kinds of profiles, and API labels"
)

var allKinds = []string{"profiling.api.labels.enable=true",
	"profiling.pyroscope.profile.types=cpu,alloc_objects,alloc_space,inuse_objects,inuse_space,goroutine,mutex_count,mutex_duration,block_count,block_duration"}

// profileSink takes what is pushed. It is this process, so its work is not counted.
type profileSink struct {
	server *http.Server
	url    string
	served chan error
	pushes atomic.Int64
}

func startProfileSink() (*profileSink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	sink := &profileSink{url: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	sink.server = &http.Server{ReadHeaderTimeout: rig.Patience, Handler: http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		if n, _ := io.Copy(io.Discard, request.Body); n > 0 { // what is cut off counts as well
			sink.pushes.Add(1)
		}
	})}
	go func() { sink.served <- sink.server.Serve(listener) }()
	return sink, nil
}

func (s *profileSink) close() error {
	if err := errors.Join(s.server.Close(), <-s.served); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// profilingCost compares a broker that pushes profiles with one that does not.
func profilingCost(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "profiling"
	sink, err := startProfileSink()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	sampled, err := samplingCost(o, out)
	if err != nil {
		return nil, err
	}
	quiet := []side{{"kaas", startKaas(neverFlush), 1}, profiledSide("kaas-profiled-fully", sink, time.Hour, allKinds)} // pushes nothing
	costs := make([][]float64, len(quiet))
	for set := range profilingSets * o.Rounds {
		if err := profilingSet(o, quiet, set, costs); err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "%-24s µs a request: %.3f, %.3f with all kinds of profiles\n", scenario, costs[0][set], costs[1][set])
	}
	took, err := pushCosts(o, []side{quiet[0], profiledSide("kaas-profiled", sink, pushInterval, nil), profiledSide("kaas-profiled-fully", sink, pushInterval, allKinds)}, out)
	if err != nil {
		return nil, err
	}
	if sink.pushes.Load() == 0 {
		return nil, errors.New("no profile was pushed")
	}
	for i, s := range []struct {
		name, kinds string
		ratios      []float64
	}{{"kaas-profiled", kindsByDefault, sampled}, {"kaas-profiled-fully", kindsAll, ratios(costs[1], costs[0])}} {
		push := took[i+1]
		var total []float64
		for _, ratio := range s.ratios {
			total = append(total, ratio+median(push)/1000/profilingInterval.Seconds())
		}
		low, high := bootstrap(total, 0.95)
		figures = append(figures, newFigure(scenario, s.name, "CPU per request, ratio to no profiles, without pushes", "1", s.kinds, s.ratios),
			newFigure(scenario, s.name, "CPU of a push", "ms", s.kinds, push),
			newFigure(scenario, s.name, "CPU, ratio to no profiles", "1", fmt.Sprintf("%s; 95 %% of resampled medians in %.4f to %.4f; small requests that keep one processor busy, and a push each %d s (the default)",
				s.kinds, low, high, int(profilingInterval.Seconds())), total).atMost(1.02))
	}
	return figures, nil
}

// profiledSide pushes to sink.
func profiledSide(name string, sink *profileSink, interval time.Duration, settings []string) side {
	return side{name, startKaas(neverFlush, append([]string{"profiling.pyroscope.server.address=" + sink.url,
		fmt.Sprintf("profiling.pyroscope.upload.interval.ms=%d", interval.Milliseconds())}, settings...)...), 1}
}

// samplingCost is what a request costs more while the processor is sampled (100 times a second of it, as the Pyroscope client
// does): ratios of neighbours, in one process.
func samplingCost(o options, out io.Writer) (found []float64, err error) {
	s, err := startKaas(neverFlush, "profiling.pprof.enable=true")(o, stormLoad())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(s.explain(err), s.close()) }()
	load := stormOf(s.address, "storm", rig.ProduceAnswer("storm"))
	run := func() (float64, error) {
		return cpuOf(s, func() error { _, err := load.Run(samplingRequests); return err })
	}
	if _, err := run(); err != nil {
		return nil, err
	}
	for range samplingTurns * o.Rounds {
		if err := rig.WarmMemory(192 << 20); err != nil {
			return nil, err
		}
		var off, on [2]float64
		if off[0], err = run(); err != nil {
			return nil, err
		}
		profiled := fetchProfile(s.httpAddress, samplingLength)
		time.Sleep(50 * time.Millisecond) // until it has begun
		for i := range on {
			if on[i], err = run(); err != nil {
				return nil, err
			}
		}
		late := len(profiled) > 0 // some of the requests were not sampled: this turn says nothing
		if a := <-profiled; a.err != nil {
			return nil, a.err
		}
		if off[1], err = run(); err != nil {
			return nil, err
		}
		if !late {
			found = append(found, (on[0]+on[1])/(off[0]+off[1]))
		}
	}
	if least := samplingTurns * o.Rounds / 3; len(found) < least {
		return nil, fmt.Errorf("%d requests took longer than the profile of %v in all but %d of %d turns: the machine is busy with something else", 2*samplingRequests, samplingLength, len(found), samplingTurns*o.Rounds)
	}
	fmt.Fprintf(out, "%-24s sampled against not sampled: %.4f (%.4f to %.4f)\n", "profiling", median(found), slices.Min(found), slices.Max(found))
	return found, nil
}

// pushCosts are, for each side, milliseconds of a processor from the end of a load until it was pushed, less what the first
// side used.
func pushCosts(o options, sides []side, out io.Writer) (took [][]float64, err error) {
	subjects, err := startAll(o, stormLoad(), sides...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(subjects)) }()
	took = make([][]float64, len(sides))
	for n := range pushes*o.Rounds + 1 {
		for _, s := range subjects {
			if _, err := stormOf(s.address, "storm", rig.ProduceAnswer("storm")).Run(2 * profilingRequests); err != nil {
				return nil, s.explain(err)
			}
		}
		time.Sleep(100 * time.Millisecond) // the ends of 200 connections are no push
		used := make([]time.Duration, len(subjects))
		for i, s := range subjects {
			before, err := s.CPU()
			if err != nil {
				return nil, err
			}
			used[i] = -before.Total
		}
		time.Sleep(pushInterval)
		for i, s := range subjects {
			after, err := s.CPU()
			if err != nil {
				return nil, err
			}
			used[i] += after.Total
		}
		if n == 0 {
			continue // the first one resolves the names of functions
		}
		fmt.Fprintf(out, "%-24s ms for a push:", "profiling")
		for i := range sides {
			took[i] = append(took[i], 1000*(used[i]-used[0]).Seconds())
			fmt.Fprintf(out, " %s %.2f", sides[i].name, 1000*used[i].Seconds())
		}
		fmt.Fprintln(out)
	}
	return took, nil
}

// profilingSet measures a new set of processes: microseconds a request of each.
func profilingSet(o options, sides []side, set int, costs [][]float64) (err error) {
	order, subjects := make([]side, len(sides)), make([]*subject, len(sides))
	for i := range sides { // none is always the first to have its memory
		order[(i+set)%len(sides)] = sides[i]
	}
	started, err := startAll(o, stormLoad(), order...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(started)) }()
	storms := make([]*rig.Storm, len(sides))
	for i := range sides {
		s := started[(i+set)%len(sides)]
		subjects[i], storms[i] = s, stormOf(s.address, "storm", rig.ProduceAnswer("storm"))
		if _, err := storms[i].Run(profilingRequests); err != nil {
			return s.explain(err)
		}
	}
	used := make([]float64, len(sides))
	err = turns(profilingTurns, len(sides), func(i int) error {
		if err := rig.WarmMemory(64 << 20); err != nil {
			return err
		}
		cpu, err := cpuOf(subjects[i], func() error { _, err := storms[i].Run(profilingRequests); return err })
		used[i] += cpu
		return err
	})
	if err != nil {
		return err
	}
	for i := range used {
		costs[i] = append(costs[i], 1e6*used[i]/(2*profilingTurns*profilingRequests))
	}
	return nil
}
