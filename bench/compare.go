package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"kaas/bench/generator"
)

// compareOptions are what a comparison can be told.
type compareOptions struct {
	options
	Rival    string        // kafka, or host:port of a broker that runs
	RivalPID int           // of that broker, for its processor time; 0: not known
	Launcher string        // starts Apache Kafka from a server.properties
	WarmUp   time.Duration // of the rival, before anything is measured
	Rate     float64       // records a second of the latency rows
	Length   time.Duration // of one latency run
}

// contest is one load that both sides run, in turn.
type contest struct {
	name    string
	durable bool // flush.messages=1 on both sides; else Kafka's default, which never forces
	drain   bool // produce first; only reading is measured
	bytes   float64
	load    load
}

// contests are the rows; the shares are of --megabytes.
func contests() []contest {
	storm := load{Partitions: 100, Producers: 200, Consumers: 4, InFlight: 5, Acks: 1, BatchBytes: 200, ValueBytes: 100, MaxPartitionBytes: 1 << 20}
	storm.Producers = storm.Partitions // each partition has one producer's connection
	durable100 := storm
	durable100.Acks, durable100.BatchBytes, durable100.ValueBytes = -1, 16<<10, 1<<10
	backlog := costOfAByte(1)
	backlog.Consumers = 2
	return []contest{
		{"produce and follow, 64 KB batches, 16 partitions", false, false, 1, costOfAByte(1)},
		{"produce and follow, 64 KB batches, 16 partitions, acks=all", true, false, 0.5, costOfAByte(-1)},
		{"one 100-byte record a batch, 100 partitions and connections", false, false, 0.02, storm},
		{"16 KB batches, 100 partitions and connections, acks=all", true, false, 0.2, durable100},
		{"read a backlog, 2 connections", false, true, 1, backlog},
	}
}

// stable says for both sides of a contest what an acknowledgement means.
func (c contest) stable() string {
	if c.durable {
		return "durable on both sides: flush.messages=1, acknowledged after the bytes are on stable storage"
	}
	return "not durable on either side: acknowledged from the page cache"
}

