package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaas/codec/batch"
)

// mark ends a transaction as a coordinator does.
func endTxn(t testing.TB, p *Partition, id int64, epoch int16, commit bool) int64 {
	t.Helper()
	r, err := p.Append(batch.EndTxnMarker(nil, id, epoch, commit, 1, 1000), AppendOptions{Origin: OriginCoordinator})
	if err != nil {
		t.Fatal(err)
	}
	await(t, p, r.LastOffset+1)
	return r.LastOffset
}

func TestOverlappingTransactions(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a")
	put(t, p, records("plain"))                    // 0
	put(t, p, produced(1, 0, 0, true, "abort-1"))  // 1
	put(t, p, produced(2, 0, 0, true, "commit-1")) // 2
	put(t, p, produced(1, 0, 1, true, "abort-2"))  // 3
	put(t, p, produced(2, 0, 1, true, "commit-2")) // 4
	if p.LastStableOffset() != 1 || p.HighWatermark() != 5 {
		t.Fatalf("stable %d, high watermark %d", p.LastStableOffset(), p.HighWatermark())
	}
	if _, err := p.Append(produced(1, 0, 2, false, "outside"), AppendOptions{}); !errors.Is(err, ErrInvalidTxnState) {
		t.Fatalf("a plain write in a transaction: %v", err)
	}
	if endTxn(t, p, 2, 0, true) != 5 || p.LastStableOffset() != 1 {
		t.Fatal("the older transaction is still open")
	}
	check := func(when string, stable int64, want ...AbortedTxn) {
		t.Helper()
		if p.LastStableOffset() != stable {
			t.Errorf("%s: stable %d, want %d", when, p.LastStableOffset(), stable)
		}
		for from := int64(0); from < 5; from++ {
			if got := abortedOf(t, p, from, stable); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: aborted from %d on: %v, want %v", when, from, got, want)
			}
		}
		if got := values(t, p, 0, ReadCommitted); stable == 1 && len(got) != 1 || stable > 5 && len(got) != 5 {
			t.Errorf("%s: read_committed gets %v", when, got)
		}
	}
	check("open", 1)
	for name, again := range map[string]func(){"kill": h.crash, "stop": h.restart} {
		again()
		p = h.partition("a")
		check("open, after a "+name, 1)
	}
	if endTxn(t, p, 1, 0, false) != 6 {
		t.Fatal("the marker's offset")
	}
	aborted := AbortedTxn{ProducerID: 1, FirstOffset: 1, LastOffset: 6, LastStableOffset: 7}
	check("done", 7, aborted)
	h.crash()
	p = h.partition("a")
	check("done, after a kill", 7, aborted)
	h.restart()
	p = h.partition("a")
	check("done, after a stop", 7, aborted)
	// A lost transaction index comes back with the replay.
	h.kill()
	if err := h.s0().Remove(filepath.Join(h.o.Dirs[0], "a-0", "00000000000000000000.txnindex")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000000000000000007.snapshot", "00000000000000000006.snapshot"} {
		_ = h.s0().Remove(filepath.Join(h.o.Dirs[0], "a-0", name)) // whichever is there
	}
	h.open()
	p = h.partition("a")
	check("transaction index lost", 7, aborted)
	// The next transaction of the same producer, and an old epoch.
	put(t, p, produced(1, 1, 0, true, "new"))
	if p.LastStableOffset() != 7 {
		t.Fatalf("stable %d", p.LastStableOffset())
	}
	if _, err := p.Append(produced(1, 0, 2, true, "zombie"), AppendOptions{}); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Fatalf("a zombie: %v", err)
	}
	endTxn(t, p, 1, 1, true)
	if p.LastStableOffset() != 9 {
		t.Fatalf("stable %d", p.LastStableOffset())
	}
}

