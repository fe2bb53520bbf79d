package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/limits"
	"kaas/obs"
)

// TestMain lets the test binary be the program: a test that needs a process of
// its own starts this binary with runAsProgram set.
func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

const (
	runAsProgram = "KAAS_TEST_RUN_AS_PROGRAM"
	patience     = 20 * time.Second // for a process on a busy machine; nothing takes that long
)

// process is a kaas under test. Its log is read line by line by one goroutine.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready chan map[string]any // the line that says ready
	done  chan struct{}       // closed when the process has been waited for

	mu sync.Mutex
	// +checklocks:mu
	log bytes.Buffer
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(os.Args[0], args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ready: make(chan map[string]any, 1), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), runAsProgram+"=1")
	p.cmd.Dir = t.TempDir()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(stderr)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
		if t.Failed() {
			t.Logf("its log:\n%s", p.text())
		}
	})
	return p
}

func (p *process) follow(stderr io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) == nil && line["msg"] == "ready" {
			select {
			case p.ready <- line:
			default: // a second one: the test of the log counts them
			}
		}
	}
	_ = p.cmd.Wait() // the exit code is in ProcessState
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) awaitReady() map[string]any {
	p.t.Helper()
	select {
	case line := <-p.ready:
		return line
	case <-p.done:
		p.t.Fatalf("it ended: %v", p.cmd.ProcessState)
	case <-time.After(patience):
		p.t.Fatal("it is not ready")
	}
	return nil
}

// awaitExit returns the exit code.
func (p *process) awaitExit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("it has not ended")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// onFreePorts are the arguments of a broker that meets no other.
func onFreePorts(more ...string) []string {
	return append([]string{"broker", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "http.address=127.0.0.1:0"}, more...)
}

// kafkaAddress is where a ready broker listens.
func kafkaAddress(ready map[string]any) string {
	return strings.TrimPrefix(ready["listeners"].([]any)[0].(string), "PLAINTEXT://")
}

func TestBadConfigurationExitsWith1AndTouchesNothing(t *testing.T) {
	t.Parallel()
	for _, override := range []string{"num.partitions=0", "listeners=SSL://:0", "log.dirs="} {
		p := startProcess(t, onFreePorts("--override", override)...)
		if code := p.awaitExit(); code != 1 {
			t.Errorf("%s: exit code %d", override, code)
		}
		key, _, _ := strings.Cut(override, "=")
		if log := p.text(); strings.Count(log, "\n") != 1 || !strings.Contains(log, key) || !strings.Contains(log, "allowed") {
			t.Errorf("%s: %q", override, log)
		}
		if entries, err := os.ReadDir(p.cmd.Dir); err != nil || len(entries) != 0 {
			t.Errorf("%s: left %v, %v", override, entries, err)
		}
	}
}

func TestLogDirThatCantBeMadeIsNamed(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts("--override", "log.dirs=/proc/foo")...)
	if code := p.awaitExit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if log := p.text(); log != "kaas: log directory /proc/foo of log.dirs can't be made: mkdir /proc/foo: no such file or directory\n" {
		t.Errorf("%q", log)
	}
}

func TestPolicyThatDoesNotCompileStopsTheStart(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts("--override", "delete.topic.policy=topic == ")...)
	if code := p.awaitExit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if log := p.text(); !strings.Contains(log, "delete.topic.policy: line 1, column ") {
		t.Errorf("%q", log)
	}
	if entries, err := os.ReadDir(p.cmd.Dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestUsageErrorsExitWith1(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"brokr":                     `unknown command "brokr" for "kaas"`,
		"broker a b":                `one configuration file at most, got ["a" "b"]; see kaas broker --help`,
		"broker --nope":             "unknown flag: --nope; see kaas broker --help",
		"broker --override":         "flag needs an argument: --override; see kaas broker --help",
		"broker num.partitions=3":   "configuration file num.partitions=3 does not exist; a key=value stands behind --override",
		"broker missing.properties": "configuration file: open missing.properties: no such file or directory",
	} {
		p := startProcess(t, strings.Fields(args)...)
		if code, text := p.awaitExit(), p.text(); code != 1 || !strings.HasPrefix(text, "kaas: "+want) {
			t.Errorf("%s: exit code %d, %q", args, code, text)
		}
	}
}

