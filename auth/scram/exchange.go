package scram

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrFailed is the one error of an exchange. Its text is for the log of the
// broker and never for the peer, which must not learn whether the name or the
// password was wrong.
var ErrFailed = errors.New("SCRAM authentication failed")

// Directory finds credentials.
type Directory interface {
	// Credential returns nil for an unknown user.
	Credential(user string) *Credential
}

// Secret makes the salts of users that do not exist: the same one each time that
// a name is tried, so that it looks like any other.
type Secret [32]byte

// NewSecret is random.
func NewSecret() *Secret {
	s := new(Secret)
	rand.Read(s[:]) // crypto/rand never fails
	return s
}

// Exchange is one authentication, from client-first to server-final.
type Exchange struct {
	directory Directory
	secret    *Secret
	nonce     func() string
	hash      hashFunction

	state      state
	user       string
	known      bool
	credential *Credential

	gs2Header       string // as the client sent it
	clientFirstBare string
	serverFirst     string
	fullNonce       string
}

type state uint8

const (
	expectFirst state = iota
	expectFinal
	finished
)

// NewExchange begins an authentication.
func NewExchange(directory Directory, secret *Secret) *Exchange {
	return &Exchange{directory: directory, secret: secret, nonce: newNonce, hash: sha512.New}
}

func newNonce() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawStdEncoding.EncodeToString(b[:])
}

// Step takes a message of the client and returns the answer. An error wraps
// ErrFailed and ends the exchange.
func (e *Exchange) Step(message []byte) (answer []byte, err error) {
	if e.state == finished {
		return nil, fmt.Errorf("%w: a message after the end", ErrFailed)
	}
	handle, next := e.first, expectFinal
	if e.state == expectFinal {
		handle, next = e.final, finished
	}
	text := string(message)
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		err = fmt.Errorf("%w: a message is no UTF-8 text", ErrFailed)
	} else {
		answer, err = handle(text)
	}
	if err != nil { // of whatever kind: nobody has authenticated
		e.state, e.user = finished, ""
		return nil, err
	}
	e.state = next
	return answer, nil
}

// User is who has authenticated: "" until Step answered the last message.
func (e *Exchange) User() string {
	if e.state != finished {
		return ""
	}
	return e.user
}

// first: gs2-header [reserved-mext ","] username "," nonce ["," extensions].
func (e *Exchange) first(text string) ([]byte, error) {
	binding, rest, _ := strings.Cut(text, ",")
	authorizationID, bare, ok := strings.Cut(rest, ",")
	if !ok || binding != "n" && binding != "y" {
		// "y" is a client that could bind to a TLS channel and knows that we can't.
		return nil, fmt.Errorf("%w: client-first without a usable gs2 header", ErrFailed)
	}
	e.gs2Header, e.clientFirstBare = text[:len(text)-len(bare)], bare
	attributes := strings.Split(bare, ",")
	if len(attributes) < 2 {
		return nil, fmt.Errorf("%w: client-first without a name and a nonce", ErrFailed)
	}
	// A mandatory extension (m=) is none that we know, so it fails here too.
	encoded, hasName := strings.CutPrefix(attributes[0], "n=")
	nonce, hasNonce := strings.CutPrefix(attributes[1], "r=")
	user, wellFormed := decodeName(encoded)
	if !hasName || !hasNonce || !wellFormed || !printable(nonce) {
		return nil, fmt.Errorf("%w: client-first without a well-formed name and nonce", ErrFailed)
	}
	if authorizationID != "" {
		as, isAttribute := strings.CutPrefix(authorizationID, "a=")
		if name, wellFormed := decodeName(as); !isAttribute || !wellFormed || name != user {
			return nil, fmt.Errorf("%w: %q asks to act as somebody else", ErrFailed, user)
		}
	}
	byToken := false
	for _, extension := range attributes[2:] {
		name, value, ok := strings.Cut(extension, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%w: client-first with a malformed extension", ErrFailed)
		}
		// KIP-48: the name is that of a delegation token; there are none.
		byToken = byToken || name == "tokenauth" && strings.EqualFold(value, "true")
	}
	e.user = user
	e.credential, e.known = e.lookUp(user, byToken)
	e.fullNonce = nonce + e.nonce()
	e.serverFirst = "r=" + e.fullNonce + ",s=" + base64.StdEncoding.EncodeToString(e.credential.Salt) + ",i=" + strconv.Itoa(e.credential.Iterations)
	return []byte(e.serverFirst), nil
}

// lookUp answers a user that does not exist like one that does: with a salt that
// stays the same, and keys that no proof fits.
func (e *Exchange) lookUp(user string, byToken bool) (credential *Credential, known bool) {
	found := e.directory.Credential(user)
	salt := mac(e.hash, e.secret[:], user) // also for known ones: the same work
	if found == nil || byToken {
		return &Credential{Salt: salt[:16], StoredKey: make([]byte, KeyBytes), ServerKey: make([]byte, KeyBytes), Iterations: MinIterations}, false
	}
	return found, true
}

// final: channel-binding "," nonce ["," extensions] "," proof.
func (e *Exchange) final(text string) ([]byte, error) {
	at := strings.LastIndex(text, ",p=")
	if at < 0 {
		return nil, fmt.Errorf("%w: client-final without a proof", ErrFailed)
	}
	withoutProof := text[:at]
	proof, err := base64.StdEncoding.DecodeString(text[at+len(",p="):])
	attributes := strings.Split(withoutProof, ",")
	if err != nil || len(proof) != len(e.credential.StoredKey) || len(attributes) < 2 {
		return nil, fmt.Errorf("%w: client-final without a well-formed proof", ErrFailed)
	}
	binding, isBinding := strings.CutPrefix(attributes[0], "c=")
	header, err := base64.StdEncoding.DecodeString(binding)
	if !isBinding || err != nil || string(header) != e.gs2Header {
		return nil, fmt.Errorf("%w: client-final repeats another gs2 header", ErrFailed)
	}
	if attributes[1] != "r="+e.fullNonce {
		return nil, fmt.Errorf("%w: client-final with another nonce", ErrFailed)
	}
	authMessage := e.clientFirstBare + "," + e.serverFirst + "," + withoutProof
	clientKey := mac(e.hash, e.credential.StoredKey, authMessage)
	subtle.XORBytes(clientKey, clientKey, proof)
	stored := sum(e.hash, clientKey)
	signature := mac(e.hash, e.credential.ServerKey, authMessage)
	// Both are computed before either is looked at: the time says nothing.
	if fits := hmac.Equal(stored, e.credential.StoredKey); !fits || !e.known {
		return nil, fmt.Errorf("%w: user %q", ErrFailed, e.user)
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(signature)), nil
}

// decodeName undoes RFC 5802's escapes of a user name, =2C and =3D. Any other "="
// is malformed.
func decodeName(encoded string) (name string, ok bool) {
	if encoded == "" {
		return "", false
	}
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(encoded, "=")
		b.WriteString(plain)
		if !found {
			return b.String(), true
		}
		switch {
		case strings.HasPrefix(rest, "2C"):
			b.WriteByte(',')
		case strings.HasPrefix(rest, "3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		encoded = rest[2:]
	}
}

// printable is RFC 5802's rule for a nonce: %x21-2B / %x2D-7E, not empty.
func printable(nonce string) bool {
	for i := range len(nonce) {
		if c := nonce[i]; c < 0x21 || c > 0x7e || c == ',' {
			return false
		}
	}
	return nonce != ""
}
