package generator

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
)

// writeNDJSON writes one line an interval and one for the whole.
func (r *Result) writeNDJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	for _, p := range r.Points {
		if err := encoder.Encode(p); err != nil {
			return err
		}
	}
	return encoder.Encode(r.Summary)
}

// table is the summary for a reader.
func (r *Result) table() string {
	s := r.Summary
	var out strings.Builder
	fmt.Fprintf(&out, "topic %s, %s\n", s.Plan.Topic, s.Plan.words())
	fmt.Fprintf(&out, "measured for %.1f s after %v of warm-up", s.Seconds, s.Plan.WarmUp)
	if s.Interrupted {
		fmt.Fprint(&out, ", and interrupted then")
	}
	fmt.Fprintf(&out, "\n%-12s %12s %10s\n", "", "records/s", "MB/s")
	if s.Plan.Producers > 0 {
		fmt.Fprintf(&out, "%-12s %12.0f %10.1f   %s\n", "produced", s.ProducedPS, s.ProducedMB, s.outcome())
	}
	if s.Plan.Consumers > 0 {
		fmt.Fprintf(&out, "%-12s %12.0f %10.1f   %d in all", "consumed", s.ConsumedPS, s.ConsumedMB, s.Consumed)
		if s.Plan.Producers > 0 {
			fmt.Fprintf(&out, ", lag at most %d records, %d at the end", s.MostLag, s.LastLag)
		}
		fmt.Fprintln(&out)
	}
	fmt.Fprintf(&out, "%-12s %10s %10s %10s %10s %10s %10s %10s\n", "latency, ms", "count", "mean", "p50", "p90", "p99", "p99.9", "max")
	for _, l := range []struct {
		name string
		l    Latency
	}{{"produce", s.Produce}, {"end to end", s.EndToEnd}, {"connect", s.Connect}} {
		if l.l.Count > 0 {
			fmt.Fprintf(&out, "%-12s %10d %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f\n", l.name, l.l.Count, l.l.MeanMs, l.l.P50Ms, l.l.P90Ms, l.l.P99Ms, l.l.P999Ms, l.l.MaxMs)
		}
	}
	if s.Plan.Backlog {
		fmt.Fprintf(&out, "the backlog was read in %.2f s\n", s.DrainSeconds)
	}
	fmt.Fprintf(&out, "the generator itself used %.2f CPU s, %.2f CPU s/GB of values in and out\n", s.CPUSeconds, s.CPUPerGB)
	if s.busy() {
		fmt.Fprintf(&out, "it kept %.1f of %d processors busy, so it may be what limits: kaas bench frames sends prepared frames\n", s.CPUSeconds/s.Elapsed, s.Processors)
	}
	return out.String()
}

