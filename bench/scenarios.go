package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// side is one of the things that a scenario measures with the same load.
type side struct {
	name  string
	start func(o options, l load) (*subject, error)
	acks  int16
}

// subject is a started side: a child with an empty directory of its own.
type subject struct {
	*process
	address     string
	httpAddress string // empty for the raw loop
	dir         string
	driver      *driver
}

func (s *subject) close() error {
	s.stop()
	return os.RemoveAll(s.dir)
}

// neverFlush is Kafka's default: the operating system writes back when it
// likes. The raw loop does the same, so this is the like-for-like side.
const neverFlush = "9223372036854775807"

func startBroker(o options, l load, settings ...string) (*subject, error) {
	dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-")
	if err != nil {
		return nil, err
	}
	s := &subject{dir: dir}
	fail := func(err error) (*subject, error) { return nil, errors.Join(err, os.RemoveAll(dir)) }
	if s.address, err = freeAddress(); err != nil {
		return fail(err)
	}
	if s.httpAddress, err = freeAddress(); err != nil {
		return fail(err)
	}
	arguments := append(slices.Clone(o.Prefix), o.Broker, "broker")
	for _, setting := range append([]string{
		"listeners=PLAINTEXT://" + s.address, "http.address=" + s.httpAddress, "log.dirs=" + filepath.Join(dir, "data"),
	}, settings...) {
		arguments = append(arguments, "--override", setting)
	}
	if s.process, err = startProcess(arguments[0], arguments[1:]...); err != nil {
		return fail(err)
	}
	if err := s.awaitListening(s.address); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.driver = newDriver(l, s.address)
	return s, nil
}

func startKaas(flushMessages string) func(options, load) (*subject, error) {
	return func(o options, l load) (*subject, error) {
		s, err := startBroker(o, l)
		if err != nil {
			return nil, err
		}
		if err := s.driver.createTopic([][2]string{{"flush.messages", flushMessages}}); err != nil {
			return nil, errors.Join(fmt.Errorf("%w\n%s", err, s.output), s.close())
		}
		return s, nil
	}
}

func startRaw(how string) func(options, load) (*subject, error) {
	return func(o options, l load) (*subject, error) {
		dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-raw-")
		if err != nil {
			return nil, err
		}
		s := &subject{dir: dir}
		self, err := os.Executable()
		if err == nil {
			s.address, err = freeAddress()
		}
		if err == nil {
			s.process, err = startProcess(self, "bench", "raw-loop", s.address, dir, fmt.Sprint(l.Partitions), how)
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		if err := s.awaitListening(s.address); err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.driver = newDriver(l, s.address)
		return s, nil
	}
}

// sample is one measured run of one side.
type sample struct {
	outcome
	cpu                           cpu
	allocations                   int64 // objects, -1 where it is not known
	resident, anonymous, idleAnon int64
	idleResident                  int64
}

func (s sample) gigabytes() float64 { return float64(s.Bytes) / 1e9 }

// warmUpBytes go through a side before it is measured: pools are filled, the
// segments exist, TCP has found its windows.
const warmUpBytes = 64_000_000

// measure runs one side once, in a new process with an empty directory.
func measure(o options, sd side) (result sample, err error) {
	l := costOfAByte(sd.acks)
	if err := warmMemory(o.Bytes + warmUpBytes + 512<<20); err != nil {
		return sample{}, err
	}
	s, err := sd.start(o, l)
	if err != nil {
		return sample{}, err
	}
	result.allocations = -1
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", sd.name, err, s.output)
		}
		err = errors.Join(err, s.close())
	}()
	if result.idleResident, result.idleAnon, err = s.memory(); err != nil {
		return result, err
	}
	if _, err = s.driver.run(warmUpBytes); err != nil {
		return result, err
	}
	// Asking for the count allocates, too: what one question costs is taken off.
	var before, asking int64
	if s.httpAddress != "" {
		first, err := mallocs(s.httpAddress)
		if err != nil {
			return result, err
		}
		if before, err = mallocs(s.httpAddress); err != nil {
			return result, err
		}
		asking = before - first
	}
	cpuBefore, err := s.cpu()
	if err != nil {
		return result, err
	}
	if result.outcome, err = s.driver.run(o.Bytes); err != nil {
		return result, err
	}
	cpuAfter, err := s.cpu()
	if err != nil {
		return result, err
	}
	result.cpu = cpuAfter.since(cpuBefore)
	if result.resident, result.anonymous, err = s.memory(); err != nil {
		return result, err
	}
	if s.httpAddress != "" {
		after, err := mallocs(s.httpAddress)
		if err != nil {
			return result, err
		}
		result.allocations = max(after-before-asking, 0)
	}
	return result, nil
}

// quietLoad is the load average above which a run is not alone.
const quietLoad = 0.5

