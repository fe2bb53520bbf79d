package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kaas/bench/generator"
	"kaas/bench/rig"
)

// compareOptions are what a comparison can be told.
type compareOptions struct {
	options
	Rival    string        // kafka, or host:port of a broker that runs
	RivalPID int           // of that broker, for its processor time; 0: not known
	Launcher string        // starts Apache Kafka from a server.properties
	WarmUp   time.Duration // of the rival, before anything is measured
	Rows     string        // parts of the contests' names; empty: all
	Rate     float64       // records a second of the latency rows
	Length   time.Duration // of one latency run
}

// kafkaRival is Apache Kafka, which is started here.
const kafkaRival = "kafka"

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
	ours, err := startBroker(o.options, rig.CostOfAByte(1), deleteAtOnce)
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
	sides := [2]*contender{{name: "kaas", address: ours.address, process: ours.Process}, rival}
	wanted := chosen(o.Rows)
	if rival.ready > 0 && wanted(idleRows) {
		r.Figures = append(r.Figures, newFigure("idle", rival.name, "exec to listening", "ms", "", []float64{milliseconds(rival.ready)}))
	}
	if wanted(idleRows) {
		r.Figures = append(r.Figures, footprints(sides, "resident memory, nothing asked of kaas, the rival warmed up")...)
	}
	for number, c := range contests() {
		if !wanted(c.name) {
			continue
		}
		figures, err := hold(o, c, number, sides, out)
		r.Figures = append(r.Figures, figures...)
		if err != nil { // the others are still worth having
			r.Figures = append(r.Figures, failure(c.name, err))
		}
	}
	for _, durable := range []bool{false, true} {
		if !wanted(latencyRows) {
			break
		}
		figures, err := latencies(o, sides, durable, out)
		r.Figures = append(r.Figures, figures...)
		if err != nil {
			r.Figures = append(r.Figures, failure("latency", err))
		}
	}
	if wanted(idleRows) {
		r.Figures = append(r.Figures, footprints(sides, "resident memory, after all of it")...)
	}
	fmt.Fprintf(out, "=== %s\n%s\n%s\n%s=== %s\n", r.about(), tableOf(r.Figures), notesOf(r.Figures), tableOf(targets(r.Figures)), verdicts(r.Figures))
	path, err := r.save(o.Results, r.Figures)
	if err == nil && path != "" {
		fmt.Fprintf(out, "%d rows were added to %s\n", len(r.Figures), path)
	}
	return err
}

// contender is one side of a comparison. process is nil when its processor
// time is not known.
type contender struct {
	name, address string
	process       *rig.Process
	dir           string        // to be removed
	foreign       bool          // the process is not ours to end
	ready         time.Duration // exec to the first connection, when it was started here
	driver        *rig.Driver
	storm         *rig.Storm
}

