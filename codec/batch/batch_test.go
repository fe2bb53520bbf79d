package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
)

const testBound = 16 << 20

func sample(t testing.TB, codec Compression, n int) View {
	t.Helper()
	b := Builder{Compression: codec, BaseOffset: 100, LeaderEpoch: 3}
	for i := range n {
		b.Append(1000+int64(i), fmt.Appendf(nil, "key-%d", i), bytes.Repeat([]byte{byte('a' + i%26)}, 100), Header{Key: []byte("h"), Value: nil}, Header{Key: []byte(""), Value: []byte{}})
	}
	out, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return View(out)
}

func TestRoundTripEveryCodec(t *testing.T) {
	t.Parallel()
	for codec := None; codec <= Zstd; codec++ {
		v := sample(t, codec, 500)
		next, rest, err := Next(v)
		if err != nil || len(rest) != 0 || next.Validate() != nil {
			t.Fatalf("codec %d: Next: %v, %d left, Validate: %v", codec, err, len(rest), next.Validate())
		}
		it, err := next.Records(testBound)
		if err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		i := 0
		for it.Next() {
			r := it.Record()
			if r.Offset != int64(100+i) || r.TimestampMs != int64(1000+i) || string(r.Key) != fmt.Sprintf("key-%d", i) || len(r.Value) != 100 {
				t.Fatalf("codec %d: record %d is %+v", codec, i, r)
			}
			if len(r.Headers) != 2 || r.Headers[0].Value != nil || r.Headers[1].Value == nil || string(r.Headers[0].Key) != "h" {
				t.Fatalf("codec %d: headers are %+v", codec, r.Headers)
			}
			i++
		}
		if it.Err() != nil || i != 500 {
			t.Fatalf("codec %d: %d records, %v", codec, i, it.Err())
		}
		it.Close()
		if v.MaxTimestamp() != 1499 || v.LastOffset() != 599 || v.RecordCount() != 500 {
			t.Fatalf("codec %d: header says %d %d %d", codec, v.MaxTimestamp(), v.LastOffset(), v.RecordCount())
		}
	}
}

func TestRawSnappy(t *testing.T) {
	t.Parallel()
	plain := sample(t, None, 50)
	out := append([]byte(nil), plain[:HeaderBytes]...)
	out = append(out, snappy.Encode(nil, plain[HeaderBytes:])...)
	v := View(out)
	v[attributesAt+1] |= byte(Snappy)
	binary.BigEndian.PutUint32(v[lengthAt:], uint32(len(v)-LogOverheadBytes))
	v.sum()
	it, err := v.Records(testBound)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := 0
	for it.Next() {
		n++
	}
	if n != 50 || it.Err() != nil {
		t.Fatalf("%d records, %v", n, it.Err())
	}
}

func TestDecompressionIsBounded(t *testing.T) {
	t.Parallel()
	for codec := Gzip; codec <= Zstd; codec++ {
		v := sample(t, codec, 5000)
		if _, err := v.Records(10_000); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d: a bound of 10,000 bytes was not kept: %v", codec, err)
		}
	}
}

func TestNextRefuses(t *testing.T) {
	t.Parallel()
	good := sample(t, None, 3)
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   error
	}{
		"empty":            {func([]byte) []byte { return nil }, ErrShort},
		"half":             {func(b []byte) []byte { return b[:len(b)/2] }, ErrShort},
		"only a length":    {func(b []byte) []byte { return b[:12] }, ErrShort},
		"zeroes":           {func(b []byte) []byte { return make([]byte, len(b)) }, ErrCorrupt},
		"negative length":  {func(b []byte) []byte { b[lengthAt] = 0x80; return b }, ErrCorrupt},
		"length of header": {func(b []byte) []byte { binary.BigEndian.PutUint32(b[lengthAt:], 40); return b }, ErrCorrupt},
		"magic 1":          {func(b []byte) []byte { b[magicAt] = 1; return b }, ErrMagic},
		"magic 3":          {func(b []byte) []byte { b[magicAt] = 3; return b }, ErrMagic},
	} {
		if _, _, err := Next(c.change(append([]byte(nil), good...))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	t.Parallel()
	good := sample(t, None, 2)
	for i := crcAt; i < len(good); i++ {
		bad := append(View(nil), good...)
		bad[i] ^= 0x10
		if bad.VerifyCRC() {
			t.Fatalf("byte %d flipped and the CRC holds", i)
		}
	}
	patched := append(View(nil), good...)
	patched.SetBaseOffset(1 << 40)
	patched.SetPartitionLeaderEpoch(77)
	if patched.Validate() != nil || patched.BaseOffset() != 1<<40 || patched.PartitionLeaderEpoch() != 77 {
		t.Fatal("patching offset and epoch must leave the CRC alone")
	}
	patched.SetLogAppendTime(5)
	if patched.Validate() != nil || patched.MaxTimestamp() != 5 || patched.TimestampType() != LogAppendTime {
		t.Fatal("stamping must leave a valid batch")
	}
}

func TestHeaderViewDoesNotAllocate(t *testing.T) {
	good := sample(t, None, 20)
	if n := testing.AllocsPerRun(100, func() {
		v, _, err := Next(good)
		if err != nil || v.Validate() != nil {
			t.Fatal("must be valid")
		}
		v.SetLogAppendTime(1)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestSequenceWraps(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int32{{0, 0, 0}, {5, 4, 9}, {1<<31 - 1, 1, 0}, {1<<31 - 2, 4, 2}} {
		if got := AddSequence(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestEndTxnMarker(t *testing.T) {
	t.Parallel()
	v := View(EndTxnMarker(nil, 7, 2, true, 9, 1234))
	if v.Validate() != nil || !v.IsControl() || !v.IsTransactional() || v.ProducerID() != 7 || v.ProducerEpoch() != 2 || v.BaseSequence() != -1 {
		t.Fatalf("marker is %x", []byte(v))
	}
	it, err := v.Records(1000)
	if err != nil || !it.Next() {
		t.Fatal(err)
	}
	defer it.Close()
	kind, epoch, err := ParseEndTxnMarker(it.Record())
	if kind != ControlCommit || epoch != 9 || err != nil {
		t.Fatalf("%d %d %v", kind, epoch, err)
	}
}

// FuzzView: whatever the bytes, no panic, no unbounded memory, and what passes can be walked through.
func FuzzView(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		f.Add([]byte(sample(f, codec, 3)))
	}
	f.Add(EndTxnMarker(nil, 1, 0, false, 0, 0))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		b := append([]byte(nil), sample(f, Compression(rng.IntN(5)), 4)...)
		b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
		f.Add(b[:1+rng.IntN(len(b))])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) > 0; {
			v, after, err := Next(rest)
			if err != nil {
				return
			}
			if len(v)+len(after) != len(rest) {
				t.Fatal("bytes were lost")
			}
			rest = after
			valid := v.Validate() == nil
			it, err := v.Records(1 << 20)
			if err != nil {
				continue
			}
			last := int64(-1) // base offsets are not covered by the CRC and may be anything: compare the distance
			for it.Next() {
				r := it.Record()
				delta := r.Offset - v.BaseOffset()
				if valid && delta <= last {
					t.Fatalf("offset delta %d after %d", delta, last)
				}
				last = delta
				if len(r.Key) > len(data)+1<<20 {
					t.Fatal("a key beyond the bound")
				}
			}
			it.Close()
		}
	})
}