// runAll runs every scenario, prints the table and saves the row.
func runAll(o options, out io.Writer) error {
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	if r.Host.Load1 > quietLoad {
		fmt.Fprintf(out, "the load average is %.1f: other work of this machine is in every figure\n", r.Host.Load1)
	}
	r.Settings = map[string]string{"megabytes": fmt.Sprint(o.Bytes / 1_000_000), "rounds": fmt.Sprint(o.Rounds), "starts": fmt.Sprint(o.Starts)}
	figures, err := startUp(o)
	if err != nil {
		return fmt.Errorf("start-up: %w", err)
	}
	r.Figures = append(r.Figures, figures...)
	figures, err = tail(o, out)
	if err != nil {
		return fmt.Errorf("cost of a byte: %w", err)
	}
	r.Figures = append(r.Figures, figures...)
	fmt.Fprint(out, r.table())
	if o.Results == "" {
		return nil
	}
	path, err := r.save(o.Results)
	if err != nil {
		return fmt.Errorf("save the row: %w", err)
	}
	fmt.Fprintf(out, "one row was added to %s\n", path)
	return nil
}

// tail is the cost of a byte: produce and follow at the tail, the broker with
// and without flushing, the raw loop with both ways of sending.
func tail(o options, out io.Writer) ([]figure, error) {
	const scenario = "cost-of-a-byte"
	sides := []side{
		{name: "kaas", start: startKaas(neverFlush), acks: 1},
		{name: "kaas-durable", start: startKaas("1"), acks: -1},
		{name: "raw-sendfile", start: startRaw(rawSendfile), acks: 1},
		{name: "raw-mmap", start: startRaw(rawMapped), acks: 1},
		{name: "raw-durable", start: startRaw(rawSync), acks: -1},
	}
	samples := make([][]sample, len(sides))
	order := make([]int, 0, 2*len(sides)) // A B … B A
	for i := range sides {
		order = append(order, i)
	}
	for i := len(sides) - 1; i >= 0; i-- {
		order = append(order, i)
	}
	for round := range o.Rounds {
		for _, i := range order {
			s, err := measure(o, sides[i])
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
			fmt.Fprintf(out, "round %d %-14s %7.0f MB/s %6.3f CPU s/GB\n", round+1, sides[i].name, s.gigabytes()*1000/s.Took.Seconds(), cpuPerGB(s))
		}
	}
	var figures []figure
	for i, sd := range sides {
		figures = append(figures, sideFigures(scenario, sd.name, samples[i])...)
	}
	// The limit is the cheaper raw loop; the ratio is formed within each half
	// of a round, where both sides saw the same machine.
	raw := 2
	if median(each(samples[3], cpuPerGB)) < median(each(samples[2], cpuPerGB)) {
		raw = 3
	}
	for _, pair := range [][2]int{{0, raw}, {1, 4}} {
		ours, limit := samples[pair[0]], samples[pair[1]]
		var ratios []float64
		for n := range ours {
			ratios = append(ratios, cpuPerGB(ours[n])/cpuPerGB(limit[n]))
		}
		figures = append(figures, newFigure(scenario, sides[pair[0]].name, "CPU, ratio to "+sides[pair[1]].name, "1", "", ratios))
	}
	return figures, nil
}

func each(samples []sample, f func(sample) float64) (values []float64) {
	for _, s := range samples {
		values = append(values, f(s))
	}
	return values
}

func cpuPerGB(s sample) float64 { return s.cpu.total.Seconds() / s.gigabytes() }

const mib = 1 << 20

func sideFigures(scenario, name string, samples []sample) []figure {
	add := func(figureName, unit string, f func(sample) float64) figure {
		return newFigure(scenario, name, figureName, unit, "", each(samples, f))
	}
	figures := []figure{
		add("CPU", "s/GB", cpuPerGB),
		add("CPU, user", "s/GB", func(s sample) float64 { return s.cpu.user.Seconds() / s.gigabytes() }),
		add("CPU, system", "s/GB", func(s sample) float64 { return s.cpu.system.Seconds() / s.gigabytes() }),
		add("throughput", "MB/s", func(s sample) float64 { return s.gigabytes() * 1000 / s.Took.Seconds() }),
		add("bytes per fetch", "KiB", func(s sample) float64 { return float64(s.Bytes) / float64(s.Fetches) / 1024 }),
		add("resident memory, loaded", "MiB", func(s sample) float64 { return float64(s.resident) / mib }),
		add("anonymous memory, loaded", "MiB", func(s sample) float64 { return float64(s.anonymous) / mib }),
	}
	if len(samples) > 0 && samples[0].allocations >= 0 {
		figures = append(figures,
			add("allocations", "objects/request", func(s sample) float64 { return float64(s.allocations) / float64(s.Produces+s.Fetches) }),
			add("allocations", "objects/run", func(s sample) float64 { return float64(s.allocations) }),
			add("resident memory, idle", "MiB", func(s sample) float64 { return float64(s.idleResident) / mib }))
	}
	return figures
}