func TestReadyIsOneLineAndSIGTERMExitsWith0(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts("--override", "num.partitons=1", "--override", "process.roles=broker", "--override", "controller.quorum.voters=1@h:1")...)
	ready := p.awaitReady()
	if ready["clusterId"] == "" || ready["startMs"] == nil {
		t.Errorf("%v", ready)
	}
	c, err := net.Dial("tcp", kafkaAddress(ready))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	p.signal(syscall.SIGTERM)
	if code := p.awaitExit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	log := p.text()
	for text, times := range map[string]int{`"msg":"ready"`: 1, "num.partitons": 1, "process.roles": 1, "controller.quorum.voters": 1} {
		if got := strings.Count(log, text); got != times {
			t.Errorf("%s occurs %d times in the log", text, got)
		}
	}
	if _, err := os.Stat(filepath.Join(p.cmd.Dir, "kaas-data", "meta.properties")); err != nil {
		t.Error(err)
	}
}

func TestSIGHUPStops(t *testing.T) {
	t.Parallel()
	// Where this test was started with nohup, its children ignore the signal; what is
	// caught here is as it was in the beginning for them.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	p := startProcess(t, onFreePorts()...)
	p.awaitReady()
	p.signal(syscall.SIGHUP)
	if code, log := p.awaitExit(), p.text(); code != 0 || !strings.Contains(log, `"msg":"stopping","signal":"hangup"`) || !strings.Contains(log, `"msg":"stopped"`) {
		t.Errorf("exit code %d", code)
	}
}

// A broker that was started with nohup goes on when the terminal is closed.
func TestSIGHUPThatIsIgnoredStaysIgnored(t *testing.T) {
	t.Parallel()
	p := startCommand(t, exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh", os.Args[0]}, onFreePorts()...)...))
	p.awaitReady()
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGTERM) // the higher number is delivered after the lower one
	if code, log := p.awaitExit(), p.text(); code != 0 || !strings.Contains(log, `"msg":"stopping","signal":"terminated"`) {
		t.Errorf("exit code %d", code)
	}
}

func TestStoppedBrokerStartsAgainOnItsData(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := startProcess(t, onFreePorts("--override", "log.dirs="+data)...)
	cluster := first.awaitReady()["clusterId"]

	second := startProcess(t, onFreePorts("--override", "log.dirs="+data)...)
	if code := second.awaitExit(); code != 1 || !strings.Contains(second.text(), "kaas: ") {
		t.Errorf("a second broker on the same data: exit code %d, %q", code, second.text())
	}

	first.signal(syscall.SIGINT)
	if code := first.awaitExit(); code != 0 {
		t.Errorf("SIGINT: exit code %d", code)
	}
	third := startProcess(t, onFreePorts("--override", "log.dirs="+data)...)
	if got := third.awaitReady()["clusterId"]; got != cluster {
		t.Errorf("cluster id %v, was %v", got, cluster)
	}
}

func TestBusyListenerIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	p := startProcess(t, onFreePorts("--override", "listeners=PLAINTEXT://"+taken.Addr().String())...)
	if code := p.awaitExit(); code != 1 || !strings.Contains(p.text(), taken.Addr().String()) {
		t.Errorf("exit code %d, %q", code, p.text())
	}
}

func TestBusyHTTPAddressThatWasSetIsAnError(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	p := startProcess(t, onFreePorts("--override", "http.address="+taken.Addr().String())...)
	if code := p.awaitExit(); code != 1 || !strings.Contains(p.text(), "http.address") {
		t.Errorf("exit code %d, %q", code, p.text())
	}
}

func TestHTTPServesHealthAndMetrics(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts()...)
	base := "http://" + p.awaitReady()["http"].(string)
	for path, want := range map[string]string{"/": "/readyz ", "/healthz": "ok", "/readyz": "ready", "/metrics": "kaas_requests_total"} {
		response, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %v\n%s", path, response.Status, err, body)
		}
	}
	response, err := http.Get(base + "/nothing")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("a path that is none: %s", response.Status)
	}
	response, err = http.Get(base + "/debug/pprof/")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("pprof is served: %s", response.Status)
	}
}

