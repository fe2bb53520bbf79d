package obs

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// Registry holds the metrics of one process. A name is a Prometheus series,
// labels included: kaas_requests_total{api="Produce"}; its family stands in
// Families. To give a name that does not stand there, or with another kind, is a
// bug.
type Registry struct {
	set *metrics.Set

	mu sync.Mutex
	// +checklocks:mu
	collectors []func(Add)
}

// Counter only grows. One atomic add, no allocation.
type Counter = metrics.Counter

// FloatCounter is a Counter of parts; a lock and no allocation. Not for what
// happens at each request.
type FloatCounter = metrics.FloatCounter

// Histogram takes observations in seconds; a few nanoseconds and no allocation
// per Update in steady state. It has buckets with le, as Prometheus' own
// histogram_quantile needs them.
type Histogram = metrics.PrometheusHistogram

// Add gives one sample of a family, with the values of the family's labels in
// their order.
type Add func(family string, value float64, labels ...string)

// secondsBounds are upper bounds of buckets, from a request that is answered from
// memory to one that waits for its timeout.
var secondsBounds = []float64{
	0.000025, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
}

// families is Families by name.
var families = sync.OnceValue(func() map[string]*Family {
	byName := make(map[string]*Family, len(Families))
	for i := range Families {
		byName[Families[i].Name] = &Families[i]
	}
	return byName
})

// mustKnow panics for a series that Families does not have as this kind.
func mustKnow(series string, kind Kind) *Family {
	name, _, _ := strings.Cut(series, "{")
	f := families()[name]
	if f == nil || f.Kind != kind {
		panic(fmt.Sprintf("obs: %s is no %s of the table Families", series, kind))
	}
	return f
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	metrics.ExposeMetadata(true) // for the whole library, whose series of the process and of Go are written here only
	return &Registry{set: metrics.NewSet()}
}

// Counter returns the counter of this name and makes it at first use. Keep
// the result: the look-up takes a lock.
func (r *Registry) Counter(name string) *Counter {
	mustKnow(name, KindCounter)
	return r.set.GetOrCreateCounter(name)
}

// FloatCounter is Counter for parts.
func (r *Registry) FloatCounter(name string) *FloatCounter {
	mustKnow(name, KindCounter)
	return r.set.GetOrCreateFloatCounter(name)
}

// Histogram returns the histogram of this name and makes it at first use.
func (r *Registry) Histogram(name string) *Histogram {
	mustKnow(name, KindHistogram)
	return r.set.GetOrCreatePrometheusHistogramExt(name, secondsBounds)
}

// Gauge registers a function that is asked at each scrape. A second
// registration of a name keeps the first function.
func (r *Registry) Gauge(name string, value func() float64) {
	mustKnow(name, KindGauge)
	r.set.GetOrCreateGauge(name, value)
}

// CounterFunc is Gauge for what only grows.
func (r *Registry) CounterFunc(name string, value func() float64) {
	mustKnow(name, KindCounter)
	r.set.GetOrCreateGauge(name, value)
}

// Collect registers a function that gives samples at each scrape: families
// whose labels come and go, and those that one look at something yields
// together. No other part may give samples of its families. It is called on
// the goroutine of Write.
func (r *Registry) Collect(collect func(Add)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collectors = append(r.collectors, collect)
}

// Write writes all series, and those of the process and the Go runtime, in
// Prometheus' text format, each family together, with its help and type before
// it.
func (r *Registry) Write(w io.Writer) {
	var text bytes.Buffer
	r.set.WritePrometheus(&text)
	var out bytes.Buffer
	for line := range bytes.Lines(text.Bytes()) {
		// The library knows no words, and no function that only grows.
		name, isType := bytes.CutPrefix(line, []byte("# TYPE "))
		switch {
		case isType:
			family, _, _ := bytes.Cut(name, []byte(" "))
			families()[string(family)].head(&out)
		case !bytes.HasPrefix(line, []byte("# ")):
			out.Write(line)
		}
	}
	r.collect(&out)
	var process bytes.Buffer
	metrics.WriteProcessMetrics(&process)
	writeTotals(&out, process.String())
	_, _ = w.Write(out.Bytes()) // a peer that is gone needs no metrics
}

// writeTotals writes the library's own series with the names that Prometheus'
// rules want: a counter ends in _total (go_gc_forced_count does not).
func writeTotals(out *bytes.Buffer, text string) {
	renamed := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[1] == "TYPE" && fields[3] == string(KindCounter) && !strings.HasSuffix(fields[2], "_total") {
			renamed[fields[2]] = strings.TrimSuffix(fields[2], "_count") + "_total"
		}
	}
	for line := range strings.Lines(text) {
		start := 0
		if strings.HasPrefix(line, "# ") {
			start = len("# TYPE ") // and of # HELP
		}
		end := start + strings.IndexAny(line[start:], " {\n")
		if name, ok := renamed[line[start:end]]; ok {
			line = line[:start] + name + line[end:]
		}
		out.WriteString(line)
	}
}

// collect writes what the collectors give.
func (r *Registry) collect(out *bytes.Buffer) {
	r.mu.Lock()
	collectors := r.collectors
	r.mu.Unlock()
	samples := map[string]*bytes.Buffer{}
	for _, collect := range collectors {
		collect(func(family string, value float64, labels ...string) {
			f := families()[family]
			if f == nil || len(labels) != len(f.Labels) || f.Kind == KindHistogram {
				panic(fmt.Sprintf("obs: %s with labels %q is no sample of the table Families", family, labels))
			}
			text := samples[family]
			if text == nil {
				text = &bytes.Buffer{}
				samples[family] = text
			}
			f.sample(text, value, labels)
		})
	}
	for i := range Families {
		if text := samples[Families[i].Name]; text != nil {
			Families[i].head(out)
			out.Write(text.Bytes())
		}
	}
}

// head writes what stands before a family's samples.
func (f *Family) head(out *bytes.Buffer) {
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, f.Kind)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (f *Family) sample(out *bytes.Buffer, value float64, labels []string) {
	out.WriteString(f.Name)
	for i, label := range labels {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		fmt.Fprintf(out, `%s%s="%s"`, separator, f.Labels[i], labelEscapes.Replace(label))
	}
	if len(labels) > 0 {
		out.WriteByte('}')
	}
	out.WriteByte(' ')
	out.WriteString(strconv.FormatFloat(value, 'f', -1, 64))
	out.WriteByte('\n')
}
