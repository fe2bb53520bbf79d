package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"kaas/bench/rig"
)

// sizeGate is the binary as it is shipped.
func sizeGate(o guardOptions) ([]guardRow, error) {
	info, err := os.Stat(o.Broker)
	if err != nil {
		return nil, err
	}
	return []guardRow{{Row: "binary", Unit: "bytes", Value: float64(info.Size()), Relative: 0.02}}, nil
}

// memoryGate is the resident memory of a broker that has served one produce, the least of several starts: a busy machine makes the
// runtime start more threads, each of which has memory of its own, and never fewer.
func memoryGate(o guardOptions) ([]guardRow, error) {
	o.Starts = 5
	figures, err := startUp(o.options, io.Discard)
	if err != nil {
		return nil, err
	}
	var rows []guardRow
	for _, f := range figures {
		if f.Unit == "MiB" {
			rows = append(rows, guardRow{Row: f.Name, Unit: f.Unit, Value: f.Low, Relative: 0.05, Absolute: 2, Note: f.Note + ", the least of 5 starts"})
		}
	}
	return rows, nil
}

// paced is a load of the exact gates, one request at a time.
type paced struct {
	name                   string
	acks                   int16
	flush                  string
	batchBytes, valueBytes int
}

var pacedLoads = []paced{
	{"small", 1, neverFlush, 200, 100},
	{"64 KB", 1, neverFlush, 64 << 10, 1 << 10},
	{"small, durable", -1, "1", 200, 100},
}

func (p paced) connect(s *subject, number int) (*rig.PingPong, error) {
	return rig.NewPingPong(s.address, fmt.Sprintf("paced-%d", number), p.acks, p.batchBytes, p.valueBytes, [][2]string{{"flush.messages", p.flush}})
}

