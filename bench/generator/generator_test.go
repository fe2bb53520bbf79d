package generator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestPlansThatCannotRun(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Plan){
		"--bootstrap":    func(p *Plan) { p.Bootstrap = nil },
		"--acks":         func(p *Plan) { p.Acks = "2" },
		"--compression":  func(p *Plan) { p.Compression = "rar" },
		"--payload":      func(p *Plan) { p.Payload = "zeros" },
		"--duration":     func(p *Plan) { p.Duration = 0 },
		"--backlog":      func(p *Plan) { p.Backlog, p.Consumers = true, 0 },
		"--in-flight":    func(p *Plan) { p.InFlight = 0 },
		"--warm-up":      func(p *Plan) { p.Backlog = true },
		"--rate":         func(p *Plan) { p.Rate = math.Inf(1) },
		"--churn":        func(p *Plan) { p.Churn = math.NaN() },
		"--batch-bytes":  func(p *Plan) { p.BatchBytes = 0 },
		"--value-bytes":  func(p *Plan) { p.ValueBytes = int(p.BatchBytes) },
		"--linger":       func(p *Plan) { p.Linger = -1 },
		"--records":      func(p *Plan) { p.Records = -1 },
		"--timeout":      func(p *Plan) { p.Timeout = 0 },
		"--topic":        func(p *Plan) { p.Topic = "a/b" },
		"--topic-config": func(p *Plan) { p.TopicConfigs = []string{"=1"} },
		"host:port":      func(p *Plan) { p.Bootstrap = []string{"a:1", "host"} },
	} {
		plan := DefaultPlan()
		change(&plan)
		if _, err := Run(t.Context(), plan, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "allowed") {
			t.Errorf("%s: %v", want, err)
		}
	}
	plan := DefaultPlan()
	plan.Payload = "file:/nowhere" // told before anybody is asked for a topic
	if _, err := Run(t.Context(), plan, nil); err == nil || !strings.Contains(err.Error(), "--payload") {
		t.Errorf("a payload that is not there: %v", err)
	}
	plan = DefaultPlan()
	if err := plan.validate(); err != nil || !plan.Idempotent {
		t.Errorf("the default plan: %v", err)
	}
}

// What is not asked for follows from what is: a number of records is all of the run.
func TestSettle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		records          int64
		backlog          bool
		given            string
		duration, warmUp time.Duration
	}{
		{0, false, "", 10 * time.Second, 2 * time.Second},
		{5, false, "", 0, 0},
		{5, true, "duration", 10 * time.Second, 0},
		{0, true, "", 10 * time.Second, 0},
		{5, false, "warm-up", 0, 2 * time.Second},
	} {
		plan := DefaultPlan()
		plan.Records, plan.Backlog = c.records, c.backlog
		plan.settle(func(flag string) bool { return flag == c.given })
		if plan.Duration != c.duration || plan.WarmUp != c.warmUp {
			t.Errorf("%+v: duration %v, warm-up %v", c, plan.Duration, plan.WarmUp)
		}
	}
}

// TestPace: all producers together send at the rate, and none catches up by
// moving its times.
func TestPace(t *testing.T) {
	t.Parallel()
	begin := time.Unix(100, 0)
	var all []time.Duration
	for number := range 2 {
		p := newPace(begin, 1000, 2, number)
		for range 3 {
			all = append(all, p.next().Sub(begin))
		}
	}
	want := []time.Duration{0, 2, 4, 1, 3, 5}
	for i := range want {
		if all[i] != want[i]*time.Millisecond {
			t.Errorf("%v", all)
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if !sleepUntil(ctx, time.Now().Add(-time.Second)) || sleepUntil(ctx, time.Now().Add(time.Hour)) {
		t.Error("what is late is sent at once, what is not waits")
	}
	if !exactlyUntil(t.Context(), time.Now().Add(-time.Second)) || exactlyUntil(ctx, time.Now().Add(time.Hour)) {
		t.Error("what is late is sent at once, what is not ends with the run")
	}
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "values")
	if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"random", "compressible", "file:" + path} {
		plan := DefaultPlan()
		plan.Payload, plan.ValueBytes = kind, 100
		p, err := newPayload(&plan, 0)
		if err != nil {
			t.Fatal(err)
		}
		one, two := make([]byte, 100), make([]byte, 100)
		intended := time.Unix(5, 7)
		p.fill(one, intended)
		p.fill(two, intended)
		if stamp, ok := stampOf(one); !ok || !stamp.Equal(intended) || bytes.Equal(one, two) {
			t.Errorf("%s: %v %v", kind, stamp, ok)
		}
	}
	plan := DefaultPlan()
	plan.Payload = "file:" + path + ".missing"
	if _, err := newPayload(&plan, 0); err == nil {
		t.Error("a file that is not there")
	}
	if _, ok := stampOf(make([]byte, 7)); ok {
		t.Error("seven bytes hold no time")
	}
}