// outcome says what became of the records.
func (s *Summary) outcome() string {
	words := fmt.Sprintf("%d acknowledged", s.Acked)
	if s.Plan.Acks == "0" {
		words = fmt.Sprintf("%d sent, of which nothing is known (acks=0)", s.Acked)
	}
	for _, part := range []struct {
		n    int64
		what string
	}{{s.Failed, "failed"}, {s.Unanswered, "not answered"}, {s.Unsent, "not sent any more"}} {
		if part.n > 0 {
			words += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return words
}

// busy tells whether the client may have been the bottleneck.
func (s *Summary) busy() bool {
	return s.Elapsed >= 1 && s.CPUSeconds > 0.5*float64(s.Processors)*s.Elapsed // the begin of clients is busy by itself
}

// words say in one line what was done.
func (p *Plan) words() string {
	loop := "closed loop: latency counts from the moment of sending"
	if p.Rate > 0 {
		loop = fmt.Sprintf("open loop, %.0f records/s: latency counts from the intended time", p.Rate)
	}
	if p.Producers == 0 {
		return fmt.Sprintf("%d consumers, what others produce", p.Consumers)
	}
	keys := ""
	if p.Keys > 0 {
		keys = fmt.Sprintf(", %d keys", p.Keys)
	}
	return fmt.Sprintf("%d producers, %d consumers, acks=%s, %d bytes %s%s, compression %s, %s", p.Producers, p.Consumers, p.Acks, p.ValueBytes, p.Payload, keys, p.Compression, loop)
}

// tiles are the figures that a reader looks for first.
func (s *Summary) tiles() (tiles [][2]string) {
	add := func(name, format string, value float64, shown bool) {
		if shown {
			tiles = append(tiles, [2]string{name, fmt.Sprintf(format, value)})
		}
	}
	add("MB/s produced", "%.1f", s.ProducedMB, s.Acked > 0)
	add("records/s produced", "%.0f", s.ProducedPS, s.Acked > 0)
	add("MB/s consumed", "%.1f", s.ConsumedMB, s.Consumed > 0)
	add("ms produce p50", "%.2f", s.Produce.P50Ms, s.Produce.Count > 0)
	add("ms produce p99", "%.2f", s.Produce.P99Ms, s.Produce.Count > 0)
	add("ms end to end p99", "%.2f", s.EndToEnd.P99Ms, s.EndToEnd.Count > 0)
	add("s to read the backlog", "%.2f", s.DrainSeconds, s.Plan.Backlog)
	add("records failed", "%.0f", float64(s.Failed), s.Failed > 0)
	add("records not answered", "%.0f", float64(s.Unanswered), s.Unanswered > 0)
	add("records not sent any more", "%.0f", float64(s.Unsent), s.Unsent > 0)
	add("CPU s of the generator", "%.2f", s.CPUSeconds, true)
	return tiles
}

// line is one interval's progress.
func (p Point) line() string {
	phase := ""
	if p.WarmUp {
		phase = " (warm-up)"
	}
	latency := ""
	if p.Produce.Count > 0 {
		latency = fmt.Sprintf("  p50 %.2f p99 %.2f ms", p.Produce.P50Ms, p.Produce.P99Ms)
	}
	if p.EndToEnd.Count > 0 {
		latency += fmt.Sprintf("  end to end p99 %.2f ms", p.EndToEnd.P99Ms)
	}
	failed := ""
	if p.Failed > 0 {
		failed = fmt.Sprintf("  failed %d", p.Failed)
	}
	return fmt.Sprintf("%.0f s%s  in %.0f/s %.1f MB/s  out %.0f/s %.1f MB/s  lag %d%s%s  own CPU %.1f",
		p.Second, phase, p.ProducedPS, p.ProducedMB, p.ConsumedPS, p.ConsumedMB, p.LagRecords, failed, latency, p.CPUFraction)
}

//go:embed assets/uPlot.iife.min.js
var plotScript string

//go:embed assets/uPlot.min.css
var plotStyle string

//go:embed assets/page.html
var pageText string

// series is one plot: x, then the lines.
type series struct {
	Title  string      `json:"title"`
	X      []float64   `json:"x"`
	Lines  [][]float64 `json:"lines"`
	Names  []string    `json:"names"`
	XLabel string      `json:"xLabel"`
	LogX   bool        `json:"logX"`
	LogY   bool        `json:"logY"`
}

// writePage writes one self-contained HTML page. It is put together by hand:
// a template engine reaches methods by name, and with one in the program the
// linker must keep every method of every type (6 MB of them).
func (r *Result) writePage(w io.Writer) error {
	plan, err := json.MarshalIndent(r.Summary.Plan, "", "  ")
	if err != nil {
		return err
	}
	plots, err := json.Marshal(r.plots()) // escapes what could end the script
	if err != nil {
		return err
	}
	tiles, err := json.Marshal(r.Summary.tiles())
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer("{{Title}}", html.EscapeString("kaas bench load: "+r.Summary.Plan.Topic), "{{Time}}", r.Summary.Time,
		"{{Table}}", html.EscapeString(r.table()), "{{Plan}}", html.EscapeString(string(plan)),
		"{{Script}}", plotScript, "{{Style}}", plotStyle, "{{Plots}}", string(plots),
		"{{Tiles}}", string(tiles), "{{Loop}}", html.EscapeString(r.Summary.Plan.words())).WriteString(w, pageText)
	return err
}

func (r *Result) plots() (plots []series) {
	points := r.Points
	// The last interval is cut off by the run's end: rates of a moment are no points.
	if n := len(points); n > 2 && points[n-1].Second-points[n-2].Second < r.Summary.Plan.Interval.Seconds()/2 {
		points = points[:n-1]
	}
	column := func(f func(Point) float64) (values []float64) {
		for _, p := range points {
			values = append(values, f(p))
		}
		return values
	}
	seconds := column(func(p Point) float64 { return p.Second })
	over := func(title string, logY bool, names []string, columns ...func(Point) float64) {
		s := series{Title: title, X: seconds, Names: names, XLabel: "seconds", LogY: logY}
		for _, c := range columns {
			s.Lines = append(s.Lines, column(c))
		}
		plots = append(plots, s)
	}
	// The warm-up is in no distribution, so it is a gap in the latencies.
	of := func(latency func(Point) Latency, value func(Latency) float64) func(Point) float64 {
		return func(p Point) float64 {
			if p.WarmUp {
				return 0
			}
			return value(latency(p))
		}
	}
	quantiles := func(title string, latency func(Point) Latency, measured int64) {
		if measured > 0 {
			over(title, true, []string{"p50", "p99", "p99.9", "max"}, of(latency, func(l Latency) float64 { return l.P50Ms }), of(latency, func(l Latency) float64 { return l.P99Ms }),
				of(latency, func(l Latency) float64 { return l.P999Ms }), of(latency, func(l Latency) float64 { return l.MaxMs }))
		}
	}
	over("Throughput, MB/s", false, []string{"produced", "consumed"}, func(p Point) float64 { return p.ProducedMB }, func(p Point) float64 { return p.ConsumedMB })
	quantiles("Produce latency, ms", func(p Point) Latency { return p.Produce }, r.Summary.Produce.Count)
	quantiles("End-to-end latency, ms", func(p Point) Latency { return p.EndToEnd }, r.Summary.EndToEnd.Count)
	if r.Summary.Plan.Consumers > 0 && r.Summary.Plan.Producers > 0 {
		over("Consumer lag, records", false, []string{"lag"}, func(p Point) float64 { return float64(p.LagRecords) })
	}
	over("The generator's own CPU, processors", false, []string{"CPU"}, func(p Point) float64 { return p.CPUFraction })
	for _, name := range []string{"produce", "end to end", "connect"} {
		if c, ok := r.curves[name]; ok {
			plots = append(plots, series{Title: "Latency by percentile, " + name + ", ms", X: c[0], Lines: [][]float64{c[1]}, Names: []string{"ms"}, XLabel: "one in so many is slower", LogX: true, LogY: true})
		}
	}
	return plots
}

// save writes to a file; "-" is out.
func save(path string, out io.Writer, write func(io.Writer) error) error {
	if path == "-" {
		return write(out)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
