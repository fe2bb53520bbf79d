package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/bench/rig"
)

const adminTopics = 1000

// manyTopics makes topics while records come in at a fixed rate.
func manyTopics(o options, out io.Writer) (figures []figure, err error) {
	const scenario, length = "admin", 4 * time.Second
	s, err := startKaas(neverFlush)(o, rig.Load{Topic: "busy", Partitions: 1, BatchBytes: 1100, ValueBytes: 900})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(s.explain(err), s.close()) }()
	c, err := rig.Dial(s.address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var quiet quantiles
	calm := func() error {
		l, err := pacedTail(s.address, "busy", length).Run()
		if err == nil {
			quiet.add(l)
			sayLatency(out, scenario, "produce, nothing else", l)
		}
		return err
	}
	if err := calm(); err != nil {
		return nil, err
	}
	ways := []struct {
		name string
		make func() error
	}{{"one by one", func() (err error) {
		for i := 0; i < adminTopics && err == nil; i++ {
			err = rig.CreateTopics(c, "single", i, 1)
		}
		return err
	}}, {"in one request", func() error { return rig.CreateTopics(c, "batch", 0, adminTopics) }}}
	busy := make([]rig.Latencies, len(ways))
	for i, way := range ways {
		found, l, err := topicsMade(s, way.name, way.make, out)
		figures = append(figures, found...)
		if err != nil {
			return figures, err
		}
		busy[i] = l
	}
	if err := calm(); err != nil {
		return figures, err
	}
	p99 := median(quiet.p99)
	figures = append(figures, newFigure(scenario, "kaas", "produce p99, nothing else", "ms", "", quiet.p99))
	for i, way := range ways {
		figures = append(figures, newFigure(scenario, "kaas", "produce p99, 1,000 topics "+way.name, "ms", "", []float64{busy[i].At(0.99)}),
			newFigure(scenario, "kaas", "produce p99 against none, 1,000 topics "+way.name, "1", fmt.Sprintf("%d produces meanwhile", len(busy[i])), []float64{busy[i].At(0.99) / p99}))
	}
	var took []float64
	for range 5 {
		began := time.Now()
		if err := rig.DescribeConfigs(c, "batch", adminTopics); err != nil {
			return figures, err
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	fmt.Fprintf(out, "%-24s DescribeConfigs of 1,000 topics %.0f ms\n", scenario, median(took))
	return append(figures, newFigure(scenario, "kaas", "DescribeConfigs of 1,000 topics", "ms", "one request", took)), nil
}

// topicsMade measures one way to make the topics.
func topicsMade(s *subject, name string, work func() error, out io.Writer) (figures []figure, l rig.Latencies, err error) {
	const scenario = "admin"
	before, err := s.Written()
	if err != nil {
		return nil, nil, err
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	p := pacedTail(s.address, "busy", 2*time.Minute)
	p.WarmUp, p.Stop = 0, stop
	go func() {
		var err error
		l, err = p.Run()
		done <- err
	}()
	began := time.Now()
	cpu, err := cpuOf(s, work)
	took := time.Since(began)
	close(stop)
	if err := errors.Join(err, <-done); err != nil {
		return nil, nil, fmt.Errorf("1,000 topics %s: %w", name, err)
	}
	after, err := s.Written()
	fmt.Fprintf(out, "%-24s 1,000 topics %s: %.2f s, %.2f CPU s, %.1f MB written, produce p99 %.3f ms\n", scenario, name, took.Seconds(), cpu, float64(after-before)/1e6, l.At(0.99))
	return []figure{newFigure(scenario, "kaas", "1,000 topics "+name, "s", "", []float64{took.Seconds()}),
		newFigure(scenario, "kaas", "CPU of 1,000 topics "+name, "s", "with 1,000 produces a second", []float64{cpu}),
		newFigure(scenario, "kaas", "bytes written by 1,000 topics "+name, "MB", "with 1,000 produces of 1 KB a second", []float64{float64(after-before) / 1e6})}, l, err
}

const (
	aclUsers   = 1000
	aclsOfUser = 100
)

func userFile(number int, operation string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: user-%d\nspec:\n  authorization:\n    type: simple\n    acls:\n", number)
	for i := range aclsOfUser {
		fmt.Fprintf(&text, "      - resource: {type: topic, name: team-%d-topic-%d, patternType: literal}\n        operations: [%s]\n", number, i, operation)
	}
	return text.String()
}

// manyACLs measures a start with 100,000 ACLs, an edit among them, and a
// reload of all.
func manyACLs(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "acls"
	s, err := startBroker(o, rig.CostOfAByte(1), "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(s.explain(err), s.close()) }()
	dir := filepath.Join(s.dir, "data", "resources")
	write := func(number int, operation string) error {
		path := filepath.Join(dir, fmt.Sprintf("user-%d.yaml", number))
		if err := os.WriteFile(path+".new", []byte(userFile(number, operation)), 0o644); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
	c, err := rig.Dial(s.address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	all := func(name, operation string, code kmsg.ACLOperation) error {
		var took time.Duration
		cpu, err := cpuOf(s, func() (err error) {
			for i := range aclUsers {
				if err := write(i, operation); err != nil {
					return err
				}
			}
			took, err = rig.AwaitACLs(c, "", code, aclUsers*aclsOfUser)
			return err
		})
		if err == nil {
			fmt.Fprintf(out, "%-24s %s: visible %.2f s after the last file, %.2f CPU s\n", scenario, name, took.Seconds(), cpu)
			figures = append(figures, newFigure(scenario, "kaas", name, "s", "1,000 resource files of 100 ACLs each; from the last file to all visible", []float64{took.Seconds()}),
				newFigure(scenario, "kaas", "CPU of "+name, "s", "", []float64{cpu}))
		}
		return err
	}
	if err := all("100,000 ACLs for the first time", "Read", kmsg.ACLOperationRead); err != nil {
		return figures, err
	}
	var edits []float64
	for i := range 5 {
		if err := write(i, "Write"); err != nil {
			return figures, err
		}
		took, err := rig.AwaitACLs(c, fmt.Sprintf("team-%d-topic-7", i), kmsg.ACLOperationWrite, 1)
		if err != nil {
			return figures, err
		}
		edits = append(edits, milliseconds(took))
	}
	figures = append(figures, newFigure(scenario, "kaas", "an edited file of 100 ACLs among 100,000", "ms", "until it is visible", edits))
	if err := all("a reload of 100,000 ACLs", "Describe", kmsg.ACLOperationDescribe); err != nil {
		return figures, err
	}
	began := time.Now()
	if n, err := rig.VisibleACLs(c, "", kmsg.ACLOperationAny); err != nil || n != aclUsers*aclsOfUser {
		return figures, fmt.Errorf("%d ACLs, %w", n, err)
	}
	_, anonymous, err := s.Memory()
	figures = append(figures, newFigure(scenario, "kaas", "DescribeAcls of 100,000 ACLs", "ms", "one request", []float64{milliseconds(time.Since(began))}),
		newFigure(scenario, "kaas", "anonymous memory with 100,000 ACLs", "MiB", "", []float64{float64(anonymous) / mib}))
	s.Stop()
	if err := s.again(); err != nil {
		return figures, err
	}
	ready, err := awaitReady(s)
	return append(figures, newFigure(scenario, "kaas", "exec to ready with 100,000 ACLs", "ms", "", []float64{milliseconds(ready)})), err
}