// withPaced starts a broker and hands over the connection of each paced load,
// warmed up.
func withPaced(o guardOptions, use func(s *subject, p paced, c *rig.PingPong) error) (err error) {
	s, err := startBroker(o.options, rig.CostOfAByte(1))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.Output)
		}
		err = errors.Join(err, s.close())
	}()
	for number, p := range pacedLoads {
		c, err := p.connect(s, number)
		if err != nil {
			return err
		}
		err = c.Both(500) // more than limits.WindowBytes in all: small batches have their window
		if err == nil {
			err = use(s, p, c)
		}
		if err := errors.Join(err, c.Close()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// allocationGate counts the objects that the broker's runtime allocates.
// Timers and a collection that empties a pool cost some, whatever the number
// of requests: the bound lies far below one object a request.
func allocationGate(o guardOptions) (rows []guardRow, err error) {
	err = withPaced(o, func(s *subject, p paced, c *rig.PingPong) error {
		times, most := 5_000, 0.1
		if p.acks == -1 {
			times, most = 1_000, 0.5 // each waits for the disk, and timers fire meanwhile
		}
		for _, kind := range []struct {
			name string
			run  func(int) error
		}{{"produce", c.Produce}, {"fetch", c.Fetch}} {
			objects, err := leastAllocatedBy(s, func() error { return kind.run(times) })
			if err != nil {
				return err
			}
			rows = append(rows, guardRow{Row: fmt.Sprintf("allocations, %s, %s", kind.name, p.name), Unit: "objects/request",
				Value: float64(objects) / float64(times), Absolute: most, Most: most})
		}
		return nil
	})
	return rows, err
}

// leastAllocatedBy does the work twice: timers and collections only add, and more on a busy machine.
func leastAllocatedBy(s *subject, work func() error) (least int64, err error) {
	for i := range 2 {
		objects, err := allocatedBy(s, work)
		if err != nil {
			return 0, err
		}
		if i == 0 || objects < least {
			least = objects
		}
	}
	return least, nil
}

// allocatedBy counts the broker's allocations while work runs, without those
// that the question costs.
func allocatedBy(s *subject, work func() error) (int64, error) {
	first, err := rig.Mallocs(s.httpAddress)
	if err != nil {
		return 0, err
	}
	before, err := rig.Mallocs(s.httpAddress)
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := rig.Mallocs(s.httpAddress)
	return max(after-before-(before-first), 0), err
}

// syscallGate counts system calls: exactly for one request at a time, and for
// a gigabyte in flight, where the count depends on how the requests meet.
func syscallGate(o guardOptions) (rows []guardRow, err error) {
	err = withPaced(o, func(s *subject, p paced, c *rig.PingPong) error {
		const times = 1_000
		calls, err := tracedRequests(s, func() error { return c.Produce(times) })
		if err != nil {
			return err
		}
		rows = append(rows, requestRows("produce, "+p.name, calls, times)...)
		if err := c.Fetch(times); err != nil { // what is left: the next ones are fetched while they are young
			return err
		}
		if calls, err = tracedRequests(s, func() error { return bothInParts(c, times) }); err != nil {
			return err
		}
		rows = append(rows, requestRows("produce and fetch, "+p.name, calls, times)...)
		return nil
	})
	if err != nil {
		return rows, err
	}
	l := rig.CostOfAByte(1)
	s, err := startKaas(neverFlush)(o.options, l)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err = s.driver.Run(warmUpBytes); err != nil {
		return rows, err
	}
	moved := rig.Outcome{}
	calls, err := s.Traced(s.dir, func() (err error) { moved, err = s.driver.Run(200_000_000); return err })
	if err != nil {
		return rows, err
	}
	return append(rows, volumeRows("produce and follow, 64 KB batches, 16 partitions", calls, float64(moved.Bytes)/1e9)...), nil
}

// tracedRequests counts the system calls of the broker while work runs. How often it asks whether the volume is frozen depends on the
// time between requests, so those writes are told apart from others.
func tracedRequests(s *subject, work func() error) (map[string]int64, error) {
	before, err := rig.Metric(s.httpAddress, windowAsks)
	if err != nil {
		return nil, err
	}
	calls, err := s.Traced(s.dir, work)
	if err != nil {
		return nil, err
	}
	after, err := rig.Metric(s.httpAddress, windowAsks)
	calls["pwrite64"] -= after - before
	calls[windowAsks] = after - before
	return calls, err
}

// windowAsks is the broker's count of them, and the name that they have among its calls.
const windowAsks = "kaas_log_window_asks_total"

// bothInParts produces and fetches so many in turn, some at a time: a fetch asks the system whether pages are in memory when they were
// written half a minute ago, so on a slow machine it would depend on the time when all were produced first.
func bothInParts(c *rig.PingPong, times int) error {
	const part = 20
	for range times / part {
		if err := errors.Join(c.Produce(part), c.Fetch(part)); err != nil {
			return err
		}
	}
	return nil
}

// waiting are the calls by which threads wait for one another and for work.
// Their number depends on the scheduler: they have a row of their own, with
// room.
var waiting = []string{windowAsks, "futex", "nanosleep", "sched_yield", "poll", "ppoll", "epoll_pwait", "epoll_wait", "epoll_pwait2", "tgkill", "getpid", "gettid",
	"rt_sigreturn", "rt_sigprocmask", "restart_syscall", "madvise", "clone", "clone3", "sigaltstack", "clock_nanosleep", "sched_getaffinity", "exit"}

// How often threads wait is of two kinds: 12,000 times a GB when the loops keep each other busy, 27,000 when they let each other
// rest, and the same build shows both within a minute. So a row may be worse by more than lies between them.
const (
	waitsPerRequest = 12
	waitsPerGB      = 25_000
)

// seldom is what a call is that comes less than once for so many requests: it belongs to a timer, to a file or to a connection. Its
// number depends on how long the run took, so it is not in the exact row.
const seldom = 5

// requestRows are those of a count by request: the calls that come with requests, exactly, those that come now and then, and waits.
func requestRows(name string, calls map[string]int64, times float64) []guardRow {
	const unit = "calls/request"
	work := guardRow{Row: "syscalls, " + name, Unit: unit, Absolute: 0.1}
	beside := guardRow{Row: "syscalls now and then, " + name, Unit: unit, Absolute: 0.3}
	wait := guardRow{Row: "syscalls to wait, " + name, Unit: unit, Relative: 1, Absolute: waitsPerRequest}
	for call, n := range calls {
		each := float64(n) / times
		switch {
		case slices.Contains(waiting, call):
			count(&wait, call, each)
		case each < 1.0/seldom:
			count(&beside, call, each)
		default:
			count(&work, call, each)
		}
	}
	return []guardRow{work, beside, wait}
}

// count adds a call to a row.
func count(r *guardRow, call string, each float64) {
	if r.Value += each; each >= 0.005 {
		if r.Detail == nil {
			r.Detail = map[string]float64{}
		}
		r.Detail[call] = math.Round(each*1000) / 1000
	}
}

// volumeRows are those of a count by gigabyte, which depends on how requests meet.
func volumeRows(name string, calls map[string]int64, gigabytes float64) []guardRow {
	work := guardRow{Row: "syscalls, " + name, Unit: "calls/GB", Relative: 0.3}
	wait := guardRow{Row: "syscalls to wait, " + name, Unit: "calls/GB", Relative: 1, Absolute: waitsPerGB}
	for call, n := range calls {
		if slices.Contains(waiting, call) {
			count(&wait, call, float64(n)/gigabytes)
		} else {
			count(&work, call, float64(n)/gigabytes)
		}
	}
	return []guardRow{work, wait}
}

// timeGate is the cost of a byte as a ratio to the raw loop, which runs in
// turn with the broker. The interval is a percentile bootstrap over the
// rounds' ratios; a row is worse only when even its low end is.
func timeGate(o guardOptions) ([]guardRow, error) {
	kaas := side{name: "kaas", start: startKaas(neverFlush), acks: 1}
	raw := side{name: "raw-mmap", start: startRaw(rawMapped), acks: 1}
	o.Bytes = 200_000_000
	var ratios []float64
	for range o.Rounds {
		for _, order := range [][2]side{{kaas, raw}, {raw, kaas}} {
			var pair [2]sample
			for i, sd := range order {
				var err error
				if pair[i], err = measure(o.options, sd, rig.CostOfAByte(sd.acks)); err != nil {
					return nil, err
				}
			}
			if order[0].name == raw.name {
				pair[0], pair[1] = pair[1], pair[0]
			}
			ratios = append(ratios, cpuPerGB(pair[0])/cpuPerGB(pair[1]))
		}
	}
	const confidence = 0.95
	low, high := bootstrap(ratios, confidence)
	middle := median(ratios)
	return []guardRow{{Row: "CPU of a byte, ratio to the raw loop", Unit: "1", Value: low, Relative: 0.15, Typical: middle,
		Note: fmt.Sprintf("median %.3f, %.0f %% of bootstrapped medians of %d pairs lie in %.3f to %.3f; the low end is compared", middle, 100*confidence, len(ratios), low, high)}}, nil
}

// bootstrap returns the interval that holds the given share of the medians of
// resampled values. The seed is fixed: the same values give the same interval.
func bootstrap(values []float64, share float64) (low, high float64) {
	const resamples = 10_000
	random := rand.New(rand.NewPCG(1, 2))
	medians := make([]float64, resamples)
	again := make([]float64, len(values))
	for i := range medians {
		for j := range again {
			again[j] = values[random.IntN(len(values))]
		}
		medians[i] = median(again)
	}
	slices.Sort(medians)
	tail := (1 - share) / 2
	return medians[int(tail*resamples)], medians[int((1-tail)*resamples)-1]
}
