//go:build pyroscope

package pyroscope

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas/e2e/process"
)

// server is a Pyroscope server with tenants.
type server struct {
	t       *testing.T
	address string
}

func startServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	port, host := freePort(t), process.Loopback
	arguments := []string{
		"-target=all", "-auth.multitenancy-enabled=true", "-self-profiling.disable-push=true", "-usage-stats.enabled=false", "-config.show_banner=false",
		"-server.http-listen-address=" + host, "-server.http-listen-port=" + port,
		"-server.grpc-listen-address=" + host, "-server.grpc-listen-port=" + freePort(t),
		"-memberlist.bind-addr=" + host, "-memberlist.advertise-addr=" + host, "-memberlist.bind-port=" + freePort(t),
		"-pyroscopedb.data-path=" + filepath.Join(dir, "data"), "-storage.backend=filesystem", "-storage.filesystem.dir=" + filepath.Join(dir, "blocks"),
		"-blocks-storage.bucket-store.sync-dir=" + filepath.Join(dir, "sync"), "-compactor.data-dir=" + filepath.Join(dir, "compactor"),
	}
	for _, ring := range []string{"ring", "distributor.ring", "compactor.ring", "query-scheduler.ring", "store-gateway.sharding-ring", "overrides-exporter.ring"} {
		arguments = append(arguments, "-"+ring+".store=inmemory")
	}
	for _, ring := range []string{"distributor.ring", "compactor.ring", "query-scheduler.ring", "store-gateway.sharding-ring", "overrides-exporter.ring"} {
		arguments = append(arguments, "-"+ring+".instance-addr="+host)
	}
	spawn(t, dir, program(t, "PYROSCOPE_BIN"), append(arguments, "-ingester.lifecycler.addr="+host, "-ingester.min-ready-duration=0s",
		"-query-frontend.instance-addr="+host)...)
	s := &server{t: t, address: "http://" + net.JoinHostPort(host, port)}
	eventually(t, "the Pyroscope server is ready", func() bool {
		response, err := http.Get(s.address + "/ready")
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, response.Body) // only the code counts
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return s
}

// ask posts a request of the server's querier as JSON (Connect); an answer that is an error fails the test.
func (s *server) ask(tenant, method string, request map[string]any, answer any) {
	s.t.Helper()
	now := time.Now()
	request["start"], request["end"] = now.Add(-time.Hour).UnixMilli(), now.Add(time.Minute).UnixMilli()
	body, err := json.Marshal(request)
	must(s.t, err)
	s.do(tenant, http.MethodPost, "/querier.v1.QuerierService/"+method, string(body), answer)
}

func (s *server) do(tenant, method, path, body string, answer any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.address+path, strings.NewReader(body))
	must(s.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Scope-OrgID", tenant)
	response, err := http.DefaultClient.Do(request)
	must(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(s.t, err)
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s of tenant %s: %s: %s", path, tenant, response.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		s.t.Fatalf("%s: %v: %.300s", path, err, text)
	}
}

// types are the profile types that the server has of a tenant.
func (s *server) types(tenant string) (types []string) {
	s.t.Helper()
	var answer struct{ ProfileTypes []struct{ ID string } }
	s.ask(tenant, "ProfileTypes", map[string]any{}, &answer)
	for _, one := range answer.ProfileTypes {
		types = append(types, one.ID)
	}
	slices.Sort(types)
	return types
}

// values are those of a label.
func (s *server) values(tenant, label string) (names []string) {
	s.t.Helper()
	var answer struct{ Names []string }
	s.ask(tenant, "LabelValues", map[string]any{"name": label}, &answer)
	return answer.Names
}

// graph is a flame graph: its functions, and the sum of its samples.
type graph struct {
	Flamebearer struct {
		Names    []string
		NumTicks int64
	}
}

