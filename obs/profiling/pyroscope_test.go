package profiling

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"kaas/obs"
)

// receiver takes what a Pyroscope server takes at /ingest and parses it.
type receiver struct {
	t *testing.T

	mu sync.Mutex
	// +checklocks:mu
	types map[string]bool // sample types that came
	// +checklocks:mu
	apis map[string]bool // values of the label api in CPU samples
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	user, password, ok := request.BasicAuth()
	name := request.URL.Query().Get("name")
	if request.URL.Path != "/ingest" || !ok || user != "alice" || password != "secret" || request.Header.Get("X-Scope-OrgID") != "team" ||
		!strings.HasPrefix(name, "kaas") || !strings.Contains(name, "pod=kaas-0") || !strings.Contains(name, "version=v1") {
		r.t.Errorf("%s %q %q %v %q", request.URL, user, password, ok, request.Header)
	}
	_, params, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if err != nil {
		r.t.Error(err)
		return
	}
	for parts := multipart.NewReader(request.Body, params["boundary"]); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			return
		}
		if err != nil {
			r.t.Error(err)
			return
		}
		if part.FormName() != "profile" {
			continue
		}
		p, err := profile.Parse(part)
		if err != nil {
			r.t.Errorf("%s: %v", name, err)
			return
		}
		r.take(p)
	}
}

func (r *receiver) take(p *profile.Profile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sampleType := range p.SampleType {
		r.types[sampleType.Type] = true
	}
	for _, sample := range p.Sample {
		for _, api := range sample.Label["api"] {
			r.apis[api] = true
		}
	}
}

func (r *receiver) has(what map[string]bool, names ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(names, func(name string) bool { return !what[name] })
}

// TestPushedProfilesCanBeParsed pushes to a receiver until each kind of
// profile has come, CPU samples with the name of the API among them. Not
// parallel: a process has one CPU profiler.
func TestPushedProfilesCanBeParsed(t *testing.T) {
	r := &receiver{t: t, types: map[string]bool{}, apis: map[string]bool{}}
	server := httptest.NewServer(r)
	defer server.Close()
	stop, err := Start(Options{
		ServerAddress: server.URL, ApplicationName: "kaas", TenantID: "team", User: "alice", Password: "secret",
		Labels: map[string]string{"pod": "kaas-0", "version": "v1"}, Types: []string{"cpu", "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "goroutine", "mutex_count", "mutex_duration", "block_count", "block_duration"},
		UploadInterval: 200 * time.Millisecond, MutexProfileFraction: 1, BlockProfileRateNs: 1, Logger: obs.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	labels, deadline := APILabels("Produce"), time.Now().Add(20*time.Second)
	kinds := []string{"samples", "cpu", "alloc_objects", "inuse_space", "goroutine", "contentions", "delay"}
	for !(r.has(r.apis, "Produce") && r.has(r.types, kinds...)) && time.Now().Before(deadline) {
		labels.Begin()
		burn()
		End()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !r.has(r.apis, "Produce") || !r.has(r.types, kinds...) {
		t.Errorf("came: %v, APIs %v", r.types, r.apis)
	}
}

var burnt uint64

// burn uses a millisecond or so, some of it waiting for a lock.
func burn() {
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for i := range uint64(200_000) {
				burnt = burnt*31 + i
			}
		})
	}
	wait.Wait()
}

// A server that is away costs a line of log and nothing else.
func TestServerThatIsAway(t *testing.T) {
	if _, err := Start(Options{ServerAddress: "http://[::1", ApplicationName: "kaas", Types: []string{"goroutine"}, UploadInterval: time.Second, Logger: obs.Discard()}); err == nil {
		t.Error("an address that is none was taken")
	}
	stop, err := Start(Options{ServerAddress: "http://127.0.0.1:1", ApplicationName: "kaas", Types: []string{"goroutine"}, UploadInterval: 100 * time.Millisecond, Logger: obs.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := stop(); time.Since(began) > stopTimeout+5*time.Second {
		t.Errorf("the stop took %v: %v", time.Since(began), err)
	}
}

func TestLabelsAllocateNothing(t *testing.T) {
	labels := APILabels("Fetch")
	if n := testing.AllocsPerRun(100, func() { labels.Begin(); End() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
