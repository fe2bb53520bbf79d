package meta

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// UUID is a topic id (KIP-516). Its text is Kafka's: base64url without padding,
// 22 characters (org.apache.kafka.common.Uuid).
type UUID [16]byte

// ZeroUUID stands for "no id" on the wire.
var ZeroUUID UUID

// NewUUID mints a random version 4 id. As Kafka's Uuid.randomUuid it never
// returns a reserved id (0 and 1) nor one whose text begins with a dash, which
// command lines would read as an option.
func NewUUID() UUID {
	for {
		var id UUID
		if _, err := rand.Read(id[:]); err != nil {
			panic(fmt.Sprintf("meta: the system's random source failed: %v", err))
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// ParseUUID reads Kafka's text form.
func ParseUUID(text string) (UUID, error) {
	var id UUID
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return ZeroUUID, fmt.Errorf("topic id %q: want 22 characters of base64url", text)
	}
	copy(id[:], raw)
	return id, nil
}

// String is Kafka's text form.
func (id UUID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero says that there is no id.
func (id UUID) IsZero() bool { return id == ZeroUUID }

// MarshalText writes the text form into resources.
func (id UUID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the text form; empty text is the zero id.
func (id *UUID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = ZeroUUID
		return nil
	}
	parsed, err := ParseUUID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