func (c *contender) close() error {
	if c.process != nil && !c.foreign {
		c.process.Stop()
	}
	if c.dir == "" {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// startRival starts Apache Kafka, or takes what runs.
func startRival(o compareOptions) (*contender, error) {
	if o.Rival != kafkaRival {
		c := &contender{name: "rival", address: o.Rival, foreign: true}
		if o.RivalPID > 0 {
			found, err := os.FindProcess(o.RivalPID)
			if err != nil {
				return nil, err
			}
			c.process = &rig.Process{Output: &rig.LockedBuffer{}, Exited: make(chan struct{})}
			c.process.Watch(found)
		}
		return c, nil
	}
	dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-kafka-")
	if err != nil {
		return nil, err
	}
	c := &contender{name: kafkaRival, dir: dir}
	if c.address, err = rig.FreeAddress(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	properties := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf("listeners=PLAINTEXT://%s\nlog.dirs=%s\n%s\n", c.address, filepath.Join(dir, "data"), deleteAtOnce)
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if c.process, err = rig.StartProcess(o.Launcher, properties); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := c.process.AwaitListening(c.address); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.ready = time.Since(c.process.Started)
	return c, nil
}

// footprints are the sides at rest.
func footprints(sides [2]*contender, name string) (figures []figure) {
	for _, side := range sides {
		if side.process == nil {
			continue
		}
		if resident, _, err := side.process.Memory(); err == nil {
			figures = append(figures, newFigure("idle", side.name, name, "MiB", "", []float64{float64(resident) / mib}))
		}
	}
	return figures
}

// warmRival gives the rival's just-in-time compiler what it is going to see.
func warmRival(o compareOptions, rival *contender, out io.Writer) (err error) {
	if o.WarmUp <= 0 {
		return nil
	}
	fmt.Fprintf(out, "warming %s up for %v\n", rival.name, o.WarmUp)
	all, fakes := contests(), make([]*contender, len(contests()))
	defer func() {
		for _, fake := range fakes {
			if fake != nil {
				err = errors.Join(err, fake.driver.DeleteTopic())
			}
		}
	}()
	for i, begin := 0, time.Now(); time.Since(begin) < o.WarmUp; i++ {
		at := i % len(all)
		if fakes[at] == nil {
			fakes[at] = &contender{name: rival.name, address: rival.address}
			if err := enter(all[at], fmt.Sprintf("warm-%d-%d", begin.UnixNano(), at), fakes[at]); err != nil {
				return fmt.Errorf("%s: %w", all[at].name, err)
			}
		}
		if _, err := fight(int64(all[at].bytes*50e6), all[at], fakes[at]); err != nil {
			return fmt.Errorf("%s: %w", all[at].name, err)
		}
	}
	return nil
}

// enter makes the topic of a contest on one side.
func enter(c contest, topic string, side *contender) error {
	flush := neverFlush
	if c.durable {
		flush = "1"
	}
	l := c.load
	l.Topic = topic
	side.driver, side.storm = rig.NewDriver(l, side.address), nil
	if c.storm {
		side.storm = stormOf(side.address, topic, rig.ProduceAnswer(topic))
	}
	if err := side.driver.CreateTopic([][2]string{{"flush.messages", flush}}); err != nil {
		return fmt.Errorf("%s: %w", side.name, err)
	}
	return nil
}

// bout is one measured run of one side.
type bout struct {
	rig.Outcome
	cpu time.Duration
	own time.Duration // of the load itself, which shares the machine with both sides
}

// deleteAtOnce: what a run has written is gone before the next one. Otherwise the kernel writes it back meanwhile, and
// pages of the host, which cost more at their first write, come to whoever runs then.
const deleteAtOnce = "log.segment.delete.delay.ms=0"

// hold runs one contest in the order A B B A.
func hold(o compareOptions, c contest, number int, sides [2]*contender, out io.Writer) (figures []figure, err error) {
	bytes := int64(float64(o.Bytes) * c.bytes)
	if c.drain { // written once, and read again and again
		for _, side := range sides {
			if err := enter(c, fmt.Sprintf("contest-%d-%d", time.Now().UnixNano(), number), side); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, side.driver.DeleteTopic()) }()
			if _, err := fight(bytes, c, side); err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	var bouts [2][]bout
	err = turns(o.Rounds, 2, func(i int) error {
		b, err := bring(bytes, c, fmt.Sprintf("contest-%d-%d", time.Now().UnixNano(), number), sides, i)
		if err != nil {
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
		bouts[i] = append(bouts[i], b)
		fmt.Fprintf(out, "%-60s %-6s %8.1f MB/s %8.0f requests/s %7.3f CPU s/GB, the load's own CPU %.2f\n", c.name, sides[i].name,
			float64(b.Bytes)/1e6/b.Took.Seconds(), float64(b.Produces+b.Fetches)/b.Took.Seconds(), b.cpu.Seconds()/(float64(b.Bytes)/1e9), ownShare(b))
		return nil
	})
	if err != nil {
		return nil, err
	}
	figures = contestFigures(c, sides, bouts)
	if sides[1].name == kafkaRival {
		figures = judged(c, figures)
	}
	return figures, nil
}

// judged gives the ratios to Apache Kafka their targets.
func judged(c contest, figures []figure) []figure {
	if c.judge == nil {
		return figures
	}
	for i := range figures {
		figures[i] = c.judge(figures[i])
	}
	return figures
}

// bring measures one run of side i on a topic of its own, which is filled a little before and removed afterwards, while the
// other side rests.
func bring(bytes int64, c contest, topic string, sides [2]*contender, i int) (b bout, err error) {
	side := sides[i]
	if !c.drain {
		if err := enter(c, topic, side); err != nil {
			return b, err
		}
		defer func() { err = errors.Join(err, side.driver.DeleteTopic()) }()
		if _, err := fight(bytes/10, c, side); err != nil {
			return b, err
		}
	}
	unix.Sync() // what was written before is not written back meanwhile
	if err := errors.Join(sides[0].rest(), sides[1].rest()); err != nil {
		return b, err
	}
	return fight(bytes, c, side)
}

// rest waits until a side has nothing to do (a just-in-time compiler, files that it removes) and for a while at most.
func (c *contender) rest() error {
	const step, most, busy = 100 * time.Millisecond, 5 * time.Second, 0.1
	for begin := time.Now(); c.process != nil && time.Since(begin) < most; {
		before, err := c.cpu()
		if err != nil {
			return err
		}
		time.Sleep(step)
		after, err := c.cpu()
		if err != nil || (after-before).Seconds() < busy*step.Seconds() {
			return err
		}
	}
	return nil
}

// stormBytes is about what one request of a storm carries, to make a number
// of requests of a number of bytes.
const stormBytes = 750

// fight measures one run of one side.
func fight(bytes int64, c contest, side *contender) (b bout, err error) {
	if err := rig.WarmMemory(2*bytes + 256<<20); err != nil {
		return b, err
	}
	d := side.driver
	if c.drain { // what stands there has been written before, and is read again and again
		producers := d.Producers
		if !d.Written() {
			d.Consumers = 0
			_, err = d.Run(bytes)
			d.Consumers = c.load.Consumers
			if err != nil {
				return b, err
			}
		}
		d.Rewind()
		d.Producers = 0
		defer func() { d.Producers = producers }()
		bytes = 0
	}
	before, err := side.cpu()
	if err != nil {
		return b, err
	}
	own := generator.OwnCPU()
	if c.storm {
		b.Produces = bytes / stormBytes
		b.Bytes = b.Produces * stormBytes
		b.Took, err = side.storm.Run(b.Produces)
	} else {
		b.Outcome, err = d.Run(bytes)
	}
	if err != nil {
		return b, err
	}
	after, err := side.cpu()
	b.cpu, b.own = after-before, generator.OwnCPU()-own
	return b, err
}

func (c *contender) cpu() (time.Duration, error) {
	if c.process == nil {
		return 0, nil
	}
	used, err := c.process.CPU()
	return used.Total, err
}

// ownShare is how many processors the load itself kept busy.
func ownShare(b bout) float64 { return b.own.Seconds() / b.Took.Seconds() }

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
			figures = append(figures, newFigure(c.name, "kaas", name+", ratio to "+sides[1].name, "1", note, ratios).noting(fmt.Sprintf("%s: 95 %% of resampled medians in %.3f to %.3f", name, low, high)))
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
		}{{"throughput", "MB/s", rate}, {"CPU", "s/GB", perGB}, {"requests per CPU second", "1/s", perCPU}, {"CPU of the load itself", "processors", ownShare}} {
			if (f.unit == "s/GB" || f.unit == "1/s") && side.process == nil {
				continue
			}
			var values []float64
			for _, b := range bouts[i] {
				values = append(values, f.of(b))
			}
			figures = append(figures, newFigure(c.name, side.name, f.name, f.unit, c.stable(), values))
		}
	}
	ratio(throughputRatio, c.stable(), rate)
	ratio(cpuRatio, c.stable(), perGB)
	ratio(requestsRatio, c.stable(), perCPU)
	return figures
}

// latencies runs the open loop at a fixed rate against both sides in turn.
func latencies(o compareOptions, sides [2]*contender, durable bool, out io.Writer) (figures []figure, err error) {
	acks, c := int16(1), contest{durable: durable, load: rig.Load{Partitions: 1, BatchBytes: 1100, ValueBytes: 900}}
	scenario := fmt.Sprintf("%.0f records/s of 1 KB at intended times, acks=1", o.Rate)
	if durable {
		acks, scenario = -1, strings.Replace(scenario, "acks=1", "acks=all", 1)
	}
	var paced [2]*rig.Paced
	for i, side := range sides {
		topic := fmt.Sprintf("latency-%d", time.Now().UnixNano())
		if err := enter(c, topic, side); err != nil {
			return nil, err
		}
		paced[i] = &rig.Paced{Address: side.address, Frames: smallFrames(topic, 1, acks, 1100), Check: rig.ProduceAnswer(topic), Connections: 1, Rate: o.Rate, WarmUp: 2 * time.Second, Length: o.Length}
	}
	var found [2]quantiles
	err = turns(o.Rounds, 2, func(i int) error {
		l, err := paced[i].Run()
		if err != nil {
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
		found[i].add(l)
		sayLatency(out, fmt.Sprintf("latency, acks=%d", acks), sides[i].name, l)
		return nil
	})
	for i, side := range sides {
		for _, f := range found[i].figures(scenario, side.name, "ack") {
			figures = append(figures, f.noting(c.stable()))
		}
	}
	ratio := newFigure(scenario, "kaas", "ack p99, ratio to "+sides[1].name, "1", c.stable(), ratios(found[0].p99, found[1].p99))
	if sides[1].name == kafkaRival && !durable {
		ratio = ratio.atMost(0.5)
	}
	return append(figures, ratio), err
}

// checkRival says early what a comparison lacks.
func (o *compareOptions) check() error {
	if err := checkRows(o.Rows); err != nil {
		return err
	}
	if o.Rival == kafkaRival {
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
