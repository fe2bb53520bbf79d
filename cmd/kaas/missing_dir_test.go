package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// twoDirs are the log directories of a broker that is started again and again.
type twoDirs struct {
	t      *testing.T
	a, b   string
	p      *process
	client *kgo.Client
	http   string
}

func (d *twoDirs) start(dirs ...string) {
	d.t.Helper()
	d.p = startProcess(d.t, onFreePorts("--override", "log.dirs="+strings.Join(dirs, ","))...)
	ready := d.p.awaitReady()
	d.http = "http://" + ready["http"].(string)
	client, err := kgo.NewClient(kgo.SeedBrokers(kafkaAddress(ready)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		d.t.Fatal(err)
	}
	d.client = client
}

func (d *twoDirs) kill() {
	d.t.Helper()
	d.client.Close()
	d.p.signal(syscall.SIGKILL)
	<-d.p.done
}

func (d *twoDirs) get(path string) (status int, body string) {
	d.t.Helper()
	response, err := http.Get(d.http + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (d *twoDirs) create(topics ...string) {
	d.t.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 30_000
	for _, name := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(d.t.Context(), d.client)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			d.t.Fatalf("%s: %v", topic.Topic, err)
		}
	}
}

func (d *twoDirs) put(topics ...string) {
	d.t.Helper()
	for _, topic := range topics {
		if err := d.client.ProduceSync(d.t.Context(), &kgo.Record{Topic: topic, Value: []byte(topic)}).FirstErr(); err != nil {
			d.t.Fatalf("%s: %v", topic, err)
		}
	}
}

// partition is partition 0 of a topic as Metadata says it.
func (d *twoDirs) partition(topic string) kmsg.MetadataResponseTopicPartition {
	d.t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(d.t.Context(), d.client)
	if err != nil || len(response.Topics) != 1 || len(response.Topics[0].Partitions) == 0 {
		d.t.Fatalf("%s: %+v %v", topic, response, err)
	}
	return response.Topics[0].Partitions[0]
}

// end is the log end of partition 0.
func (d *twoDirs) end(topic string) int64 {
	d.t.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	asked, partition := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp = -1
	asked.Topic, asked.Partitions = topic, append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(d.t.Context(), d.client)
	if err != nil || response.Topics[0].Partitions[0].ErrorCode != 0 {
		d.t.Fatalf("%s: %+v %v", topic, response, err)
	}
	return response.Topics[0].Partitions[0].Offset
}

// served checks that the broker is ready and has a number of records in each topic.
func (d *twoDirs) served(want map[string]int64) {
	d.t.Helper()
	if status, body := d.get("/readyz"); status != http.StatusOK {
		d.t.Fatalf("not ready: %s", body)
	}
	for topic, records := range want {
		if got := d.end(topic); got != records {
			d.t.Errorf("%s ends at %d, want %d", topic, got, records)
		}
	}
}

// topicsIn are the topics with a partition in a log directory.
func (d *twoDirs) topicsIn(dir string) (topics []string) {
	d.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		if topic, ok := strings.CutSuffix(e.Name(), "-0"); ok {
			topics = append(topics, topic)
		}
	}
	return topics
}

