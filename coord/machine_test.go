package coord_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"
)

// words is a small machine: the values of keys, and what happened to it.
type words struct {
	values   map[string]string
	pending  map[int64]map[string]string
	timer    coord.Timer
	fired    int
	loaded   bool
	unloaded error
}

func newWords() *words {
	w := &words{values: map[string]string{}, pending: map[int64]map[string]string{}}
	w.timer.Fire = func(*coord.Turn) { w.fired++ }
	return w
}

func (w *words) Replay(r *coord.Record) error {
	key := string(r.Key)
	switch {
	case strings.HasPrefix(key, "bad"):
		return errors.New("a record that nobody can read")
	case r.InTransaction:
		if w.pending[r.ProducerID] == nil {
			w.pending[r.ProducerID] = map[string]string{}
		}
		w.pending[r.ProducerID][key] = string(r.Value)
	case r.Value == nil:
		delete(w.values, key)
	default:
		w.values[key] = string(r.Value)
	}
	return nil
}

func (w *words) ReplayMarker(producerID int64, _ int16, commit bool) error {
	if commit {
		for key, value := range w.pending[producerID] {
			w.values[key] = value
		}
	}
	delete(w.pending, producerID)
	return nil
}

func (w *words) Loaded(*coord.Turn)   { w.loaded = true }
func (w *words) Unloaded(err error)   { w.unloaded = err }
func record(k, v string) coord.Record { return coord.Record{Key: []byte(k), Value: []byte(v)} }

// put is an event that writes and answers into the list.
func put(t testing.TB, key, value string, answers *[]string) func(*words, *coord.Turn) {
	return func(_ *words, turn *coord.Turn) {
		if err := turn.Emit(record(key, value)); err != nil {
			t.Errorf("emit %s: %v", key, err)
		}
		turn.Reply(answer(key, answers))
	}
}

func answer(text string, answers *[]string) func(error) {
	return func(err error) {
		if err != nil {
			text += " failed"
		}
		*answers = append(*answers, text)
	}
}

func load(t testing.TB, log *coordtest.Log) *coord.Steps[*words] {
	t.Helper()
	steps, err := coord.NewSteps(newWords(), log, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func wantAnswers(t testing.TB, got *[]string, want ...string) {
	t.Helper()
	if fmt.Sprint(*got) != fmt.Sprint(want) {
		t.Fatalf("answers %v, want %v", *got, want)
	}
	*got = nil
}

func TestRepliesWaitForTheCommitOfWhatTheySaw(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	s := load(t, log)
	var answers []string
	read := func(m *words, turn *coord.Turn) { turn.Reply(answer("read "+m.values["a"], &answers)) }

	if err := s.Turn(1, 1, read); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, &answers, "read ") // nothing to wait for

	log.Hold()
	if err := s.Turn(2, 2, put(t, "a", "1", &answers), read, put(t, "b", "2", &answers)); err != nil {
		t.Fatal(err)
	}
	if err := s.Turn(3, 3, read); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, &answers) // the reads have seen what is not committed
	log.Commit()
	if err := s.Turn(4, 4); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, &answers, "a", "read 1", "b", "read 1")
	if s.Parked() != 0 {
		t.Errorf("%d replies are still parked", s.Parked())
	}
}

func TestOneAppendATurn(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	s := load(t, log)
	var answers []string
	events := make([]func(*words, *coord.Turn), 500)
	for i := range events {
		events[i] = put(t, fmt.Sprint("key", i), "v", &answers)
	}
	if err := s.Turn(1, 1, events...); err != nil {
		t.Fatal(err)
	}
	if appends, bytes := log.Appends(); appends != 1 || bytes > 500*30 {
		t.Errorf("%d appends of %d bytes for 500 events, want 1 of a few bytes each", appends, bytes)
	}
}

