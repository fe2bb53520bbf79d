package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kaas/meta/config"
	"kaas/obs"
)

// TestProcessPushesProfiles: what is pushed is parsed by obs/profiling's test;
// here it is the program with its keys.
func TestProcessPushesProfiles(t *testing.T) {
	t.Parallel()
	pushed := make(chan *http.Request, 16)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case pushed <- r:
		default: // the first ones are enough
		}
	}))
	defer server.Close()
	p := startProcess(t, onFreePorts("--override", "profiling.pyroscope.server.address="+server.URL, "--override", "profiling.pyroscope.tenant.id=team",
		"--override", "profiling.pyroscope.basic.auth.user=alice", "--override", "profiling.pyroscope.basic.auth.password=secret",
		"--override", "profiling.pyroscope.labels=zone=b,pod=kaas-0", "--override", "profiling.pyroscope.upload.interval.ms=1000",
		"--override", "profiling.pprof.enable=true", "--override", "profiling.api.labels.enable=true")...)
	ready := p.awaitReady()
	select {
	case r := <-pushed:
		user, password, _ := r.BasicAuth()
		name := r.URL.Query().Get("name")
		if user != "alice" || password != "secret" || r.Header.Get("X-Scope-OrgID") != "team" {
			t.Errorf("%q", r.Header)
		}
		for _, label := range []string{"zone=b", "pod=kaas-0", "node=1", "cluster=" + ready["clusterId"].(string), "version="} {
			if !strings.Contains(name, label) {
				t.Errorf("%s is not in %s", label, name)
			}
		}
	case <-time.After(patience):
		t.Fatal("nothing was pushed")
	}
	response, err := http.Get("http://" + ready["http"].(string) + "/debug/pprof/heap")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/debug/pprof/heap: %s", response.Status)
	}
	if strings.Contains(p.text(), "secret") {
		t.Error("the password is in the log")
	}
}

func TestPprofIsOffUnlessEnabled(t *testing.T) {
	t.Parallel()
	for enabled, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		answer := httptest.NewRecorder()
		httpHandler(&obs.Health{}, obs.NewRegistry(), enabled).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil))
		if answer.Code != want {
			t.Errorf("profiling.pprof.enable=%v: %d", enabled, answer.Code)
		}
	}
}

func TestProfilingKeysThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, override := range []string{"profiling.pyroscope.server.address=localhost:4040", "profiling.pyroscope.labels=zone", "profiling.pyroscope.profile.types=cpu,time", "profiling.pyroscope.upload.interval.ms=1"} {
		if _, _, err := config.LoadBroker(nil, nil, []string{override}); err == nil {
			t.Errorf("%s was taken", override)
		}
	}
}