func (g *graph) has(prefix string) bool {
	return slices.ContainsFunc(g.Flamebearer.Names, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// render is the flame graph of a query: TYPE{LABEL="VALUE"}.
func (s *server) render(tenant, query string) (g graph) {
	s.t.Helper()
	s.do(tenant, http.MethodGet, "/pyroscope/render?"+url.Values{"query": {query}, "from": {"now-1h"}, "until": {"now"}, "format": {"json"}}.Encode(), "", &g)
	return g
}

// startBroker starts a broker that pushes all kinds of profiles, with labels, and has it produce and fetch until the test ends.
func startBroker(t *testing.T, s *server) *process.Tail {
	t.Helper()
	dir, at := t.TempDir(), freeAddress(t)
	arguments := []string{"broker"}
	for _, setting := range []string{
		"listeners=PLAINTEXT://" + at, "log.dirs=" + dir, "http.address=", "node.id=7",
		"profiling.pyroscope.server.address=" + s.address, "profiling.pyroscope.tenant.id=team", "profiling.pyroscope.application.name=orders",
		"profiling.pyroscope.labels=zone=b,pod=kaas-0", "profiling.pyroscope.upload.interval.ms=1000", "profiling.api.labels.enable=true",
		"profiling.pyroscope.profile.types=cpu,alloc_objects,alloc_space,inuse_objects,inuse_space,goroutine,mutex_count,mutex_duration,block_count,block_duration",
	} {
		arguments = append(arguments, "--override", setting)
	}
	log := spawn(t, dir, program(t, "KAAS_BIN"), arguments...)
	ctx, cancel := context.WithCancel(context.Background())
	client, err := kgo.NewClient(kgo.SeedBrokers(at), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("work"), kgo.ConsumeTopics("work"))
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var records []*kgo.Record
			for i := range 200 {
				records = append(records, kgo.StringRecord(fmt.Sprint(strings.Repeat("x", 1000), i)))
			}
			_ = client.ProduceSync(ctx, records...) // the broker may not listen yet; what comes of it is seen in its profiles
			client.PollRecords(ctx, 1000)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		client.Close()
	})
	return log
}

// TestServerHasTheProfiles: a Pyroscope server takes what the broker pushes, of each kind, for its tenant only, and finds it by the labels.
func TestServerHasTheProfiles(t *testing.T) {
	s := startServer(t)
	log := startBroker(t, s)

	want := []string{
		"block:contentions:count:contentions:count", "block:delay:nanoseconds:contentions:count",
		"goroutine:goroutine:count:goroutine:count",
		"memory:alloc_objects:count:space:bytes", "memory:alloc_space:bytes:space:bytes",
		"memory:inuse_objects:count:space:bytes", "memory:inuse_space:bytes:space:bytes",
		"mutex:contentions:count:contentions:count", "mutex:delay:nanoseconds:contentions:count",
		"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
	}
	var have []string
	eventually(t, "the server has all kinds of profiles", func() bool {
		have = s.types("team")
		missing := slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(have, name) })
		return !missing
	})
	t.Logf("kinds: %q", have)

	for label, value := range map[string]string{"service_name": "orders", "zone": "b", "pod": "kaas-0", "node": "7"} {
		if got := s.values("team", label); !slices.Equal(got, []string{value}) {
			t.Errorf("label %s: %q, want %q", label, got, value)
		}
	}
	for _, label := range []string{"cluster", "version"} {
		if got := s.values("team", label); len(got) != 1 || got[0] == "" {
			t.Errorf("label %s: %q, want one value", label, got)
		}
	}

	const cpu = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
	for query, function := range map[string]string{
		cpu + `{service_name="orders", zone="b"}`:                                   "kaas/",
		cpu + `{service_name="orders", api="Produce"}`:                              "kaas/logstore",
		cpu + `{service_name="orders", api="Fetch"}`:                                "kaas/broker",
		`goroutine:goroutine:count:goroutine:count{service_name="orders"}`:          "kaas/netio",
		`memory:inuse_space:bytes:space:bytes{service_name="orders", node="7"}`:     "kaas/",
		`memory:alloc_space:bytes:space:bytes{service_name="orders", pod="kaas-0"}`: "kaas/",
	} {
		var g graph
		eventually(t, query+" has samples in "+function, func() bool {
			g = s.render("team", query)
			return g.Flamebearer.NumTicks > 0 && g.has(function)
		})
		t.Logf("%s: %d in %d functions", query, g.Flamebearer.NumTicks, len(g.Flamebearer.Names))
	}
	if g := s.render("team", cpu+`{service_name="orders", zone="a"}`); g.Flamebearer.NumTicks != 0 {
		t.Errorf("samples of a zone that no broker is in: %d", g.Flamebearer.NumTicks)
	}
	if types := s.types("strangers"); len(types) != 0 {
		t.Errorf("another tenant sees %q", types)
	}
	if text := log.String(); strings.Contains(text, "a profile was not pushed") {
		t.Errorf("the broker was refused:\n%s", text)
	}
}
