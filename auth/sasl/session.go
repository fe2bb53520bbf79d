package sasl

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"kaas/auth"
	"kaas/auth/scram"
)

// API keys that a connection may send before it is authenticated.
const (
	HandshakeKey    = 17
	AuthenticateKey = 36
	apiVersionsKey  = 18
)

// minReauthentication is KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS.
const minReauthentication = time.Second

// Mechanisms is what all sessions share. Immutable.
type Mechanisms struct {
	// Enabled are sasl.enabled.mechanisms.
	Enabled   []string
	Directory scram.Directory
	Secret    *scram.Secret
	// MaxReauth is connections.max.reauth.ms; 0: for ever.
	MaxReauth time.Duration
}

type phase uint8

const (
	beforeHandshake phase = iota
	exchanging            // the handshake chose a mechanism
	authenticated
	failed
)

// Session is one connection's authentication. The zero value is of a connection
// that must authenticate; a nil *Session is of one that need not.
type Session struct {
	mechanisms *Mechanisms
	phase      phase
	// raw: the handshake was v0, tokens travel as frames without a header.
	raw        bool
	exchange   *scram.Exchange
	principal  string
	expires    time.Time // zero: never
	restarted  time.Time // when it last began to authenticate again
	reentering bool      // it was authenticated before and authenticates again
}

// NewSession begins.
func NewSession(m *Mechanisms) *Session { return &Session{mechanisms: m} }

// Errors of what a connection may not do. The connection closes.
var (
	errUnexpected = errors.New("unexpected request during SASL authentication")
	errExpired    = errors.New("the connection did not authenticate again in time (connections.max.reauth.ms)")
	errEnded      = errors.New("authentication has failed")
)

// Check says whether a request may be handled now.
func (s *Session) Check(key int16, now time.Time) error {
	if s == nil {
		return nil
	}
	switch s.phase {
	case authenticated:
		if !s.expires.IsZero() && now.After(s.expires) && !s.mayRestart(key, now) {
			return errExpired
		}
		return nil
	case beforeHandshake:
		if key == apiVersionsKey || key == HandshakeKey {
			return nil
		}
	case exchanging:
		if key == AuthenticateKey {
			return nil
		}
	case failed:
		return errEnded
	}
	return fmt.Errorf("%w: API key %d", errUnexpected, key)
}

// Raw says whether the next frame is a token without a request header.
func (s *Session) Raw() bool { return s != nil && s.raw && s.phase == exchanging }

// Failed says whether everything that still comes is to be thrown away.
func (s *Session) Failed() bool { return s != nil && s.phase == failed }

// Pending says whether the connection has not authenticated yet.
func (s *Session) Pending() bool { return s != nil && s.principal == "" }

func (s *Session) mayRestart(key int16, now time.Time) bool {
	return key == HandshakeKey && !s.expires.IsZero() && now.Sub(s.restarted) >= minReauthentication
}

// HandshakeResult is the answer to a SaslHandshake.
type HandshakeResult uint8

// What a handshake may come to.
const (
	Chosen       HandshakeResult = iota
	NotEnabled                   // UNSUPPORTED_SASL_MECHANISM, and the connection closes
	IllegalState                 // ILLEGAL_SASL_STATE: there is nothing to authenticate
)

// Enabled lists the mechanisms; nil for a connection that need not authenticate.
func (s *Session) Enabled() []string {
	if s == nil {
		return nil
	}
	return s.mechanisms.Enabled
}

// Handshake chooses a mechanism. An authenticated connection begins again when
// connections.max.reauth.ms is set, at most once a second.
func (s *Session) Handshake(version int16, mechanism string, now time.Time) HandshakeResult {
	if s == nil || s.phase == authenticated && !s.mayRestart(HandshakeKey, now) || s.phase == exchanging {
		return IllegalState
	}
	if s.phase == authenticated {
		s.reentering, s.restarted = true, now
	}
	if !slices.Contains(s.mechanisms.Enabled, mechanism) {
		s.phase = failed
		return NotEnabled
	}
	s.phase, s.raw = exchanging, version == 0
	s.exchange = scram.NewExchange(s.mechanisms.Directory, s.mechanisms.Secret)
	return Chosen
}

// MayAuthenticate says whether a SaslAuthenticate is expected; if not, Kafka
// answers ILLEGAL_SASL_STATE.
func (s *Session) MayAuthenticate() bool { return s != nil && s.phase == exchanging }

// Authenticate takes a token. done: the connection is authenticated as Principal.
// An error means that it never will be: answer it and close.
func (s *Session) Authenticate(token []byte, now time.Time) (answer []byte, done bool, err error) {
	answer, err = s.exchange.Step(token)
	if err != nil {
		s.phase, s.exchange = failed, nil
		return nil, false, err
	}
	user := s.exchange.User()
	if user == "" {
		return answer, false, nil
	}
	principal := auth.UserPrefix + user
	if s.reentering && principal != s.principal {
		s.phase, s.exchange = failed, nil
		return nil, false, fmt.Errorf("%w: it authenticates again as %s and was %s", scram.ErrFailed, principal, s.principal)
	}
	s.phase, s.exchange, s.principal, s.reentering = authenticated, nil, principal, false
	if s.mechanisms.MaxReauth > 0 {
		s.expires = now.Add(s.mechanisms.MaxReauth)
	}
	return answer, true, nil
}

// Principal is "" before the first authentication.
func (s *Session) Principal() string { return s.principal }

// LifetimeMs is what SaslAuthenticate v1 tells; 0: for ever.
func (s *Session) LifetimeMs() int64 { return s.mechanisms.MaxReauth.Milliseconds() }

// FailureMessage is all that a client learns.
func FailureMessage() string {
	return "Authentication failed during authentication due to invalid credentials with SASL mechanism " + scram.Mechanism
}