func TestEmitIsAtomic(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	log.MaxBytes = 400
	s := load(t, log)
	err := s.Turn(1, 1, func(m *words, turn *coord.Turn) {
		if err := turn.Emit(record("a", "1"), record("b", strings.Repeat("x", 500))); !errors.Is(err, coord.ErrTooLarge) {
			t.Errorf("too large: got %v", err)
		}
		if len(m.values) != 0 {
			t.Error("a part of what did not fit was applied")
		}
		for i := range 10 { // more than one batch in one turn
			if err := turn.Emit(record(fmt.Sprint("k", i), strings.Repeat("x", 100)), record(fmt.Sprint("l", i), "")); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if appends, _ := log.Appends(); appends != 1 {
		t.Errorf("%d appends, want one of several batches", appends)
	}
	again := load(t, log.Crash(0))
	if len(again.Machine.values) != 20 {
		t.Errorf("%d values after a restart, want 20", len(again.Machine.values))
	}
}

func TestCrashBetweenAppendAndCommit(t *testing.T) {
	t.Parallel()
	for keep := range 3 {
		log := coordtest.NewLog()
		s := load(t, log)
		var answers []string
		if err := s.Turn(1, 1, put(t, "a", "0", &answers)); err != nil {
			t.Fatal(err)
		}
		log.Hold()
		for i := range 2 {
			if err := s.Turn(2, 2, put(t, "a", fmt.Sprint(i+1), &answers)); err != nil {
				t.Fatal(err)
			}
		}
		after := log.Crash(keep)
		s.End(coord.ErrNotCoordinator)
		wantAnswers(t, &answers, "a", "a failed", "a failed")
		if !errors.Is(s.Machine.unloaded, coord.ErrNotCoordinator) {
			t.Errorf("the machine was unloaded with %v", s.Machine.unloaded)
		}
		if got := load(t, after).Machine.values["a"]; got != fmt.Sprint(keep) {
			t.Errorf("with %d of 2 batches on disk a=%s", keep, got)
		}
	}
}

// What is in the log and not yet committed when a shard is loaded may be lost by
// the next crash; nobody may be told of it before.
func TestLoadWaitsForTheTailsCommit(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	var answers []string
	log.Hold()
	first := load(t, log)
	if err := first.Turn(1, 1, put(t, "a", "1", &answers)); err != nil {
		t.Fatal(err)
	}
	second := load(t, log)
	if err := second.Turn(2, 2, func(m *words, turn *coord.Turn) { turn.Reply(answer("read "+m.values["a"], &answers)) }); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, &answers)
	log.Commit()
	if err := second.Turn(3, 3); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, &answers, "read 1")
}

func TestFailedLog(t *testing.T) {
	t.Parallel()
	gone := errors.New("the disk is gone")
	for _, committing := range []bool{false, true} {
		log := coordtest.NewLog()
		s := load(t, log)
		var answers []string
		log.Hold()
		if committing {
			if err := s.Turn(1, 1, put(t, "a", "1", &answers)); err != nil {
				t.Fatal(err)
			}
		}
		log.Fail(gone)
		err := s.Turn(2, 2, put(t, "b", "1", &answers))
		if !errors.Is(err, coord.ErrLogFailed) || !errors.Is(err, gone) {
			t.Fatalf("the turn ended with %v", err)
		}
		s.End(err)
		for _, a := range answers {
			if !strings.HasSuffix(a, "failed") {
				t.Errorf("answer %q although the log failed", a)
			}
		}
		if _, err := coord.NewSteps(newWords(), log, 0, 0); !errors.Is(err, coord.ErrLogFailed) {
			t.Errorf("a failed log loads with %v", err)
		}
	}
}

func TestLoadSkipsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	var b batch.Builder
	for _, key := range []string{"good", "bad", "also good"} {
		b.Append(1, []byte(key), []byte("v"))
	}
	appendBatch(t, log, &b)
	s := load(t, log)
	if len(s.Machine.values) != 2 {
		t.Errorf("values %v, want the two that can be read", s.Machine.values)
	}
}

func TestLoadEndsTransactions(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	for producer := range int64(3) {
		b := batch.Builder{Transactional: true, HasProducer: true, ProducerID: producer, BaseSequence: -1}
		b.Append(1, fmt.Append(nil, "key", producer), []byte("v"))
		appendBatch(t, log, &b)
	}
	for producer, commit := range []bool{true, false} { // producer 2 stays open
		if _, err := log.Append(batch.EndTxnMarker(nil, int64(producer), 0, commit, 0, 1)); err != nil {
			t.Fatal(err)
		}
	}
	s := load(t, log)
	if got := fmt.Sprint(s.Machine.values, s.Machine.pending); got != "map[key0:v] map[2:map[key2:v]]" {
		t.Errorf("after the load: %s", got)
	}
}

func appendBatch(t testing.TB, log *coordtest.Log, b *batch.Builder) {
	t.Helper()
	bytes, err := b.Build(nil)
	if err == nil {
		_, err = log.Append(bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTimersAreEvents(t *testing.T) {
	t.Parallel()
	s := load(t, coordtest.NewLog())
	turn := func(nowMs int64, events ...func(*words, *coord.Turn)) {
		if err := s.Turn(nowMs, nowMs, events...); err != nil {
			t.Fatal(err)
		}
	}
	turn(10, func(m *words, turn *coord.Turn) { turn.Schedule(&m.timer, 20) })
	turn(19)
	if atMs, ok := s.NextTimer(); s.Machine.fired != 0 || !ok || atMs != 20 {
		t.Errorf("at 19: fired %d, next %d", s.Machine.fired, atMs)
	}
	turn(20)
	turn(21)
	if s.Machine.fired != 1 {
		t.Errorf("fired %d times, want once", s.Machine.fired)
	}
	// A timer that is always due runs once a turn and lets the events through.
	s.Machine.timer.Fire = func(turn *coord.Turn) { s.Machine.fired++; turn.Schedule(&s.Machine.timer, 0) }
	turn(30, func(m *words, turn *coord.Turn) { turn.Schedule(&m.timer, 0) })
	turn(31)
	if s.Machine.fired != 2 {
		t.Errorf("fired %d times, want once more", s.Machine.fired)
	}
}
