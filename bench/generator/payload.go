package generator

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// payload makes values. One producer owns one.
type payload struct {
	source []byte // values are cut from it
	at     int
	size   int
}

const sourceBytes = 4 << 20

func newPayload(p *Plan, producer int) (*payload, error) {
	random := rand.New(rand.NewPCG(p.Seed, uint64(producer)))
	out := &payload{size: p.ValueBytes}
	switch {
	case p.Payload == "random":
		out.source = make([]byte, sourceBytes+p.ValueBytes)
		for i := 0; i+8 <= len(out.source); i += 8 {
			binary.LittleEndian.PutUint64(out.source[i:], random.Uint64())
		}
	case p.Payload == "compressible":
		// What services log: the same names with other numbers.
		var text strings.Builder
		for text.Len() < sourceBytes+p.ValueBytes {
			fmt.Fprintf(&text, `{"time":"2026-01-02T03:04:%02d.%06dZ","level":"info","service":"checkout-%d","customer":%d,"amountCents":%d,"accepted":%t}`,
				random.IntN(60), random.IntN(1e6), random.IntN(20), random.IntN(1e5), random.IntN(1e5), random.IntN(4) > 0)
		}
		out.source = []byte(text.String())
	default:
		path := strings.TrimPrefix(p.Payload, "file:")
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--payload: %w", err)
		}
		if len(text) == 0 {
			return nil, fmt.Errorf("--payload: %s is empty", path)
		}
		for len(text) < 2*p.ValueBytes {
			text = append(text, text...)
		}
		out.source = text
	}
	return out, nil
}

// stampBytes is how much of a value says when it was to be sent: the time in
// nanoseconds since 1970. Values that are shorter carry none, and there is no
// end-to-end latency then.
const stampBytes = 8

// fill writes the next value.
func (p *payload) fill(value []byte, intended time.Time) {
	if p.at+len(value) > len(p.source) {
		p.at = 0
	}
	copy(value, p.source[p.at:])
	p.at += len(value)
	if len(value) >= stampBytes {
		binary.BigEndian.PutUint64(value, uint64(intended.UnixNano()))
	}
}

func stampOf(value []byte) (time.Time, bool) {
	if len(value) < stampBytes {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value))), true
}
