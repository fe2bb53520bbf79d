package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseHeaderRefuses(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]string{
		"empty":                         "",
		"key only":                      "0003",
		"no client id":                  "0003000100000007",
		"client id cut off":             "00030001000000070005616263",
		"client id of length -2":        "000300010000000" + "7fffe",
		"negative key":                  "ffff000100000007ffff",
		"negative version":              "0003ffff00000007ffff",
		"flexible without tags":         "0003000900000007ffff",
		"tag count cut off":             "0003000900000007ffff80",
		"more tags than bytes":          "0003000900000007ffff05" + "0000",
		"2^32-1 tags":                   "0003000900000007ffffffffffff0f",
		"varint of six bytes":           "0003000900000007ffff808080808000",
		"varint above 32 bits":          "0003000900000007ffff8080808010",
		"tag without size":              "0003000900000007ffff0103",
		"tag larger than the frame":     "0003000900000007ffff01037f61",
		"newer ApiVersions, tags short": "0012006300000007ffff01",
	} {
		if _, _, err := ParseHeader(unhex(t, frame)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
}

func TestParseHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, frame string
		want        Header
		body        string
	}{
		{"v1", "00030001000000070003616263" + "ffffffff", Header{3, 1, 7, []byte("abc")}, "ffffffff"},
		{"v1, null client id", "0003000100000007ffff" + "00", Header{3, 1, 7, nil}, "00"},
		{"v1, empty client id", "00030001000000070000", Header{3, 1, 7, []byte{}}, ""},
		{"v2", "00030009000000070003616263" + "00" + "01", Header{3, 9, 7, []byte("abc")}, "01"},
		{"v2, unknown tags are skipped", "0003000900000007ffff" + "02" + "0003616263" + "8001" + "00" + "ee", Header{3, 9, 7, nil}, "ee"},
		{"correlation id -1", "00030001ffffffffffff", Header{3, 1, -1, nil}, ""},
		{"newer ApiVersions has the flexible header", "00127fff000000070001780005", Header{18, 32767, 7, []byte("x")}, "05"},
		{"unknown key", "30390000000000010000", Header{12345, 0, 1, []byte{}}, ""},
	} {
		header, body, err := ParseHeader(unhex(t, c.frame))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if header.Key != c.want.Key || header.Version != c.want.Version || header.CorrelationID != c.want.CorrelationID ||
			!bytes.Equal(header.ClientID, c.want.ClientID) || (header.ClientID == nil) != (c.want.ClientID == nil) {
			t.Errorf("%s: header %+v, want %+v", c.name, header, c.want)
		}
		if got := hex.EncodeToString(body); got != c.body {
			t.Errorf("%s: body %s, want %s", c.name, got, c.body)
		}
	}
}

// TestParseHeaderReadsFranz parses what an independent encoder of headers writes,
// in every version of every key.
func TestParseHeaderReadsFranz(t *testing.T) {
	t.Parallel()
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client"))
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		request := kmsg.RequestForKey(key)
		if request == nil {
			continue
		}
		for version := int16(0); version <= request.MaxVersion(); version++ {
			if key == 7 && version == 0 {
				continue // header v0
			}
			request.SetVersion(version)
			frame := formatter.AppendRequest(nil, request, 99)[4:]
			header, body, err := ParseHeader(frame)
			if err != nil || header.Key != key || header.Version != version || header.CorrelationID != 99 || string(header.ClientID) != "client" {
				t.Errorf("%s v%d: %+v, %v", kmsg.NameForKey(key), version, header, err)
				continue
			}
			if want := request.AppendTo(nil); !bytes.Equal(body, want) {
				t.Errorf("%s v%d: body %x, want %x", kmsg.NameForKey(key), version, body, want)
			}
		}
	}
}

// TestFlexibleVersions pins the versions that Kafka's own message files name
// (flexibleVersions in clients/src/main/resources/common/message).
func TestFlexibleVersions(t *testing.T) {
	t.Parallel()
	for key, want := range map[int16]int16{
		0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: notFlexible, 18: 3, 19: 5, 20: 4,
		21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 32: 4, 33: 2, 36: 2, 37: 2, 42: 2, 44: 1, 47: notFlexible, 60: 0, 75: 0,
	} {
		for version := range int16(20) {
			if got := RequestHeaderFlexible(key, version); got != (version >= want) {
				t.Errorf("request of key %d v%d: flexible %v", key, version, got)
			}
			if got := ResponseHeaderFlexible(key, version); got != (version >= want && key != 18) {
				t.Errorf("response of key %d v%d: flexible %v", key, version, got)
			}
		}
	}
	for _, key := range []int16{-1, kmsg.MaxKey + 1, 32767} {
		if RequestHeaderFlexible(key, 9) || ResponseHeaderFlexible(key, 9) {
			t.Errorf("key %d is flexible", key)
		}
	}
}

func TestParseHeaderAllocatesNothing(t *testing.T) {
	frame := unhex(t, "0003000900000007000361626302000361626380010001")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := ParseHeader(frame); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParseHeader: any bytes give a header and a body inside the frame, or
// ErrMalformed.
func FuzzParseHeader(f *testing.F) {
	for _, seed := range []string{"", "0003000100000007ffff", "00030009000000070003616263000100", "0012006300000007000178000505", "0003000900000007ffff0200036162638001", "00000009000000070001780000"} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		header, body, err := ParseHeader(frame)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || body != nil {
				t.Fatalf("error %v, body %x", err, body)
			}
			return
		}
		if len(body)+len(header.ClientID)+fixedHeaderBytes+2 > len(frame) || !bytes.HasSuffix(frame, body) {
			t.Fatalf("header %+v and body of %d bytes out of %d", header, len(body), len(frame))
		}
	})
}

// FuzzDecodeBody: the body of any key and version is decoded or refused; it takes
// no more memory than was estimated and never the process.
func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []struct {
		key, version int16
		body         string
	}{
		{3, 1, "7fffffff"}, {3, 9, "ffffffff0f"}, {3, 12, "0200000000000000000000000000000000000000010000"}, {10, 4, "00020261000"[:10]},
		{11, 5, "0001670000"}, {18, 3, "02610262" + "00"}, {19, 7, "0203740000"}, {22, 4, "00" + "0000ea60" + "ffffffffffffffff" + "ffff" + "00"}, {75, 0, "02027400" + "000007d0" + "ff" + "00"},
	} {
		f.Add(seed.key, seed.version, unhex(f, seed.body))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		message := kmsg.RequestForKey(key)
		if message == nil || version < 0 || version > message.MaxVersion() {
			return
		}
		message.SetVersion(version)
		if err := DecodeBody(message, body); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}