// TestMissingLogDirectory: what lay in a log directory that is not mounted, or not in log.dirs any more, is offline and not
// made anew; the rest serves; when it is back, all is as before; only a directory that is given up is done without.
func TestMissingLogDirectory(t *testing.T) {
	t.Parallel()
	for _, unmounted := range []bool{true, false} {
		root := t.TempDir()
		d := &twoDirs{t: t, a: filepath.Join(root, "a"), b: filepath.Join(root, "b")}
		d.start(d.a, d.b)
		topics := []string{"t1", "t2", "t3", "t4"}
		d.create(topics...)
		d.put(topics...)
		d.kill()
		inA, inB := d.topicsIn(d.a), d.topicsIn(d.b)
		if len(inA) != 2 || len(inB) != 2 {
			t.Fatalf("a %v, b %v", inA, inB)
		}
		away := d.b + ".away"
		rename(t, d.b, away)
		without := []string{d.a}
		if unmounted {
			without = []string{d.a, d.b}
			if err := os.Mkdir(d.b, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		d.start(without...)
		d.missed(inA, inB)
		d.create("new")
		d.put("new")
		d.kill()
		d.start(without...)
		d.missed(append(inA, "new"), inB)
		d.kill()

		if unmounted {
			if err := os.Remove(d.b); err != nil { // nothing was written to it
				t.Fatal(err)
			}
		}
		rename(t, away, d.b)
		d.start(d.b, d.a) // in any order
		d.served(map[string]int64{"t1": 1, "t2": 1, "t3": 1, "t4": 1, "new": 1})
		d.put(topics...)
		d.kill()

		rename(t, d.b, away)
		d.giveUp(away)
		d.start(without...)
		want := map[string]int64{"new": 1}
		for _, topic := range inA {
			want[topic] = 2
		}
		for _, topic := range inB {
			want[topic] = 0
		}
		d.served(want)
		d.kill()
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// giveUp is what docs/running.md says of a directory that is lost.
func (d *twoDirs) giveUp(dir string) {
	d.t.Helper()
	name := filepath.Join(d.a, "kaas-log-directories")
	text, err := os.ReadFile(name)
	if err != nil {
		d.t.Fatal(err)
	}
	id := directoryID(d.t, dir)
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, id+" ") })
	if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func directoryID(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(text), "directory.id=")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// missed checks what a broker without b says and serves.
func (d *twoDirs) missed(inA, inB []string) {
	t := d.t
	t.Helper()
	id := directoryID(t, d.b+".away")
	status, body := d.get("/readyz")
	for _, want := range append([]string{d.b, id, "kaas-log-directories"}, inB...) {
		if status != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Errorf("/readyz %d does not name %s: %s", status, want, body)
		}
		if log := d.p.text(); !strings.Contains(log, want) {
			t.Errorf("the log does not name %s:\n%s", want, log)
		}
	}
	_, metrics := d.get("/metrics")
	for _, want := range []string{"\nkaas_partitions_offline 2\n", "\nkaas_log_dir_missing{dir=\"" + d.a + "\"} 0\n", "\nkaas_log_dir_missing{dir=\"" + d.b + "\"} 1\n"} {
		if strings.Count(metrics, want) != 1 {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	for _, topic := range inB {
		if p := d.partition(topic); p.Leader != -1 || p.ErrorCode != kerr.LeaderNotAvailable.Code {
			t.Errorf("%s: %+v", topic, p)
		}
	}
	for _, topic := range inA {
		if got := d.end(topic); got != 1 {
			t.Errorf("%s ends at %d", topic, got)
		}
	}
	for _, topic := range inB {
		if in := d.topicsIn(d.a); slices.Contains(in, topic) {
			t.Errorf("%s was made in %s", topic, d.a)
		}
	}
}

// TestResourcesThatAreMissingAreNotReady: data and not one topic resource is a mistake, not a broker that serves.
func TestResourcesThatAreMissingAreNotReady(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := &twoDirs{t: t, a: filepath.Join(root, "a"), b: filepath.Join(root, "b")}
	d.start(d.a, d.b)
	d.create("t1", "t2")
	d.kill()
	d.start(d.b)
	if status, body := d.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "resources/") {
		t.Errorf("/readyz %d: %s", status, body)
	}
	if log := d.p.text(); !strings.Contains(log, "resources/ in log.dirs") {
		t.Error("the log does not ask for the directory with resources/")
	}
	d.kill()
	d.start(d.b, d.a) // the one that knows the other goes first, whatever the order
	d.served(map[string]int64{"t1": 0, "t2": 0})
	d.kill()
}
