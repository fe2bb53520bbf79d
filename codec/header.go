package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request headers as Kafka's RequestHeader.json has them. Version 0 (no client
// id) belonged to ControlledShutdown v0 only, which no broker of Kafka 4 serves.
//
//	v1  apiKey i16 | apiVersion i16 | correlationId i32 | clientId nullable string (i16 length)
//	v2  v1 | tagged fields
//
// In v2 the client id keeps its i16 length: a broker must be able to read the
// header of an ApiVersions request that is newer than itself (KIP-482).
const fixedHeaderBytes = 8

// apiVersionsKey is special twice: its response header is always v0 (KIP-511),
// and a version that is not known is answered instead of refused.
const apiVersionsKey = 18

// ErrMalformed is wrapped by every error about bytes that are no Kafka request.
var ErrMalformed = errors.New("malformed request")

// Header is a parsed request header.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	// ClientID is a view into the frame, valid until the request is finished;
	// nil is null.
	ClientID []byte
}

// firstFlexible[key] is the first version of key whose request header is v2,
// notFlexible when there is none. Written once at package initialisation.
var firstFlexible = flexibleVersions(func(key int16) versioned {
	if m := kmsg.RequestForKey(key); m != nil {
		return m
	}
	return nil
})

// firstFlexibleResponse is the same for response headers (v0 against v1).
var firstFlexibleResponse = flexibleVersions(func(key int16) versioned {
	if m := kmsg.ResponseForKey(key); m != nil {
		return m
	}
	return nil
})

const notFlexible = int16(0x7fff)

type versioned interface {
	MaxVersion() int16
	SetVersion(int16)
	IsFlexible() bool
}

func flexibleVersions(message func(key int16) versioned) [kmsg.MaxKey + 1]int16 {
	var first [kmsg.MaxKey + 1]int16
	for key := range first {
		first[key] = notFlexible
		m := message(int16(key))
		if m == nil {
			continue
		}
		for version := int16(0); version <= m.MaxVersion(); version++ {
			m.SetVersion(version)
			if m.IsFlexible() {
				first[key] = version
				break
			}
		}
	}
	return first
}

// RequestHeaderFlexible says whether a request of this key and version has
// header v2. Keys that do not exist have v1.
func RequestHeaderFlexible(key, version int16) bool {
	return key >= 0 && int(key) < len(firstFlexible) && version >= firstFlexible[key]
}

// ResponseHeaderFlexible says whether the response header has tagged fields
// (v1) after the correlation id. ApiVersions: never, in no version, since the
// client cannot know yet which versions the broker speaks (KIP-511).
func ResponseHeaderFlexible(key, version int16) bool {
	if key == apiVersionsKey {
		return false
	}
	return key >= 0 && int(key) < len(firstFlexibleResponse) && version >= firstFlexibleResponse[key]
}

// ParseHeader splits a frame (without its length) into header and body. Both
// are views into the frame. On an error the returned header holds what could
// be read, for the log line.
func ParseHeader(frame []byte) (header Header, body []byte, err error) {
	if len(frame) < fixedHeaderBytes+2 {
		return header, nil, fmt.Errorf("%w: %d bytes are too few for a request header", ErrMalformed, len(frame))
	}
	header.Key = int16(binary.BigEndian.Uint16(frame))
	header.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	header.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	if header.Key < 0 || header.Version < 0 {
		return header, nil, fmt.Errorf("%w: API key %d version %d", ErrMalformed, header.Key, header.Version)
	}
	clientIDBytes := int(int16(binary.BigEndian.Uint16(frame[fixedHeaderBytes:])))
	rest := frame[fixedHeaderBytes+2:]
	switch {
	case clientIDBytes < -1 || clientIDBytes > len(rest):
		return header, nil, fmt.Errorf("%w: client id of %d bytes in a request of %d", ErrMalformed, clientIDBytes, len(frame))
	case clientIDBytes >= 0:
		header.ClientID = rest[:clientIDBytes:clientIDBytes]
		rest = rest[clientIDBytes:]
	}
	if RequestHeaderFlexible(header.Key, header.Version) {
		if rest, err = skipTaggedFields(rest); err != nil {
			return header, nil, fmt.Errorf("request header: %w", err)
		}
	}
	return header, rest, nil
}

// skipTaggedFields walks over a tagged field section (KIP-482): count, then per
// field its tag and its size as unsigned varints and that many bytes. The broker
// knows no tagged request header field, and unknown ones are ignored.
func skipTaggedFields(b []byte) (rest []byte, err error) {
	count, b, ok := uvarint(b)
	if !ok {
		return nil, fmt.Errorf("%w: cut off in the count of tagged fields", ErrMalformed)
	}
	// Two bytes is the least that a field takes, so the loop is bounded by the frame.
	if int64(count)*2 > int64(len(b)) {
		return nil, fmt.Errorf("%w: %d tagged fields in %d bytes", ErrMalformed, count, len(b))
	}
	for range count {
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			return nil, fmt.Errorf("%w: cut off in a tagged field", ErrMalformed)
		}
		if size, b, ok = uvarint(b); !ok || int64(size) > int64(len(b)) {
			return nil, fmt.Errorf("%w: cut off in a tagged field", ErrMalformed)
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads Kafka's unsigned varint: at most five bytes, 32 bits.
func uvarint(b []byte) (value uint32, rest []byte, ok bool) {
	for i := 0; i < 5 && i < len(b); i++ {
		c := b[i]
		if i == 4 && c > 0x0f {
			return 0, b, false
		}
		value |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return value, b[i+1:], true
		}
	}
	return 0, b, false
}
