package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// runCompare measures kaas and a rival side by side. A part that fails or takes too long is a row that says so, and the others
// run all the same, on sides that are started again where one has gone. When ctx ends, what runs is given up, and what was
// measured before is kept.
func runCompare(ctx context.Context, o compareOptions, out io.Writer) (err error) {
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	if r.Host.Load1 > quietLoad {
		fmt.Fprintf(out, "the load average is %.1f: other work of this machine is in every figure\n", r.Host.Load1)
	}
	r.Settings = map[string]string{"megabytes": fmt.Sprint(o.Bytes / 1_000_000), "rounds": fmt.Sprint(o.Rounds), "rival": o.Rival, "warmUp": o.WarmUp.String()}
	sides, err := o.startSides(out)
	defer func() { err = errors.Join(err, closeSides(sides)) }()
	if err != nil {
		return err
	}
	// A signal ends the sides, and with them what waits for their answers.
	defer context.AfterFunc(ctx, func() { killSides(sides) })()
	if err := warmRival(o, sides[1], out); err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return fmt.Errorf("warm-up of %s: %w", o.Rival, err)
	}
	begin, path := time.Now(), ""
	parts := o.parts(sides, out)
	for i, p := range parts {
		fmt.Fprintf(out, "--- %d of %d, after %v, about %v to go: %s\n", i+1, len(parts), time.Since(begin).Round(time.Second), toGo(parts[i:]), p.scenario)
		figures := o.measure(ctx, p, sides, out)
		if ctx.Err() != nil {
			break // what it has is of a part of it
		}
		if judged := targets(figures); len(judged) > 0 {
			fmt.Fprint(out, tableOf(judged))
		}
		r.Figures = append(r.Figures, figures...)
		// At once: a run that is ended early leaves what it has.
		if path, err = r.save(o.Results, figures); err != nil {
			return fmt.Errorf("save the rows: %w", err)
		}
	}
	fmt.Fprintf(out, "=== %s\n%s\n%s\n%s=== %s, %.0f s in all\n", r.about(), tableOf(r.Figures), notesOf(r.Figures), tableOf(targets(r.Figures)), verdicts(r.Figures), time.Since(begin).Seconds())
	if path != "" {
		fmt.Fprintf(out, "%d rows were added to %s\n", len(r.Figures), path)
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// mostOfAPart is when a part of a comparison is given up; usually it takes half a minute, and a minute with latencies.
const mostOfAPart = 4 * time.Minute

// measure runs one part within its limit and turns what goes wrong into a row.
func (o compareOptions) measure(ctx context.Context, p part, sides [2]*contender, out io.Writer) (figures []figure) {
	began, most := time.Now(), mostOfAPart*time.Duration(max(o.Rounds, usualRounds))/usualRounds
	err := o.revive(sides, out)
	if err == nil {
		err = within(ctx, most, func() { killSides(sides) }, func() (err error) { figures, err = p.run(); return err })
	}
	if err != nil { // the others are still worth having
		fmt.Fprintf(out, "%s failed: %v\n", p.scenario, err)
		figures = append(figures, failure(p.scenario, err))
		for _, side := range sides {
			if problem := side.clear(); problem != nil {
				fmt.Fprintf(out, "%s: %v\n", side.name, problem)
			}
		}
	}
	fmt.Fprintf(out, "%s took %.0f s\n", p.name, time.Since(began).Seconds())
	return append(figures, newFigure(p.scenario, loadSide, "duration of the scenario", "s", "", []float64{time.Since(began).Seconds()}))
}

// startSides starts kaas and, unless it runs already, the rival.
func (o compareOptions) startSides(out io.Writer) (sides [2]*contender, err error) {
	ours, err := startBroker(o.options, rig.CostOfAByte(1), deleteAtOnce)
	if err != nil {
		return sides, err
	}
	sides[0] = &contender{name: "kaas", address: ours.address, process: ours.Process, dir: ours.dir, command: ours.arguments}
	fmt.Fprintf(out, "starting %s\n", o.Rival)
	sides[1], err = startRival(o)
	return sides, err
}

func killSides(sides [2]*contender) {
	for _, side := range sides {
		side.kill()
	}
}

func closeSides(sides [2]*contender) error {
	var failures []error
	for _, side := range sides {
		if side != nil {
			failures = append(failures, side.close())
		}
	}
	return errors.Join(failures...)
}

// revive starts again what has ended since it was started here.
func (o compareOptions) revive(sides [2]*contender, out io.Writer) error {
	for i, side := range sides {
		if side.process == nil || side.foreign {
			continue
		}
		select {
		case <-side.process.Exited:
		default:
			continue
		}
		fmt.Fprintf(out, "%s has ended and is started again; its last words:\n%s\n", side.name, side.process.Output)
		if err := side.start(); err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
		if i == 1 {
			if err := warmRival(o, side, out); err != nil {
				return fmt.Errorf("warm-up of %s: %w", side.name, err)
			}
		}
	}
	return nil
}

// part is what --rows of a comparison selects.
type part struct {
	name     string
	scenario string // of its rows, so that one of a failure goes when a later run succeeds
	seconds  int    // that it takes by default
	run      func() ([]figure, error)
}

// toGo is how long parts take by default.
func toGo(parts []part) (left time.Duration) {
	for _, p := range parts {
		left += time.Duration(p.seconds) * time.Second
	}
	return left
}

// parts are those that were chosen, in their order.
func (o compareOptions) parts(sides [2]*contender, out io.Writer) (parts []part) {
	all := []part{{restRows, restRows, 33, func() ([]figure, error) { return atRest(sides, out) }}}
	for number, c := range contests() {
		all = append(all, part{c.name, c.name, c.seconds * max(o.Rounds, usualRounds) / usualRounds, func() ([]figure, error) { return hold(o, c, number, sides, out) }})
	}
	for _, durable := range []bool{false, true} {
		acks := "1"
		if durable {
			acks = "all"
		}
		scenario := fmt.Sprintf("%.0f records/s of 1 KB at intended times, acks=%s", o.Rate, acks)
		all = append(all, part{latencyRows, scenario, 64 * max(o.Rounds, usualRounds) / usualRounds, func() ([]figure, error) { return latencies(o, scenario, sides, durable, out) }})
	}
	all = append(all, part{restRows, restRows, 0, func() ([]figure, error) { return footprints(sides, "after all of it"), nil }})
	wanted := chosen(o.Rows)
	return slices.DeleteFunc(all, func(p part) bool { return !wanted(p.name) })
}

// contender is one side of a comparison. process is nil when its processor
// time is not known.
type contender struct {
	name, address string
	mu            sync.Mutex // process is written with it, and read with it by kill: all else is of the run's goroutine
	process       *rig.Process
	dir           string        // to be removed
	command       []string      // that starts it; none when it is foreign
	foreign       bool          // the process is not ours to end
	ready         time.Duration // exec to the first connection, when it was started here
	driver        *rig.Driver
	storm         *rig.Storm
	refused       bool // it takes no topic with flush.messages
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

// start runs the process, on what an earlier one has left.
func (c *contender) start() error {
	p, err := rig.StartProcess(c.command[0], c.command[1:]...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.process = p
	c.mu.Unlock()
	if err := c.process.AwaitListening(c.address); err != nil {
		return err
	}
	c.ready = time.Since(c.process.Started)
	return nil
}

// clear ends the process and removes what it has written: what a part that failed has left, topics and work under way, would
// be in the next part. Whoever runs already keeps it.
func (c *contender) clear() error {
	if c.process == nil || c.foreign {
		return nil
	}
	c.kill()
	<-c.process.Exited
	return os.RemoveAll(filepath.Join(c.dir, "data"))
}

// kill ends the process if it is ours; what waits for it then meets an error. A foreign one's clients have time-outs.
func (c *contender) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && !c.foreign {
		_ = c.process.Command.Process.Kill() // it may be gone already
	}
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
	c.command = []string{o.Launcher, properties}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// footprints are the sides' memory.
func footprints(sides [2]*contender, when string) (figures []figure) {
	for _, side := range sides {
		if side.process == nil {
			continue
		}
		if resident, anonymous, err := side.process.Memory(); err == nil {
			figures = append(figures, newFigure(restRows, side.name, "resident memory, "+when, "MiB", "with the pages of mapped files, which the kernel may take back", []float64{float64(resident) / mib}),
				newFigure(restRows, side.name, "anonymous memory, "+when, "MiB", "", []float64{float64(anonymous) / mib}))
		}
	}
	return figures
}

// atRest measures what the sides cost while nothing is asked of them, and while 1,000 consumers wait.
func atRest(sides [2]*contender, out io.Writer) (figures []figure, err error) {
	if ready := sides[1].ready; ready > 0 {
		figures = append(figures, newFigure(restRows, sides[1].name, "exec to listening", "ms", "", []float64{milliseconds(ready)}))
	}
	figures = append(figures, footprints(sides, "nothing asked of kaas, the rival warmed up")...)
	const partitions, consumers, waitMs, length = 1000, 1000, 5000, 5 * time.Second
	topic := fmt.Sprintf("rest-%d", time.Now().UnixNano())
	for _, side := range sides {
		if side.process == nil {
			continue
		}
		idle := func() (float64, error) {
			before, err := side.cpu()
			if err != nil {
				return 0, err
			}
			time.Sleep(length)
			after, err := side.cpu()
			return 100 * (after - before).Seconds() / length.Seconds(), err
		}
		alone, err := idle()
		if err != nil {
			return figures, err
		}
		d := rig.NewDriver(rig.Load{Topic: topic, Partitions: partitions, BatchBytes: 200, ValueBytes: 100}, side.address)
		if err := d.CreateTopic(nil); err != nil {
			return figures, fmt.Errorf("%s: %w", side.name, err)
		}
		polls, err := rig.StartPolls(side.address, topic, partitions, consumers, waitMs)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", side.name, err)
		}
		time.Sleep(2 * time.Second) // the begin of 1,000 connections is not idle
		waited, err := idle()
		if err := errors.Join(err, polls.Close(), d.DeleteTopic()); err != nil {
			return figures, fmt.Errorf("%s: %w", side.name, err)
		}
		fmt.Fprintf(out, "%-60s %-6s %.3f %% of a processor, %.3f with 1,000 partitions and consumers\n", restRows, side.name, alone, waited)
		figures = append(figures, newFigure(restRows, side.name, "CPU, nothing asked", "% of a processor", "", []float64{alone}),
			newFigure(restRows, side.name, "CPU, 1,000 partitions and consumers, max.wait 5000 ms", "% of a processor", "", []float64{waited}))
	}
	return figures, nil
}

// warmRival gives the rival's just-in-time compiler what it is going to see.
func warmRival(o compareOptions, rival *contender, out io.Writer) (err error) {
	if o.WarmUp <= 0 {
		return nil
	}
	fmt.Fprintf(out, "warming %s up for %v\n", rival.name, o.WarmUp)
	wanted := chosen(o.Rows) // what is going to be measured, or some of all
	all := slices.DeleteFunc(contests(), func(c contest) bool { return !wanted(c.name) })
	if len(all) == 0 {
		all = contests()
	}
	fakes := make([]*contender, len(all))
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
			fakes[at] = &contender{name: rival.name, address: rival.address, foreign: rival.foreign}
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
	if !side.refused {
		err := side.driver.CreateTopic([][2]string{{"flush.messages", flush}})
		if err == nil || !side.foreign || !errors.Is(err, rig.ErrInvalidConfig) {
			return naming(side.name, err)
		}
		side.refused = true // not every broker knows it: the rows say so
	}
	return naming(side.name, side.driver.CreateTopic(nil))
}

func naming(side string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", side, err)
	}
	return err
}

// bout is one measured run of one side.
type bout struct {
	rig.Outcome
	cpu  time.Duration
	own  time.Duration // of the load itself, which shares the machine with both sides
	idle time.Duration // of all processors together
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
	own, idle := generator.OwnCPU(), idleTime()
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
	b.cpu, b.own, b.idle = after-before, generator.OwnCPU()-own, idleTime()-idle
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
	stable := c.stable(sides[1].refused)
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
		}{{"throughput", "MB/s", rate}, {"CPU", "s/GB", perGB}, {"requests per CPU second", "1/s", perCPU}} {
			if (f.unit == "s/GB" || f.unit == "1/s") && side.process == nil {
				continue
			}
			var values []float64
			for _, b := range bouts[i] {
				values = append(values, f.of(b))
			}
			figures = append(figures, newFigure(c.name, side.name, f.name, f.unit, stable, values))
		}
		var own, idle []float64
		for _, b := range bouts[i] {
			own, idle = append(own, ownShare(b)), append(idle, b.idle.Seconds()/b.Took.Seconds())
		}
		for _, f := range loadFigures(c.name, side.name, own, idle) {
			f.Note = strings.TrimSuffix(stable+"; "+f.Note, "; ")
			figures = append(figures, f)
		}
	}
	ratio(throughputRatio, stable, rate)
	ratio(cpuRatio, stable, perGB)
	ratio(requestsRatio, stable, perCPU)
	return figures
}

