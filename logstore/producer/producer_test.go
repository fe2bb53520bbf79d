package producer

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"kaas/codec/batch"
)

func data(t testing.TB, id int64, epoch int16, sequence int32, transactional bool, n int) batch.View {
	t.Helper()
	b := batch.Builder{HasProducer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence, Transactional: transactional}
	for range n {
		b.Append(1000, nil, []byte("v"))
	}
	out, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSequences is a script of batches of one producer: what Check says, and what is applied.
func TestSequences(t *testing.T) {
	t.Parallel()
	s := New()
	offset := int64(0)
	for i, c := range []struct {
		epoch    int16
		sequence int32
		n        int
		want     error
		repeats  int64 // first offset of the batch that is repeated, -1: none
	}{
		{0, 100, 2, nil, -1}, // unknown: begins anywhere
		{0, 102, 1, nil, -1},
		{0, 104, 1, ErrOutOfOrderSequence, -1},
		{0, 100, 2, nil, 0},
		{0, 100, 1, ErrOutOfOrderSequence, -1}, // same beginning, another length
		{0, 103, 1, nil, -1},
		{0, 104, 1, nil, -1},
		{0, 105, 1, nil, -1},
		{0, 106, 1, nil, -1},
		{0, 100, 2, ErrOutOfOrderSequence, -1}, // out of the window of five
		{0, 102, 1, nil, 2},
		{2, 1, 1, ErrOutOfOrderSequence, -1}, // a new epoch begins with 0
		{2, 0, 1, nil, -1},
		{1, 0, 1, ErrInvalidProducerEpoch, -1},
		{0, 107, 1, ErrInvalidProducerEpoch, -1},
		{2, 0, 1, nil, 7},
	} {
		v := data(t, 9, c.epoch, c.sequence, false, c.n)
		v.SetBaseOffset(offset)
		repeated, err := s.Check(v, true)
		if !errors.Is(err, c.want) || (repeated != nil) != (c.repeats >= 0) || repeated != nil && repeated.FirstOffset() != c.repeats {
			t.Fatalf("step %d %+v: %v %v", i, c, repeated, err)
		}
		if err == nil && repeated == nil {
			s.Apply(v, Marker{}, Position{Offset: offset}, 5)
			offset += int64(c.n)
		}
	}
}

func TestMarkersOfOldCoordinators(t *testing.T) {
	t.Parallel()
	s := New()
	marked := func(epoch int32) (batch.View, Marker) {
		v := batch.View(batch.EndTxnMarker(nil, 9, 0, true, epoch, 5))
		m, err := ParseMarker(v)
		if err != nil {
			t.Fatal(err)
		}
		return v, m
	}
	v, m := marked(5)
	s.Apply(v, m, Position{}, 5)
	if v, m = marked(4); !errors.Is(s.CheckMarker(v, m), ErrCoordinatorFenced) {
		t.Fatal("a coordinator that was replaced may not write markers")
	}
	if v, m = marked(5); s.CheckMarker(v, m) != nil {
		t.Fatal("the same coordinator may write one again")
	}
}

// FuzzDecode: no panic, and what is accepted comes back as the same bytes.
func FuzzDecode(f *testing.F) {
	s := New()
	f.Add(s.Encode())
	s.Apply(data(f, 7, 1, 3, true, 2), Marker{}, Position{}, 9)
	s.Apply(data(f, 8, 0, 0, false, 1), Marker{}, Position{Offset: 2}, 9)
	f.Add(s.Encode())
	f.Add(s.Encode()[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(s.Encode())
		if err != nil || !bytes.Equal(again.Encode(), s.Encode()) {
			t.Fatalf("%x: %v", b, err)
		}
	})
}

// Where nothing is known of a producer that raises its epoch with each transaction, it begins with sequence 0
// (ProducerAppendInfo.checkSequence); any other may begin anywhere. Who asks first says which it is.
func TestVerificationOfFirstSequence(t *testing.T) {
	t.Parallel()
	build := func(sequence int32) batch.View {
		b := batch.Builder{Transactional: true, HasProducer: true, ProducerID: 7, BaseSequence: sequence}
		b.Append(0, nil, []byte("v"))
		records, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	for raisesEpoch, want := range map[bool]error{false: nil, true: ErrOutOfOrderSequence} {
		s := New()
		guard := s.BeginVerification(7, 0, 5, raisesEpoch, 0)
		s.BeginVerification(7, 0, 5, !raisesEpoch, 0)
		if err := s.CheckGuard(build(5), guard); !errors.Is(err, want) {
			t.Errorf("raises its epoch %v: %v", raisesEpoch, err)
		}
		s.BeginVerification(7, 0, 0, raisesEpoch, 0)
		if err := s.CheckGuard(build(0), guard); err != nil {
			t.Errorf("raises its epoch %v: %v", raisesEpoch, err)
		}
		// Check knows where the producer stands once the partition knows it.
		s.Apply(build(4), Marker{}, Position{}, 0)
		s.Apply(batch.EndTxnMarker(nil, 7, 0, true, 1, 0), Marker{valid: true, commit: true}, Position{Offset: 1}, 0)
		guard = s.BeginVerification(7, 0, 5, raisesEpoch, 0)
		if _, err := s.Check(build(5), true); errors.Join(err, s.CheckGuard(build(5), guard)) != nil {
			t.Errorf("raises its epoch %v, known: %v", raisesEpoch, err)
		}
	}
}

func TestVerification(t *testing.T) {
	t.Parallel()
	s := New()
	at := int64(0)
	build := func(epoch int16, sequence int32) batch.View {
		b := batch.Builder{Transactional: true, HasProducer: true, ProducerID: 7, ProducerEpoch: epoch, BaseSequence: sequence, BaseOffset: at}
		b.Append(0, nil, []byte("v"))
		records, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	add := func(v batch.View) {
		var m Marker
		if v.IsControl() {
			var err error
			if m, err = ParseMarker(v); err != nil {
				t.Fatal(err)
			}
		}
		s.Apply(v, m, Position{Offset: at}, 0)
		at++
	}
	end := func() { add(batch.EndTxnMarker(nil, 7, 0, true, 1, 0)) }
	first, second := build(0, 0), build(0, 1)
	if err := s.CheckVerified(first, 0); !errors.Is(err, ErrUnverified) {
		t.Fatal(err)
	}
	// The later of two first batches asks first, and may not begin.
	guard := s.BeginVerification(7, 0, 1, false, 0)
	if again := s.BeginVerification(7, 0, 0, false, 0); again != guard || guard == 0 {
		t.Fatalf("guards %d and %d", guard, again)
	}
	if err := s.CheckGuard(second, guard); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Fatal(err)
	}
	if err := s.CheckGuard(first, guard+1); !errors.Is(err, ErrInvalidTxnState) {
		t.Fatal(err)
	}
	if err := s.CheckGuard(first, guard); err != nil {
		t.Fatal(err)
	}
	add(first)
	if err := errors.Join(s.CheckVerified(second, 0), s.CheckGuard(second, 0)); err != nil {
		t.Fatalf("an open transaction: %v", err)
	}
	if guard := s.BeginVerification(7, 0, 1, false, 0); guard != 0 {
		t.Fatalf("an open transaction has guard %d", guard)
	}
	end()
	// What may turn out to be a repetition is asked about, too, once the transaction has ended.
	if err := s.CheckVerified(first, 0); !errors.Is(err, ErrUnverified) {
		t.Fatal(err)
	}
	// A marker that comes between the coordinator's answer and the append takes the guard away.
	guard = s.BeginVerification(7, 0, 1, false, 0)
	end()
	if err := s.CheckGuard(second, guard); !errors.Is(err, ErrInvalidTxnState) {
		t.Fatal(err)
	}
	// An epoch to come asks, and is refused elsewhere: the right one, before or after it, has the same guard.
	right := s.BeginVerification(7, 1, 3, false, 0)
	for _, ask := range []struct {
		epoch            int16
		sequence, lowest int32
	}{{2, 4, 4}, {1, 0, 4}, {2, 5, 4}, {2, 1, 1}, {3, 2, 2}} {
		if guard := s.BeginVerification(7, ask.epoch, ask.sequence, false, 0); guard != right {
			t.Fatalf("epoch %d: guards %d and %d", ask.epoch, right, guard)
		}
		for sequence := range int32(6) {
			if err := s.CheckGuard(build(1, sequence), right); errors.Is(err, ErrOutOfOrderSequence) != (sequence > ask.lowest) {
				t.Fatalf("%+v, sequence %d: %v", ask, sequence, err)
			}
		}
	}
	if err := s.CheckEpochs(7, -1, false, false, 0); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Fatal(err)
	}
	if err := s.CheckEpochs(7, 0, true, false, 0); !errors.Is(err, ErrCoordinatorFenced) {
		t.Fatal(err)
	}
	if err := s.CheckEpochs(8, 0, true, true, 0); err != nil || s.CheckEpochs(7, 0, true, true, 1) != nil {
		t.Fatal(err)
	}
	// A marker left over from the transaction before has the epoch of the open one.
	add(build(3, 0))
	if err := s.CheckVerified(build(2, 0), 0); !errors.Is(err, ErrInvalidProducerEpoch) { // nobody needs to be asked
		t.Fatal(err)
	}
	stale := batch.View(batch.EndTxnMarker(nil, 7, 3, false, 1, 0))
	if err := s.CheckRaised(stale); !errors.Is(err, ErrInvalidProducerEpoch) || !errors.Is(s.CheckEpochs(7, 3, true, true, 1), ErrInvalidProducerEpoch) {
		t.Fatal(err)
	}
	if err := s.CheckRaised(batch.View(batch.EndTxnMarker(nil, 7, 4, false, 1, 0))); err != nil || s.CheckEpochs(7, 3, true, false, 1) != nil {
		t.Fatal(err)
	}
	s.Expire(new(sync.Mutex), 1000, 1000)
	if len(s.verifying) != 0 {
		t.Fatal("verifications do not expire")
	}
}
