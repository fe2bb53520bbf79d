package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"kaas/bench/rig"
)

// side is one of the things that a scenario measures with the same load.
type side struct {
	name  string
	start func(o options, l rig.Load) (*subject, error)
	acks  int16
}

// subject is a started side: a child with a directory of its own.
type subject struct {
	*rig.Process
	address     string
	httpAddress string // empty for loops
	dir         string
	arguments   []string
	driver      *rig.Driver
	children    *children
	meter       *meter
}

func (s *subject) close() error {
	if s.Process != nil {
		s.Stop()
	}
	return os.RemoveAll(s.dir)
}

// explain adds a child's own words to an error.
func (s *subject) explain(err error) error {
	if err == nil || s.Process == nil {
		return err
	}
	return fmt.Errorf("%w\n%s", err, s.Output)
}

// again starts the child anew on the same directory and addresses.
func (s *subject) again() (err error) {
	if s.Process, err = rig.StartProcess(s.arguments[0], s.arguments[1:]...); err != nil {
		return err
	}
	s.children.add(s.Process)
	return s.AwaitListening(s.address)
}

// children are the processes of a scenario. A scenario that takes too long
// loses them, and its connections with them, so that it comes back with an
// error instead of holding up the rest.
type children struct {
	mu sync.Mutex
	// +checklocks:mu
	alive []*rig.Process
	// +checklocks:mu
	over bool // what comes now is too late
}

func (c *children) add(p *rig.Process) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alive = append(c.alive, p)
	if c.over {
		c.kill()
	}
}

// killAll ends all of them, and what comes later.
func (c *children) killAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.kill()
}

// +checklocks:c.mu
func (c *children) kill() {
	for _, p := range c.alive {
		_ = p.Command.Process.Kill() // most have ended long ago
	}
	c.alive = nil
}

// neverFlush is Kafka's default: the operating system writes back when it
// likes. The raw loop does the same, so this is the like-for-like side.
const neverFlush = "9223372036854775807"

func startBroker(o options, l rig.Load, settings ...string) (*subject, error) {
	dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-")
	if err != nil {
		return nil, err
	}
	s := &subject{dir: dir, children: o.Children, meter: o.Meter}
	fail := func(err error) (*subject, error) { return nil, errors.Join(err, s.close()) }
	if s.address, err = rig.FreeAddress(); err != nil {
		return fail(err)
	}
	if s.httpAddress, err = rig.FreeAddress(); err != nil {
		return fail(err)
	}
	s.arguments = append(slices.Clone(o.Prefix), o.Broker, "broker")
	for _, setting := range append([]string{
		"listeners=PLAINTEXT://" + s.address, "http.address=" + s.httpAddress, "log.dirs=" + filepath.Join(dir, "data"),
	}, settings...) {
		s.arguments = append(s.arguments, "--override", setting)
	}
	if err := s.again(); err != nil {
		return fail(err)
	}
	s.driver = rig.NewDriver(l, s.address)
	return s, nil
}

func startKaas(flushMessages string, settings ...string) func(options, rig.Load) (*subject, error) {
	return func(o options, l rig.Load) (*subject, error) {
		s, err := startBroker(o, l, settings...)
		if err != nil {
			return nil, err
		}
		if err := s.driver.CreateTopic([][2]string{{"flush.messages", flushMessages}}); err != nil {
			return nil, errors.Join(s.explain(err), s.close())
		}
		return s, nil
	}
}

// startLoop starts one of the loops of this program.
func startLoop(o options, l rig.Load, arguments func(address, dir string) []string) (*subject, error) {
	dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-raw-")
	if err != nil {
		return nil, err
	}
	s := &subject{dir: dir, children: o.Children, meter: o.Meter}
	self, err := os.Executable()
	if err == nil {
		s.address, err = rig.FreeAddress()
	}
	if err == nil {
		s.arguments = append([]string{self, "bench"}, arguments(s.address, dir)...)
		err = s.again()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.driver = rig.NewDriver(l, s.address)
	return s, nil
}

func startRaw(how string) func(options, rig.Load) (*subject, error) {
	return func(o options, l rig.Load) (*subject, error) {
		return startLoop(o, l, func(address, dir string) []string {
			return []string{"raw-loop", address, dir, fmt.Sprint(l.Partitions), how}
		})
	}
}

func startEcho(o options) (*subject, error) {
	return startLoop(o, rig.Load{Partitions: 1, BatchBytes: 100, ValueBytes: 10}, func(address, _ string) []string { return []string{"echo-loop", address} })
}

// startAll starts several sides that then run in turn.
func startAll(o options, l rig.Load, sides ...side) (subjects []*subject, err error) {
	for _, sd := range sides {
		l.Acks = sd.acks
		s, err := sd.start(o, l)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", sd.name, err), closeAll(subjects))
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}

func closeAll(subjects []*subject) error {
	var failures []error
	for _, s := range subjects {
		failures = append(failures, s.close())
	}
	return errors.Join(failures...)
}

// turns runs each side once in the order A B … B A, for every round.
func turns(rounds, sides int, measure func(side int) error) error {
	for range rounds {
		for i := range sides {
			if err := measure(i); err != nil {
				return err
			}
		}
		for i := sides - 1; i >= 0; i-- {
			if err := measure(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// cpuOf is the processor time of a subject while work runs, in seconds.
func cpuOf(s *subject, work func() error) (float64, error) {
	before, err := s.CPU()
	if err != nil {
		return 0, err
	}
	if err := s.meter.during(work); err != nil {
		return 0, s.explain(err)
	}
	after, err := s.CPU()
	return after.Since(before).Total.Seconds(), err
}