// runCompare measures kaas and a rival side by side.
func runCompare(o compareOptions, out io.Writer) (err error) {
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	if r.Host.Load1 > quietLoad {
		fmt.Fprintf(out, "the load average is %.1f: other work of this machine is in every figure\n", r.Host.Load1)
	}
	r.Settings = map[string]string{"megabytes": fmt.Sprint(o.Bytes / 1_000_000), "rounds": fmt.Sprint(o.Rounds), "rival": o.Rival, "warmUp": o.WarmUp.String()}
	ours, err := startBroker(o.options, costOfAByte(1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	rival, err := startRival(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rival.close()) }()
	if err := warmRival(o, rival, out); err != nil {
		return fmt.Errorf("warm-up of %s: %w", o.Rival, err)
	}
	sides := [2]*contender{{name: "kaas", address: ours.address, process: ours.process}, rival}
	for number, c := range contests() {
		figures, err := hold(o, c, number, sides, out)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.Figures = append(r.Figures, figures...)
	}
	figures, err := latencies(o, sides, out)
	if err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	r.Figures = append(r.Figures, figures...)
	fmt.Fprint(out, r.table())
	for _, f := range r.Figures {
		if f.Note != "" {
			fmt.Fprintf(out, "%s, %s: %s\n", f.Scenario, f.Name, f.Note)
		}
	}
	if o.Results == "" {
		return nil
	}
	path, err := r.save(o.Results)
	if err == nil {
		fmt.Fprintf(out, "one row was added to %s\n", path)
	}
	return err
}

// contender is one side of a comparison. process is nil when its processor
// time is not known.
type contender struct {
	name, address string
	process       *process
	dir           string // to be removed
	foreign       bool   // the process is not ours to end
	driver        *driver
}

func (c *contender) close() error {
	if c.process != nil && !c.foreign {
		c.process.stop()
	}
	if c.dir == "" {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// startRival starts Apache Kafka, or takes what runs.
func startRival(o compareOptions) (*contender, error) {
	if o.Rival != "kafka" {
		c := &contender{name: "rival", address: o.Rival, foreign: true}
		if o.RivalPID > 0 {
			found, err := os.FindProcess(o.RivalPID)
			if err != nil {
				return nil, err
			}
			c.process = &process{output: &lockedBuffer{}, exited: make(chan struct{})}
			c.process.watch(found)
		}
		return c, nil
	}
	dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-kafka-")
	if err != nil {
		return nil, err
	}
	c := &contender{name: "kafka", dir: dir}
	if c.address, err = freeAddress(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	properties := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf("listeners=PLAINTEXT://%s\nlog.dirs=%s\n", c.address, filepath.Join(dir, "data"))
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if c.process, err = startProcess(o.Launcher, properties); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := c.process.awaitListening(c.address); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// warmRival gives the rival's just-in-time compiler what it is going to see.
func warmRival(o compareOptions, rival *contender, out io.Writer) error {
	if o.WarmUp <= 0 {
		return nil
	}
	fmt.Fprintf(out, "warming %s up for %v\n", rival.name, o.WarmUp)
	begin := time.Now()
	all := contests()
	drivers := make([]*driver, len(all))
	for i := 0; time.Since(begin) < o.WarmUp; i++ {
		at := i % len(all)
		if drivers[at] == nil {
			l := all[at].load
			l.Topic = fmt.Sprintf("warm-%d-%d", begin.UnixNano(), at)
			drivers[at] = newDriver(l, rival.address)
			if err := drivers[at].createTopic(nil); err != nil {
				return err
			}
		}
		if _, err := drivers[at].run(int64(all[at].bytes * 50e6)); err != nil {
			return err
		}
	}
	return nil
}

// bout is one measured run of one side.
type bout struct {
	outcome
	cpu time.Duration
}

// hold runs one contest in the order A B B A.
func hold(o compareOptions, c contest, number int, sides [2]*contender, out io.Writer) ([]figure, error) {
	flush := neverFlush
	if c.durable {
		flush = "1"
	}
	for _, side := range sides {
		l := c.load
		l.Topic = fmt.Sprintf("contest-%d-%d", time.Now().UnixNano(), number)
		side.driver = newDriver(l, side.address)
		if err := side.driver.createTopic([][2]string{{"flush.messages", flush}}); err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		if _, err := side.driver.run(int64(float64(o.Bytes)*c.bytes) / 10); err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
	}
	var bouts [2][]bout
	for range o.Rounds {
		for _, i := range []int{0, 1, 1, 0} {
			b, err := fight(int64(float64(o.Bytes)*c.bytes), c, sides[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sides[i].name, err)
			}
			bouts[i] = append(bouts[i], b)
			fmt.Fprintf(out, "%-60s %-6s %8.1f MB/s %8.0f requests/s %7.3f CPU s/GB\n", c.name, sides[i].name,
				float64(b.Bytes)/1e6/b.Took.Seconds(), float64(b.Produces+b.Fetches)/b.Took.Seconds(), b.cpu.Seconds()/(float64(b.Bytes)/1e9))
		}
	}
	return contestFigures(c, sides, bouts), nil
}

// fight measures one run of one side.
func fight(bytes int64, c contest, side *contender) (b bout, err error) {
	if err := warmMemory(2*bytes + 256<<20); err != nil {
		return b, err
	}
	d := side.driver
	if c.drain {
		consumers := d.Consumers
		d.Consumers = 0
		if _, err = d.run(bytes); err != nil {
			return b, err
		}
		producers := d.Producers
		d.Producers, d.Consumers = 0, consumers
		defer func() { d.Producers = producers }()
		bytes = 0
	}
	before, err := side.cpu()
	if err != nil {
		return b, err
	}
	if b.outcome, err = d.run(bytes); err != nil {
		return b, err
	}
	after, err := side.cpu()
	b.cpu = after - before
	return b, err
}

func (c *contender) cpu() (time.Duration, error) {
	if c.process == nil {
		return 0, nil
	}
	used, err := c.process.cpu()
	return used.total, err
}

func contestFigures(c contest, sides [2]*contender, bouts [2][]bout) (figures []figure) {
	ratio := func(name, note string, of func(bout) float64) {
		var ratios []float64
		for n := range bouts[0] {
			if rival := of(bouts[1][n]); rival > 0 {
				ratios = append(ratios, of(bouts[0][n])/rival)
			}
		}
		if len(ratios) > 0 {
			low, high := bootstrap(ratios, 0.95)
			figures = append(figures, newFigure(c.name, "kaas", name+", ratio to "+sides[1].name, "1", fmt.Sprintf("95 %% of resampled medians in %.3f to %.3f; %s", low, high, note), ratios))
		}
	}
	perGB := func(b bout) float64 { return b.cpu.Seconds() / (float64(b.Bytes) / 1e9) }
	rate := func(b bout) float64 { return float64(b.Bytes) / 1e6 / b.Took.Seconds() }
	perCPU := func(b bout) float64 {
		if b.cpu == 0 {
			return 0
		}
		return float64(b.Produces+b.Fetches) / b.cpu.Seconds()
	}
	for i, side := range sides {
		for _, f := range []struct {
			name, unit string
			of         func(bout) float64
		}{{"throughput", "MB/s", rate}, {"CPU", "s/GB", perGB}, {"requests per CPU second", "1/s", perCPU}} {
			if f.name != "throughput" && side.process == nil {
				continue
			}
			var values []float64
			for _, b := range bouts[i] {
				values = append(values, f.of(b))
			}
			figures = append(figures, newFigure(c.name, side.name, f.name, f.unit, "", values))
		}
	}
	ratio("throughput", c.stable(), rate)
	ratio("CPU per GB", c.stable(), perGB)
	return figures
}

// latencies runs the open loop at a fixed rate against both sides in turn.
func latencies(o compareOptions, sides [2]*contender, out io.Writer) (figures []figure, err error) {
	for _, durable := range []bool{false, true} {
		flush, acks := neverFlush, "1"
		if durable {
			flush, acks = "1", "all"
		}
		scenario := fmt.Sprintf("%.0f records/s of 1 KB at intended times, acks=%s", o.Rate, acks)
		var p50, p99, p999 [2][]float64
		for range o.Rounds {
			for _, i := range []int{0, 1, 1, 0} {
				plan := generator.DefaultPlan()
				plan.Bootstrap, plan.Rate, plan.Duration, plan.Acks = []string{sides[i].address}, o.Rate, o.Length, acks
				plan.Producers, plan.Consumers, plan.TopicConfigs, plan.Idempotent = 1, 1, []string{"flush.messages=" + flush}, false
				result, err := generator.Run(context.Background(), plan, nil)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", sides[i].name, err)
				}
				l := result.Summary.Produce
				p50[i], p99[i], p999[i] = append(p50[i], l.P50Ms), append(p99[i], l.P99Ms), append(p999[i], l.P999Ms)
				fmt.Fprintf(out, "%-60s %-6s ack p50 %.3f p99 %.3f p99.9 %.3f ms\n", scenario, sides[i].name, l.P50Ms, l.P99Ms, l.P999Ms)
			}
		}
		note := contest{durable: durable}.stable()
		for i, side := range sides {
			figures = append(figures, newFigure(scenario, side.name, "acknowledged p50", "ms", "", p50[i]),
				newFigure(scenario, side.name, "acknowledged p99", "ms", note, p99[i]), newFigure(scenario, side.name, "acknowledged p99.9", "ms", "", p999[i]))
		}
		runtime.GC() // this process holds the other side's histograms
	}
	return figures, nil
}

// checkRival says early what a comparison lacks.
func (o *compareOptions) check() error {
	if o.Rival == "kafka" {
		if _, err := os.Stat(o.Launcher); err != nil {
			return fmt.Errorf("--launcher: %w; run it in the repository, or name what starts Kafka", err)
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(o.Rival); err != nil || strings.HasPrefix(o.Rival, ":") {
		return fmt.Errorf("--rival %s: allowed is kafka or host:port", o.Rival)
	}
	return nil
}
