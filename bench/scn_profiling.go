package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"kaas/bench/rig"
)

// The cost of profiles is some per cent of what differs by more from run to run. What makes it visible: the same work in many
// short blocks in turn, so that both sides see the same machine; the processor time of the whole process from the first block
// to the last, so that pushes count whenever they come; and several pairs of processes, because where a process has its
// memory is worth a per cent or two.
const (
	profilingPairs    = 8
	profilingTurns    = 6      // each is one A B B A of blocks
	profilingRequests = 20_000 // of a block
	profilingUploadMs = 5000   // three times as often as by default
)

var profilingSettings = []string{
	fmt.Sprintf("profiling.pyroscope.upload.interval.ms=%d", profilingUploadMs), "profiling.api.labels.enable=true",
	"profiling.pyroscope.profile.types=cpu,alloc_objects,alloc_space,inuse_objects,inuse_space,goroutine,mutex_count,mutex_duration,block_count,block_duration",
}

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

// profilingCost compares a broker that pushes all kinds of profiles with one
// that pushes none.
func profilingCost(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "profiling"
	sink, err := startProfileSink()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	names := []string{"kaas", "kaas-profiled"}
	sides := []side{{names[0], startKaas(neverFlush), 1}, {names[1], startKaas(neverFlush, append([]string{"profiling.pyroscope.server.address=" + sink.url}, profilingSettings...)...), 1}}
	costs := make([][]float64, 2)
	var idle []float64
	for range profilingPairs {
		pair, share, err := profilingPair(o, sides)
		if err != nil {
			return nil, err
		}
		for i := range pair {
			costs[i] = append(costs[i], pair[i])
		}
		idle = append(idle, share)
		fmt.Fprintf(out, "%-24s %.3f µs a request, %.3f with profiles: %.4f; pushes of an idle broker %.3f %% of a processor\n", scenario, pair[0], pair[1], pair[1]/pair[0], share)
	}
	if sink.pushes.Load() == 0 {
		return nil, errors.New("no profile was pushed")
	}
	ratio := ratios(costs[1], costs[0])
	low, high := bootstrap(ratio, 0.95)
	return append(figures, newFigure(scenario, names[0], "CPU per request", "µs", "", costs[0]), newFigure(scenario, names[1], "CPU per request", "µs", "", costs[1]),
		newFigure(scenario, names[1], "CPU, ratio to no profiles", "1", fmt.Sprintf("95 %% of resampled medians in %.4f to %.4f; %d pairs of processes, each with %d blocks of %d small requests a side in turn; all kinds of profiles, pushed each %d s (default: 15 s), API labels on",
			low, high, profilingPairs, 2*profilingTurns, profilingRequests, profilingUploadMs/1000), ratio).atMost(1.02),
		newFigure(scenario, names[1], "CPU of pushes, idle", "% of a processor", "", idle)), nil
}

// profilingPair measures a new pair of processes: microseconds a request of each, and what the second one costs at rest.
func profilingPair(o options, sides []side) (costs [2]float64, idlePercent float64, err error) {
	subjects, err := startAll(o, stormLoad(), sides...)
	if err != nil {
		return costs, 0, err
	}
	defer func() { err = errors.Join(err, closeAll(subjects)) }()
	storms := make([]*rig.Storm, len(subjects))
	for i, s := range subjects {
		storms[i] = stormOf(s.address, "storm", rig.ProduceAnswer("storm"))
		if _, err := storms[i].Run(2 * profilingRequests); err != nil {
			return costs, 0, s.explain(err)
		}
	}
	var before [2]rig.CPU
	for i, s := range subjects {
		if before[i], err = s.CPU(); err != nil {
			return costs, 0, err
		}
	}
	err = turns(profilingTurns, len(subjects), func(i int) error {
		if err := rig.WarmMemory(256 << 20); err != nil {
			return err
		}
		_, err := storms[i].Run(profilingRequests)
		return subjects[i].explain(err)
	})
	if err != nil {
		return costs, 0, err
	}
	for i, s := range subjects {
		after, err := s.CPU()
		if err != nil {
			return costs, 0, err
		}
		costs[i] = 1e6 * after.Since(before[i]).Total.Seconds() / (2 * profilingTurns * profilingRequests)
	}
	idlePercent, err = idleCPU(subjects[1], profilingUploadMs*time.Millisecond)
	return costs, idlePercent, err
}