// TestDamagedTransactionIndexComesBack: entries that no replay makes anew, because a snapshot stands behind their markers,
// survive what a crash leaves of later ones, and damage of the file itself.
func TestDamagedTransactionIndexComesBack(t *testing.T) {
	t.Parallel()
	const entryBytes = 34
	for name, damage := range map[string]func([]byte) []byte{
		"half of an entry behind":  func(b []byte) []byte { return append(b, b[:entryBytes/2]...) },
		"zeroes behind":            func(b []byte) []byte { return append(b, make([]byte, entryBytes)...) },
		"the second is zeroes":     func(b []byte) []byte { clear(b[entryBytes : 2*entryBytes]); return b },
		"all zeroes":               func(b []byte) []byte { clear(b); return b },
		"the first ends in zeroes": func(b []byte) []byte { clear(b[entryBytes/2 : entryBytes]); return b },
		"cut within an entry":      func(b []byte) []byte { return b[:len(b)-1] },
	} {
		for _, base := range []int64{0, 1} { // the first segment, and one that a roll has begun
			h := start(t)
			p := h.partition("a", func(c *Config) { c.SegmentBytes = 1000 })
			if base > 0 {
				put(t, p, produced(9, 0, 0, false, strings.Repeat("x", 900)))
			}
			put(t, p, produced(8, 0, 0, true, "open")) // its end is the last marker, its begin the first record
			for id := range int64(4) {
				put(t, p, produced(id, 0, 0, true, "v"))
				endTxn(t, p, id, 0, id%2 == 0)
			}
			endTxn(t, p, 8, 0, false)
			want := fmt.Sprint(abortedOf(t, p, 0, 100))
			h.stop()
			file := filepath.Join(h.o.Dirs[0], "a-0", fmt.Sprintf("%020d.txnindex", base))
			b, err := os.ReadFile(file)
			if err != nil || len(b) != 3*entryBytes {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			if err := os.WriteFile(file, damage(slices.Clone(b)), 0o600); err != nil {
				t.Fatal(err)
			}
			h.open()
			p = h.partition("a")
			if got := fmt.Sprint(abortedOf(t, p, 0, 100)); got != want {
				t.Errorf("%s, segment %d: aborted %s, want %s", name, base, got, want)
			}
			if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, b) {
				t.Errorf("%s, segment %d: the file has %d bytes that differ, %v", name, base, len(again), err)
			}
			h.stop()
		}
	}
}

func TestTransactionsOverManySegments(t *testing.T) {
	t.Parallel()
	h := start(t)
	small := func(c *Config) { c.SegmentBytes = 250 }
	p := h.partition("a", small)
	var want []AbortedTxn
	sequence := map[int64]int32{}
	for i := range 20 {
		id := int64(i % 3)
		first := p.LogEndOffset()
		for range 3 {
			put(t, p, produced(id, 0, sequence[id], true, "x"))
			sequence[id]++
		}
		last := endTxn(t, p, id, 0, i%2 == 0)
		if i%2 != 0 {
			want = append(want, AbortedTxn{ProducerID: id, FirstOffset: first, LastOffset: last, LastStableOffset: last + 1})
		}
		switch i {
		case 7:
			h.crash()
		case 11:
			h.restart()
		case 15:
			h.s.checkpoint()
			h.crash()
		default:
			continue
		}
		p = h.partition("a", small)
	}
	if got := abortedOf(t, p, 0, p.LogEndOffset()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("aborted:\n%v, want\n%v", got, want)
	}
	for _, w := range want {
		if got := abortedOf(t, p, w.LastOffset-1, w.LastOffset); fmt.Sprint(got) != fmt.Sprint([]AbortedTxn{w}) {
			t.Fatalf("aborted around %d: %v", w.LastOffset, got)
		}
	}
	if p.LastStableOffset() != p.LogEndOffset() {
		t.Fatalf("stable %d, end %d", p.LastStableOffset(), p.LogEndOffset())
	}
}

func TestLeaderEpochs(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a")
	add := func(epoch int32) error {
		_, err := p.Append(records("x"), AppendOptions{LeaderEpoch: epoch})
		return err
	}
	for _, epoch := range []int32{0, 0, 2, 2, 2, 5} {
		if err := add(epoch); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(4); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Fatalf("an old epoch: %v", err)
	}
	await(t, p, 6)
	check := func(when string) {
		t.Helper()
		for _, c := range [][3]int64{{-1, -1, -1}, {0, 0, 2}, {1, 0, 2}, {2, 2, 5}, {3, 2, 5}, {4, 2, 5}, {5, 5, 6}, {6, -1, -1}} {
			if e, end := p.EndOffsetForEpoch(int32(c[0])); int64(e) != c[1] || end != c[2] {
				t.Errorf("%s: epoch %d: %d ends at %d, want %d, %d", when, c[0], e, end, c[1], c[2])
			}
		}
		if p.LeaderEpoch() != 5 {
			t.Errorf("%s: epoch %d", when, p.LeaderEpoch())
		}
	}
	check("at once")
	for _, name := range []string{"kill", "stop", "lost file", "lost file after a stop"} {
		switch name {
		case "kill":
			h.crash()
		case "stop":
			h.restart()
		default:
			if name == "lost file" {
				h.kill()
			} else {
				h.stop()
			}
			if err := h.s0().Remove(filepath.Join(h.o.Dirs[0], "a-0", "leader-epoch-checkpoint")); err != nil {
				t.Fatal(err)
			}
			h.open()
		}
		p = h.partition("a")
		check(name)
	}
}

func abortedOf(t testing.TB, p *Partition, from, to int64) []AbortedTxn {
	t.Helper()
	all, err := p.AbortedTransactions(from, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