// A broker shows every family that is documented, and one look at its partitions says what they are.
func TestMetricsAreComplete(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts("--override", standardAuthorizer, "--override", "super.users=User:ANONYMOUS")...)
	ready := p.awaitReady()
	c, err := net.Dial("tcp", kafkaAddress(ready))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	createTopic(t, c, "counted", 3)
	var body []byte
	await(t, "the topic's partitions are counted", func() bool {
		response, err := http.Get("http://" + ready["http"].(string) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		return err == nil && strings.Contains(string(body), "\nkaas_topic_partitions{topic=\"counted\"} 3\n")
	})
	for _, f := range obs.Families {
		if !strings.Contains(string(body), fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n%s", f.Name, f.Help, f.Name, f.Kind, f.Name)) {
			t.Errorf("/metrics has no %s", f.Name)
		}
	}
	for _, want := range []string{"kaas_partitions 3", "kaas_partitions_offline 0", "kaas_ready 1", "kaas_topics 1", "kaas_connections 1", "kaas_connections_accepted_total 1", `kaas_topic_records_total{topic="counted"} 0`} {
		if !strings.Contains(string(body), "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

func TestDevModeWritesNothing(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts("--dev")...)
	ready := p.awaitReady()
	if ready["dev"] != true {
		t.Error("the ready line does not say dev")
	}
	if dirs, ok := ready["logDirs"].([]any); !ok || len(dirs) != 0 {
		t.Errorf("the ready line names directories: %v", ready["logDirs"])
	}
	c, err := net.Dial("tcp", kafkaAddress(ready))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	described := kmsg.NewPtrDescribeLogDirsRequest()
	described.SetVersion(1)
	send(t, c, described)
	dirs := described.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	if receive(t, c, dirs); len(dirs.Dirs) != 1 || dirs.Dirs[0].Dir != "memory" || dirs.Dirs[0].ErrorCode != 0 {
		t.Errorf("%+v", dirs.Dirs)
	}
	response, err := http.Get("http://" + ready["http"].(string) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if text := string(body); err != nil || !strings.Contains(text, `kaas_log_dir_size_bytes{dir="memory"} 0`) || strings.Contains(text, "kaas-data") {
		t.Errorf("%v\n%s", err, text)
	}
	p.signal(syscall.SIGTERM)
	if code := p.awaitExit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if entries, err := os.ReadDir(p.cmd.Dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestKafkaVariablesOfTheContainerImage(t *testing.T) {
	t.Setenv("KAFKA_LISTENERS", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0")
	t.Setenv("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://example.org:19092")
	t.Setenv("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER")
	t.Setenv("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")
	t.Setenv("KAFKA_PROCESS_ROLES", "broker,controller")
	t.Setenv("KAFKA_NODE_ID", "5")
	t.Setenv("KAFKA_HTTP_ADDRESS", "")
	t.Setenv("KAFKA_HEAP_OPTS", "-Xmx1G")
	data := filepath.Join(t.TempDir(), "logs")
	t.Setenv("KAFKA_LOG_DIRS", data)
	p := startProcess(t, "broker")
	ready := p.awaitReady()
	if ready["nodeId"] != 5.0 || ready["http"] != nil || len(ready["listeners"].([]any)) != 1 {
		t.Errorf("%v", ready)
	}
	if _, err := os.Stat(filepath.Join(data, "meta.properties")); err != nil {
		t.Error(err)
	}
}

// send writes one request; its reply is the caller's to read.
func send(t *testing.T, c net.Conn, request kmsg.Request) {
	t.Helper()
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1)); err != nil {
		t.Fatal(err)
	}
}

// receive reads one reply with a v0 response header.
func receive(t *testing.T, c net.Conn, response kmsg.Response) {
	t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatal(err)
	}
	if err := response.ReadFrom(reply[4:]); err != nil {
		t.Fatal(err)
	}
}

// findCoordinator returns when the group's coordinator is loaded: the first
// question makes the topic of the offsets, a heartbeat of a member that does
// not exist is answered as unknown once it is loaded.
func findCoordinator(t *testing.T, c net.Conn, group string) {
	t.Helper()
	await(t, "the coordinator is there", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(2)
		find.CoordinatorKey = group
		send(t, c, find)
		response := kmsg.NewPtrFindCoordinatorResponse()
		response.SetVersion(2)
		receive(t, c, response)
		return response.ErrorCode == 0
	})
	await(t, "the coordinator is loaded", func() bool {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.SetVersion(3)
		beat.Group, beat.MemberID = group, "nobody"
		send(t, c, beat)
		response := kmsg.NewPtrHeartbeatResponse()
		response.SetVersion(3)
		receive(t, c, response)
		return response.ErrorCode == kerr.UnknownMemberID.Code
	})
}

// waitingMember joins a group whose first rebalance waits for longer than a
// stop takes, and returns its connection when the broker has the request.
func waitingMember(t *testing.T, p *process) net.Conn {
	t.Helper()
	ready := p.awaitReady()
	c, err := net.Dial("tcp", kafkaAddress(ready))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	findCoordinator(t, c, "g")
	join := kmsg.NewPtrJoinGroupRequest()
	join.SetVersion(3) // before v4 a member needs no id to wait
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 60000, 60000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	join.Protocols = append(join.Protocols, protocol)
	send(t, c, join)
	await(t, "the request is under way", func() bool { return gauge(t, ready, "kaas_requests_in_flight") == 1 })
	return c
}

// startOwing starts a broker that owes a client replies which the client does not read.
// The sockets hold few of them.
func startOwing(t *testing.T) *process {
	t.Helper()
	p := startProcess(t, onFreePorts("--override", "socket.send.buffer.bytes=65536")...)
	ready := p.awaitReady()
	c, err := net.Dial("tcp", kafkaAddress(ready))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	one := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	many, at, sent := bytes.Repeat(one, 10_000), 0, 0.0
	await(t, "replies are owed, and none leaves", func() bool {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := c.Write(many[at:])
		at = (at + n) % len(many)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		before := sent
		sent = gauge(t, ready, "kaas_sent_bytes_total")
		return sent > 0 && sent == before && gauge(t, ready, "kaas_outbound_bytes") > 0
	})
	return p
}

// gauge asks a broker for the value of a metric without labels.
func gauge(t *testing.T, ready map[string]any, name string) float64 {
	t.Helper()
	response, err := http.Get("http://" + ready["http"].(string) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// await polls for what a process does. Polls count, too: a machine that stood still has
// not waited.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for polls := 0; !condition(); polls++ {
		if polls > 400 && time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestStopDoesNotWaitForRequestsThatWaitByNature(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts("--override", "group.initial.rebalance.delay.ms=60000")...)
	c := waitingMember(t, p)
	p.signal(syscall.SIGTERM)
	response := kmsg.NewPtrJoinGroupResponse()
	response.SetVersion(3)
	if receive(t, c, response); response.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("the member is told %d", response.ErrorCode)
	}
	if code := p.awaitExit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(p.text(), "still owed replies") {
		t.Error("the stop waited for the member")
	}
}

func TestStopLeavesWhoDoesNotRead(t *testing.T) {
	t.Parallel()
	p := startOwing(t)
	p.signal(syscall.SIGTERM)
	// A stop that waited for it would end at limits.StopTimeout, which is longer than patience.
	if code := p.awaitExit(); code != 0 || !strings.Contains(p.text(), "still owed replies") {
		t.Errorf("exit code %d", code)
	}
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	p := startOwing(t)
	p.signal(syscall.SIGTERM)
	await(t, "the first signal is being handled", func() bool { return strings.Contains(p.text(), `"msg":"stopping"`) })
	handled := time.Now()
	await(t, "a second signal is no echo", func() bool { return time.Since(handled) > limits.SignalEcho })
	p.signal(syscall.SIGTERM)
	if code := p.awaitExit(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
}

// The timeout command signals its child and then the group that the child is in.
func TestSignalThatComesTwiceIsOne(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts()...)
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if code := p.awaitExit(); code != 0 || !strings.Contains(p.text(), `"msg":"stopped"`) {
		t.Errorf("exit code %d", code)
	}
}

func createTopic(t *testing.T, c net.Conn, name string, partitions int32) {
	t.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.SetVersion(4)
	request.TimeoutMillis = 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	request.Topics = append(request.Topics, topic)
	send(t, c, request)
	response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
	receive(t, c, response)
	if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); err != nil {
		t.Fatalf("topic %s: %v", name, err)
	}
}
