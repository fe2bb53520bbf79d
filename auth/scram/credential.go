package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
)

// Mechanism is the name of the only mechanism of this package.
const Mechanism = "SCRAM-SHA-512"

const (
	// KeyBytes is the length of every key and of the salted password.
	KeyBytes = sha512.Size
	// MinIterations is Kafka's ScramMechanism.minIterations.
	MinIterations = 4096
	// MaxIterations is the most that Kafka's controller takes (ScramControlManager).
	MaxIterations = 16384
)

// Credential is what the server keeps of a password: it can check a proof with it
// and cannot log in with it. Immutable.
type Credential struct {
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int
}

// Derive makes the credential of a password.
func Derive(password string, salt []byte, iterations int) (*Credential, error) {
	return derive(sha512.New, password, salt, iterations)
}

func derive(hash hashFunction, password string, salt []byte, iterations int) (*Credential, error) {
	salted, err := pbkdf2.Key(hash, password, salt, iterations, hash().Size())
	if err != nil {
		return nil, fmt.Errorf("SCRAM: %w", err)
	}
	return fromSaltedPassword(hash, salted, salt, iterations), nil
}

// FromSaltedPassword makes the credential of what AlterUserScramCredentials
// carries (KIP-554).
func FromSaltedPassword(salted, salt []byte, iterations int) *Credential {
	return fromSaltedPassword(sha512.New, salted, salt, iterations)
}

func fromSaltedPassword(hash hashFunction, salted, salt []byte, iterations int) *Credential {
	return &Credential{Salt: salt, StoredKey: sum(hash, mac(hash, salted, "Client Key")), ServerKey: mac(hash, salted, "Server Key"), Iterations: iterations}
}

// Validate reports what is wrong with a credential that was written by hand.
func (c *Credential) Validate() error {
	switch {
	case len(c.Salt) == 0:
		return errors.New("salt is empty")
	case len(c.StoredKey) != KeyBytes || len(c.ServerKey) != KeyBytes:
		return fmt.Errorf("storedKey has %d and serverKey %d bytes; both have %d", len(c.StoredKey), len(c.ServerKey), KeyBytes)
	case c.Iterations < MinIterations:
		return fmt.Errorf("iterations is %d; at least %d are needed", c.Iterations, MinIterations)
	}
	return nil
}

// Matches says whether the credential is that of the password.
func (c *Credential) Matches(password string) bool {
	other, err := Derive(password, c.Salt, c.Iterations)
	return err == nil && hmac.Equal(other.StoredKey, c.StoredKey) && hmac.Equal(other.ServerKey, c.ServerKey)
}

// hashFunction is SHA-512 but in the tests, since the RFCs' examples are of others.
type hashFunction = func() hash.Hash

func mac(hash hashFunction, key []byte, text string) []byte {
	h := hmac.New(hash, key)
	h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

func sum(hash hashFunction, b []byte) []byte {
	h := hash()
	h.Write(b) // never fails
	return h.Sum(nil)
}