// TestProgress: one line of a terminal, never wider than it is; none elsewhere.
func TestProgress(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	if progressTo(&screen, 0) != nil || progressTo(nil, 80) != nil {
		t.Error("progress where it was not wanted")
	}
	show := progressTo(&screen, 40)
	for range 2 {
		show(Point{Second: 1, Failed: 3, Produce: Latency{Count: 1}, EndToEnd: Latency{Count: 1}})
	}
	if lines := strings.Split(screen.String(), "\r\x1b[K"); len(lines) != 3 || len(lines[1]) != 39 || strings.Contains(screen.String(), "\n") {
		t.Errorf("%q", screen.String())
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if width := terminalWidth(file); width != 0 {
		t.Errorf("a file is %d wide", width)
	}
}

// TestShortfall: what was not answered or not even sent is said, once, and a run that is ended early says that.
func TestShortfall(t *testing.T) {
	t.Parallel()
	r := &run{plan: DefaultPlan(), begin: time.Now().Add(-time.Hour)}
	r.plan.Duration, r.plan.WarmUp = 10*time.Second, 0
	for _, err := range []error{kgo.ErrAborting, kgo.ErrClientClosed, context.Canceled, errors.New("no leader")} {
		r.produced(nil, time.Time{}, err)
	}
	if r.unanswered.Load() != 3 || r.failed.Load() != 1 {
		t.Errorf("%d not answered, %d failed", r.unanswered.Load(), r.failed.Load())
	}
	if !r.plan.tooLate(time.Now(), r.begin) || r.plan.tooLate(r.begin.Add(39*time.Second), r.begin) {
		t.Error("what is still to be sent is given up when the timeout has passed")
	}
	p := newPace(r.begin, 100, 2, 0)
	if n := p.left(r.begin.Add(9*time.Second), r.begin.Add(10*time.Second)); n != 50 {
		t.Errorf("%d records of one of two producers in a second", n)
	}
	r.unsent.Add(50)
	for _, want := range []string{"1 records were not taken; the first: no leader", "3 records had no answer within 30s", "50 records were still to be sent 30s"} {
		if err := r.shortfall(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.shortfall(ended); err == nil || !strings.Contains(err.Error(), "interrupted") || strings.Contains(err.Error(), "had no answer") {
		t.Error(err)
	}
	s := Summary{Plan: r.plan, Acked: 7, Failed: 1, Unanswered: 3, Unsent: 50}
	if words := s.outcome(); words != "7 acknowledged, 1 failed, 3 not answered, 50 not sent any more" {
		t.Error(words)
	}
	if s.Plan.Acks = "0"; !strings.Contains(s.outcome(), "nothing is known") {
		t.Error(s.outcome())
	}
	var f failureList
	f.add(errors.New("the same"))
	f.add(errors.New("the same"))
	if err := f.join(); err.Error() != "the same" {
		t.Error(err)
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for i := range 1000 {
		r.record(time.Duration(i+1) * time.Millisecond)
	}
	r.record(24 * time.Hour) // counts as the most that is measured
	if l := latencyOf(r.exchange()); l.Count != 1001 || l.P50Ms < 499 || l.P50Ms > 502 || l.MaxMs < 599_000 || l.MaxMs > 601_000 {
		t.Errorf("%+v", l)
	}
	r.record(time.Millisecond)
	if l := latencyOf(r.exchange()); l.Count != 1 {
		t.Errorf("the second interval holds %d", l.Count)
	}
	if r.total.TotalCount() != 1002 {
		t.Errorf("in all %d", r.total.TotalCount())
	}
	if x, y := curve(r.total); len(x) != len(y) || x[0] != 1 || len(x) < 5 {
		t.Errorf("%v %v", x, y)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	r := &Result{Summary: Summary{Kind: "summary", Plan: DefaultPlan(), Produce: Latency{Count: 1, P99Ms: 4.5}},
		Points: []Point{{Kind: "interval", Second: 1, ProducedMB: 3, WarmUp: true, Produce: Latency{Count: 1, P50Ms: 77}}, {Kind: "interval", Second: 2}}, curves: map[string][2][]float64{"produce": {{1, 2}, {3, 4}}}}
	r.Summary.Plan.Topic = "</script><b>"
	var lines, html bytes.Buffer
	if err := r.writeNDJSON(&lines); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&lines)
	var kinds []string
	for decoder.More() {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, line["kind"].(string))
	}
	if strings.Join(kinds, " ") != "interval interval summary" {
		t.Error(kinds)
	}
	if err := r.writePage(&html); err != nil {
		t.Fatal(err)
	}
	text := html.String()
	for _, bad := range []string{"http://", "https://cdn", "src=", "</script><b>", "{{"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(text, "uPlot") || strings.Count(text, `"title"`) != 5 || strings.Contains(text, "[77,") || !strings.Contains(r.table(), "4.500") {
		t.Errorf("the page has %d plots", strings.Count(text, `"title"`))
	}
}

// TestRates: what is produced and what is read have rates of their own times, and a backlog is read from when consumers
// begin.
func TestRates(t *testing.T) {
	t.Parallel()
	for _, backlog := range []bool{false, true} {
		plan := DefaultPlan()
		plan.WarmUp, plan.Backlog = 0, backlog
		begin := time.Now().Add(-20 * time.Second)
		r := &run{plan: plan, begin: begin, produceLatency: newRecorder(), endToEnd: newRecorder(), connects: newRecorder()}
		r.lastAnswer.Store(begin.Add(10 * time.Second).UnixNano())
		r.lastRead.Store(begin.Add(14 * time.Second).UnixNano())
		r.drainBegin = begin.Add(12 * time.Second)
		r.acknowledged.Store(1000)
		r.consumed.Store(1000)
		s := &sampler{r: r, at: begin}
		s.sample()
		got, drained := s.result().Summary, 1000.0/14
		if backlog {
			drained = 500
		}
		if math.Abs(got.ProducedPS-100) > 0.1 || math.Abs(got.ConsumedPS-drained) > 0.1 || backlog && math.Abs(got.DrainSeconds-2) > 0.01 {
			t.Errorf("backlog %v: produced %v a second, consumed %v a second, drained in %v s", backlog, got.ProducedPS, got.ConsumedPS, got.DrainSeconds)
		}
		if got.Processors < 1 || got.Elapsed < 19 || got.busy() {
			t.Errorf("%+v", got)
		}
		if got.CPUSeconds = 0.6 * 20 * float64(got.Processors); !got.busy() {
			t.Error("a generator that keeps more than half of the processors busy says nothing of it")
		}
	}
}

// TestChurn: connections come at their times, however long the broker takes to answer each.
func TestChurn(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var arrived atomic.Int64
	answer := make(chan struct{})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			if arrived.Add(1) == 20 {
				close(answer) // only now is anybody answered
			}
			go func() {
				defer conn.Close()
				<-answer
				_, _ = conn.Write([]byte{0, 0, 0, 0})
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	plan := DefaultPlan()
	plan.Bootstrap, plan.WarmUp, plan.Duration, plan.Churn = []string{listener.Addr().String()}, 0, 200*time.Millisecond, 100
	r := &run{plan: plan, begin: time.Now(), connects: newRecorder()}
	if err := r.churn(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.connects.exchange().TotalCount(); n != 20 {
		t.Errorf("%d of 20 connections were measured", n)
	}
	r.begin = time.Now()
	_ = listener.Close()
	if err := r.churn(t.Context(), t.Context()); err == nil || !strings.Contains(err.Error(), "churn") {
		t.Errorf("nobody listens, and the run says %v", err)
	}
}

// TestChurnAtTheEnd: the run ends, and the connection that is under way is measured all the same.
func TestChurnAtTheEnd(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, end := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		end()
		_, _ = conn.Write([]byte{0, 0, 0, 0})
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	plan := DefaultPlan()
	plan.Bootstrap, plan.WarmUp, plan.Duration, plan.Churn = []string{listener.Addr().String()}, 0, time.Hour, 0.01
	r := &run{plan: plan, begin: time.Now(), connects: newRecorder()}
	if err := r.churn(ctx, t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.connects.exchange().TotalCount(); n != 1 {
		t.Errorf("%d connections were measured", n)
	}
}
