package coord_test

import (
	"errors"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
)

// Records of a transaction, markers and plain records keep their order, and the log
// says the same after a load.
func TestEmitInTransaction(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	s := load(t, log)
	var answers []string
	inTransaction := func(producerID int64, epoch int16, key, value string) func(*words, *coord.Turn) {
		return func(_ *words, turn *coord.Turn) {
			if err := turn.EmitInTransaction(producerID, epoch, record(key, value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	marker := func(producerID int64, epoch int16, commit bool) func(*words, *coord.Turn) {
		return func(_ *words, turn *coord.Turn) {
			if err := turn.EmitMarker(producerID, epoch, 3, commit, false); err != nil {
				t.Fatal(err)
			}
			turn.Reply(answer("marked", &answers))
		}
	}
	before, _ := log.Appends()
	if err := s.Turn(1, 1,
		put(t, "plain", "1", &answers),
		inTransaction(5, 0, "a", "committed"),
		inTransaction(6, 0, "b", "aborted"),
		put(t, "plain", "2", &answers),
		marker(5, 0, true),
		marker(6, 0, false),
		inTransaction(5, 1, "c", "open"),
	); err != nil {
		t.Fatal(err)
	}
	if err := s.Turn(2, 2); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, &answers, "plain", "plain", "marked", "marked")
	// What a producer has in the turn is appended before its next batch: the log decides
	// by what it knew before an append.
	if after, _ := log.Appends(); after-before != 3 {
		t.Errorf("%d appends", after-before)
	}
	loaded := load(t, log.Clone())
	for key, want := range map[string]string{"plain": "2", "a": "committed", "b": "", "c": ""} {
		if live, again := s.Machine.values[key], loaded.Machine.values[key]; live != want || again != want {
			t.Errorf("%s: live %q, loaded %q, want %q", key, live, again, want)
		}
	}
}

func TestFencedProducerEmitsNothing(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	s := load(t, log)
	if err := s.Turn(1, 1, func(_ *words, turn *coord.Turn) {
		if err := turn.EmitInTransaction(5, 7, record("a", "1")); err != nil {
			t.Fatal(err)
		}
		// The log does not know epoch 7 yet.
		if err := turn.EmitInTransaction(5, 6, record("a", "2")); !errors.Is(err, coord.ErrProducerFenced) {
			t.Errorf("in the same turn: %v", err)
		}
		if err := turn.EmitMarker(5, 6, 0, true, false); !errors.Is(err, coord.ErrProducerFenced) {
			t.Errorf("a marker in the same turn: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Turn(2, 2, func(_ *words, turn *coord.Turn) {
		if err := turn.EmitMarker(5, 6, 0, true, false); !errors.Is(err, coord.ErrProducerFenced) {
			t.Errorf("a marker in a later turn: %v", err)
		}
		if err := turn.EmitMarker(5, 8, 0, true, true); err != nil {
			t.Errorf("the marker of a bump: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.Machine.values["a"]; got != "1" {
		t.Errorf("a is %q", got)
	}
}

// An append in the middle of a turn that fails ends the incarnation with the turn.
func TestFailureInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	log := coordtest.NewLog()
	s := load(t, log)
	broken := errors.New("broken")
	err := s.Turn(1, 1, func(_ *words, turn *coord.Turn) {
		if err := turn.EmitInTransaction(5, 0, record("a", "1")); err != nil {
			t.Fatal(err)
		}
		log.Fail(broken)
		if err := turn.EmitMarker(5, 0, 0, true, false); err != nil {
			t.Fatal(err)
		}
		log.Fail(nil)
	})
	if !errors.Is(err, coord.ErrLogFailed) || !errors.Is(err, broken) {
		t.Fatalf("the turn ends with %v", err)
	}
	if n := log.Uncommitted(); n != 0 {
		t.Errorf("%d batches were appended after the failure", n)
	}
}