// latencies runs the open loop at a fixed rate against both sides in turn.
func latencies(o compareOptions, scenario string, sides [2]*contender, durable bool, out io.Writer) (figures []figure, err error) {
	acks, c := int16(1), contest{durable: durable, load: rig.Load{Partitions: 1, BatchBytes: 1100, ValueBytes: 900}}
	if durable {
		acks = -1
	}
	var paced [2]*rig.Paced
	for i, side := range sides {
		topic := fmt.Sprintf("latency-%d", time.Now().UnixNano())
		if err := enter(c, topic, side); err != nil {
			return nil, err
		}
		made := side.driver
		defer func() { err = errors.Join(err, made.DeleteTopic()) }()
		paced[i] = &rig.Paced{Address: side.address, Frames: smallFrames(topic, 1, acks, 1100), Check: rig.ProduceAnswer(topic), Connections: 1, Rate: o.Rate, WarmUp: 2 * time.Second, Length: o.Length, Follow: topic}
	}
	var found, delivered [2]quantiles
	err = turns(o.Rounds, 2, func(i int) error {
		l, err := paced[i].Run()
		if err != nil {
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
		found[i].add(l)
		delivered[i].add(paced[i].Delivered)
		sayLatency(out, fmt.Sprintf("latency, acks=%d", acks), sides[i].name, l)
		sayLatency(out, fmt.Sprintf("latency, acks=%d", acks), sides[i].name+", read", paced[i].Delivered)
		return nil
	})
	if err != nil {
		return nil, err
	}
	stable := c.stable(sides[1].refused)
	for i, side := range sides {
		for _, f := range append(found[i].figures(scenario, side.name, "ack"), delivered[i].figures(scenario, side.name, "read at the tail")...) {
			figures = append(figures, f.noting(stable))
		}
	}
	for _, f := range []figure{
		newFigure(scenario, "kaas", "ack p99, ratio to "+sides[1].name, "1", stable, ratios(found[0].p99, found[1].p99)),
		newFigure(scenario, "kaas", "read at the tail, p99, ratio to "+sides[1].name, "1", stable, ratios(delivered[0].p99, delivered[1].p99)),
	} {
		if sides[1].name == kafkaRival && !durable {
			f = f.atMost(0.5)
		}
		figures = append(figures, f)
	}
	return figures, nil
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
