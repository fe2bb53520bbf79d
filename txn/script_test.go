package txn

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write the golden output of testdata/*.txt anew")

// TestScripts runs testdata/*.txt: blocks of commands, a line "----", and what came
// of them. Lines that begin with # are for the reader.
//
//	init ID [timeout=MS] [pid=N epoch=N]   InitProducerId
//	add ID PID EPOCH TOPIC/PARTITION... [v2]
//	verify ID PID EPOCH TOPIC/PARTITION...
//	commit|abort ID PID EPOCH [v2]         EndTxn
//	written [again=TOPIC/PARTITION,...]    the oldest markers that were handed out
//	advance MS                             time passes; timers fire
//	hold, release                          the log's commits stop, and go on
//	crash [keep=N], fail                   the log loses what is not committed; fails
//	epoch ID PID EPOCH                     puts an Empty record with that epoch into the log
//	describe ID, list [state=S] [pid=N] [duration=MS]
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file)
		})
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	var got strings.Builder
	for _, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		got.WriteString(commands + "\n")
		if lines := strings.Split(commands, "\n"); !strings.HasPrefix(lines[len(lines)-1], "#") {
			got.WriteString("----\n" + s.block(commands))
		}
		got.WriteString("\n")
	}
	result := strings.TrimRight(got.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(result), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if result != string(text) {
		t.Errorf("%s differs; run with -update and look at git diff; got\n%s", file, result)
	}
}

// The scripts' time of day begins at 1,000,000 ms, so that records are readable.
const scriptWallMs = 1_000_000

type script struct {
	t       *testing.T
	config  Config
	log     *coordtest.Log
	steps   *coord.Steps[*Machine]
	nowMs   int64
	nextID  int64
	seen    int64
	markers []Markers
	out     strings.Builder
}

func newScript(t *testing.T) *script {
	s := &script{t: t, config: DefaultConfig(), log: coordtest.NewLog(), nextID: 1000}
	s.config.WriteMarkers = func(m Markers) {
		s.markers = append(s.markers, m)
		s.printf("   markers %s producer=%d/%d commit=%v %v", m.TransactionalID, m.ProducerID, m.ProducerEpoch, m.Commit, m.Partitions)
	}
	s.load()
	return s
}

func (s *script) load() {
	config := s.config
	steps, err := coord.NewSteps(NewMachine(&config, 7), s.log, s.nowMs, s.nowMs+scriptWallMs)
	if err != nil {
		s.t.Fatal(err)
	}
	s.steps = steps
	s.turn() // markers that wait for the commit of the tail
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) turn(events ...func(*Machine, *coord.Turn)) {
	if err := s.steps.Turn(s.nowMs, s.nowMs+scriptWallMs, events...); err != nil {
		s.printf("   the log failed")
		s.steps.End(err)
		s.log.Fail(nil)
		s.load()
		return
	}
	if err := s.steps.Turn(s.nowMs, s.nowMs+scriptWallMs); err != nil { // releases what the first has committed
		s.t.Fatal(err)
	}
}

func (s *script) block(commands string) string {
	s.out.Reset()
	for _, line := range strings.Split(commands, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			s.command(strings.Fields(line))
			if line != "fail" {
				s.records()
			}
		}
	}
	return s.out.String()
}

func (s *script) records() {
	if err := s.log.Records(s.seen, func(offset int64, key, value []byte) {
		id, err := decodeKey(key)
		if err != nil {
			s.t.Fatal(err)
		}
		s.seen = offset + 1
		if value == nil {
			s.printf("   record %s: tombstone", id)
			return
		}
		d, err := decodeValue(value)
		if err != nil {
			s.t.Fatal(err)
		}
		s.printf("   record %s: %s producer=%d/%d previous=%d next=%d timeout=%d start=%d update=%d v%d %v", id, d.state, d.producerID, d.epoch,
			d.previousProducerID, d.nextProducerID, d.timeoutMs, d.startMs, d.updateMs, d.clientVersion, d.sortedPartitions())
	}); err != nil {
		s.t.Fatal(err)
	}
}

func codeName(code int16) string {
	if code == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(code).Message
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func partitionsOf(t *testing.T, fields []string) (partitions []TopicPartition) {
	t.Helper()
	for _, field := range fields {
		topic, partition, ok := strings.Cut(field, "/")
		if ok {
			partitions = append(partitions, TopicPartition{topic, int32(number(t, partition))})
		}
	}
	return partitions
}

func (s *script) named(words []string, name string, otherwise int64) int64 {
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return number(s.t, value)
		}
	}
	return otherwise
}

func (s *script) command(w []string) {
	switch w[0] {
	case "init":
		s.init(InitRequest{TransactionalID: w[1], TimeoutMs: int32(s.named(w, "timeout", 60_000)), ProducerID: s.named(w, "pid", -1), ProducerEpoch: int16(s.named(w, "epoch", -1)), FreshProducerID: -1})
	case "add", "verify":
		req := AddRequest{TransactionalID: w[1], ProducerID: number(s.t, w[2]), ProducerEpoch: int16(number(s.t, w[3])), Partitions: partitionsOf(s.t, w[4:])}
		if w[len(w)-1] == "v2" {
			req.ClientVersion = Version2
		}
		if w[0] == "verify" {
			s.turn(func(m *Machine, t *coord.Turn) {
				m.Verify(t, req, func(codes []int16) {
					for i, code := range codes {
						s.printf("%s %s/%d: %s", strings.Join(w[:4], " "), req.Partitions[i].Topic, req.Partitions[i].Partition, codeName(code))
					}
				})
			})
			return
		}
		s.turn(func(m *Machine, t *coord.Turn) {
			m.AddPartitions(t, req, func(code int16) { s.printf("%s: %s", strings.Join(w, " "), codeName(code)) })
		})
	case "commit", "abort":
		req := EndRequest{TransactionalID: w[1], ProducerID: number(s.t, w[2]), ProducerEpoch: int16(number(s.t, w[3])), Commit: w[0] == "commit", FreshProducerID: -1}
		if w[len(w)-1] == "v2" {
			req.ClientVersion = Version2
		}
		s.end(strings.Join(w, " "), req)
	default:
		s.world(w)
	}
}

func (s *script) init(req InitRequest) {
	s.turn(func(m *Machine, t *coord.Turn) {
		m.InitProducerID(t, req, func(r InitResult) {
			if r.NeedsProducerID {
				s.nextID++
				req.FreshProducerID = s.nextID
				m.InitProducerID(t, req, func(r InitResult) {
					s.printf("init %s: %s producer=%d/%d (fresh)", req.TransactionalID, codeName(r.Code), r.ProducerID, r.ProducerEpoch)
				})
				return
			}
			s.printf("init %s: %s producer=%d/%d", req.TransactionalID, codeName(r.Code), r.ProducerID, r.ProducerEpoch)
		})
	})
}

func (s *script) end(what string, req EndRequest) {
	s.turn(func(m *Machine, t *coord.Turn) {
		m.EndTransaction(t, req, func(r EndResult) {
			if r.NeedsProducerID {
				s.nextID++
				req.FreshProducerID = s.nextID
				m.EndTransaction(t, req, func(r EndResult) {
					s.printf("%s: %s producer=%d/%d (fresh)", what, codeName(r.Code), r.ProducerID, r.ProducerEpoch)
				})
				return
			}
			s.printf("%s: %s producer=%d/%d", what, codeName(r.Code), r.ProducerID, r.ProducerEpoch)
		})
	})
}

// world are the commands that are no requests of producers.
func (s *script) world(w []string) {
	switch w[0] {
	case "written":
		markers := s.markers[0]
		s.markers = s.markers[1:]
		results := make([]MarkerResult, len(markers.Partitions))
		for _, word := range w[1:] {
			for _, again := range partitionsOf(s.t, strings.Split(strings.TrimPrefix(word, "again="), ",")) {
				for i, p := range markers.Partitions {
					if p == again {
						results[i] = MarkerAgain
					}
				}
			}
		}
		s.turn(func(m *Machine, t *coord.Turn) { m.MarkersWritten(t, markers, results) })
	case "advance":
		for until := s.nowMs + number(s.t, w[1]); ; {
			atMs, ok := s.steps.NextTimer()
			if !ok || atMs > until {
				s.nowMs = until
				return
			}
			s.nowMs = max(s.nowMs, atMs)
			s.turn()
		}
	case "hold":
		s.log.Hold()
	case "release":
		s.log.Commit()
		s.turn()
	case "fail":
		s.log.Fail(coordtest.ErrClosed)
	case "crash":
		s.log = s.log.Crash(int(s.named(w, "keep", 0)))
		s.steps.End(coord.ErrLogFailed)
		s.markers = nil
		if end, err := s.log.Replay(s.t.Context(), func(batch.View) error { return nil }); err == nil {
			s.seen = min(s.seen, end)
		}
		s.load()
	case "epoch":
		d := metadata{producerID: number(s.t, w[2]), previousProducerID: -1, nextProducerID: -1, epoch: int16(number(s.t, w[3])), timeoutMs: 60_000, startMs: -1, updateMs: s.nowMs + scriptWallMs}
		s.turn(func(m *Machine, t *coord.Turn) { m.put(t, w[1], &d) })
	case "describe":
		s.turn(func(m *Machine, t *coord.Turn) {
			m.Describe(t, w[1], func(r kmsg.DescribeTransactionsResponseTransactionState) {
				s.printf("describe %s: %s %s producer=%d/%d timeout=%d start=%d %v", r.TransactionalID, codeName(r.ErrorCode), r.State, r.ProducerID, r.ProducerEpoch, r.TimeoutMillis, r.StartTimestamp, r.Topics)
			})
		})
	case "list":
		f := Filter{DurationMs: s.named(w, "duration", -1)}
		if id := s.named(w, "pid", math.MinInt64); id != math.MinInt64 {
			f.ProducerIDs = []int64{id}
		}
		for _, word := range w[1:] {
			if name, ok := strings.CutPrefix(word, "state="); ok {
				f.StatesGiven = true
				if state, known := StateNamed(name); known {
					f.States = append(f.States, state)
				}
			}
		}
		s.turn(func(m *Machine, t *coord.Turn) {
			m.List(t, f, func(states []kmsg.ListTransactionsResponseTransactionState, err error) {
				s.printf("list: %v", err)
				for _, x := range states {
					s.printf("   %s %d %s", x.TransactionalID, x.ProducerID, x.TransactionState)
				}
			})
		})
	default:
		s.t.Fatalf("no command %q", w[0])
	}
}
