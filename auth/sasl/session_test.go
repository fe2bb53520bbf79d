package sasl

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	client "github.com/twmb/franz-go/pkg/sasl/scram"

	"kaas/auth/scram"
)

type users map[string]*scram.Credential

func (u users) Credential(name string) *scram.Credential { return u[name] }

func mechanisms(t testing.TB, maxReauth time.Duration) *Mechanisms {
	t.Helper()
	directory := users{}
	for _, name := range []string{"alice", "bob"} {
		credential, err := scram.Derive("pw", []byte("salt of "+name), scram.MinIterations)
		if err != nil {
			t.Fatal(err)
		}
		directory[name] = credential
	}
	return &Mechanisms{Enabled: []string{scram.Mechanism}, Directory: directory, Secret: scram.NewSecret(), MaxReauth: maxReauth}
}

// login runs franz-go's client against a session whose handshake is done.
func login(t testing.TB, s *Session, user, password string, now time.Time) error {
	t.Helper()
	session, token, err := client.Auth{User: user, Pass: password}.AsSha512Mechanism().Authenticate(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for {
		answer, done, err := s.Authenticate(token, now)
		if err != nil {
			return err
		}
		over, next, err := session.Challenge(answer)
		if err != nil {
			t.Fatal(err)
		}
		if over != done {
			t.Fatalf("client says done: %v, broker: %v", over, done)
		}
		if done {
			return nil
		}
		token = next
	}
}

func TestOrderOfRequests(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	check := func(s *Session, allowed ...int16) {
		t.Helper()
		for key := int16(0); key < 100; key++ {
			want := false
			for _, a := range allowed {
				want = want || a == key
			}
			if err := s.Check(key, now); (err == nil) != want {
				t.Errorf("key %d: %v", key, err)
			}
		}
	}
	s := NewSession(mechanisms(t, 0))
	check(s, 17, 18)
	if s.MayAuthenticate() || !s.Pending() || s.Raw() {
		t.Error("a session begins wrongly")
	}
	if s.Handshake(1, scram.Mechanism, now) != Chosen {
		t.Fatal("handshake")
	}
	check(s, 36)
	if s.Handshake(1, scram.Mechanism, now) != IllegalState {
		t.Error("a second handshake is taken")
	}
	if err := login(t, s, "alice", "pw", now); err != nil || s.Principal() != "User:alice" || s.Pending() {
		t.Fatal(err, s.Principal())
	}
	for key := range int16(100) {
		if err := s.Check(key, now.Add(time.Hour)); err != nil {
			t.Errorf("key %d after the login: %v", key, err)
		}
	}
	if s.Handshake(1, scram.Mechanism, now.Add(time.Hour)) != IllegalState || s.MayAuthenticate() {
		t.Error("it authenticates again although connections.max.reauth.ms is not set")
	}
	for _, wrong := range [][2]string{{"alice", "wp"}, {"nobody", "pw"}} {
		s = NewSession(mechanisms(t, 0))
		s.Handshake(1, scram.Mechanism, now)
		if err := login(t, s, wrong[0], wrong[1], now); !errors.Is(err, scram.ErrFailed) || !s.Failed() || s.Principal() != "" {
			t.Error(wrong, err)
		}
		check(s)
	}
	s = NewSession(mechanisms(t, 0))
	if s.Handshake(1, "PLAIN", now) != NotEnabled || !s.Failed() {
		t.Error("PLAIN is taken")
	}
	s = NewSession(mechanisms(t, 0))
	if s.Handshake(0, scram.Mechanism, now); !s.Raw() {
		t.Error("after a handshake v0 tokens are frames")
	}
	if err := login(t, s, "alice", "pw", now); err != nil || s.Raw() {
		t.Error(err)
	}
	var none *Session
	if none.Check(0, now) != nil || none.Raw() || none.Failed() || none.Pending() || none.MayAuthenticate() || none.Handshake(1, scram.Mechanism, now) != IllegalState || none.Enabled() != nil {
		t.Error("a connection without authentication is asked for it")
	}
}

func TestReauthentication(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := NewSession(mechanisms(t, 10*time.Second))
	s.Handshake(1, scram.Mechanism, now)
	if err := login(t, s, "alice", "pw", now); err != nil || s.LifetimeMs() != 10_000 {
		t.Fatal(err)
	}
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	if s.Check(0, at(10)) != nil || s.Check(0, at(11)) == nil || s.Check(36, at(11)) == nil {
		t.Error("the session ends at the wrong time")
	}
	if s.Check(17, at(11)) != nil || s.Handshake(1, scram.Mechanism, at(11)) != Chosen || s.Check(0, at(11)) == nil {
		t.Fatal("it cannot authenticate again")
	}
	if err := login(t, s, "alice", "pw", at(11)); err != nil || s.Check(0, at(21)) != nil {
		t.Fatal(err)
	}
	if s.Handshake(1, scram.Mechanism, at(11).Add(900*time.Millisecond)) != IllegalState {
		t.Error("it authenticates twice in a second")
	}
	if s.Handshake(1, scram.Mechanism, at(13)) != Chosen {
		t.Fatal("handshake")
	}
	if err := login(t, s, "bob", "pw", at(13)); !errors.Is(err, scram.ErrFailed) || !s.Failed() {
		t.Error("it became somebody else:", err)
	}
}

// FuzzSession: whatever a connection sends in whatever order, it is not in without
// a password. Script: a byte for what to do (even: handshake, odd: token), two for
// the length of what to do it with.
func FuzzSession(f *testing.F) {
	step := func(what byte, text string) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{what}, uint16(len(text))), text...)
	}
	f.Add(append(step(2, scram.Mechanism), append(step(1, "n,,n=alice,r=x"), step(1, "c=biws,r=x,p=AAAA")...)...))
	f.Add(append(step(0, scram.Mechanism), step(1, "n,a=alice,n=alice,r=x")...))
	f.Add(append(step(2, "PLAIN"), step(1, "\x00alice\x00pw")...))
	f.Add(append(step(1, ""), step(2, "")...))
	m := mechanisms(f, time.Second)
	f.Fuzz(func(t *testing.T, script []byte) {
		s, now := NewSession(m), time.Unix(1000, 0)
		for len(script) >= 3 {
			what, size := script[0], int(binary.BigEndian.Uint16(script[1:]))
			argument := script[3:min(len(script), 3+size)]
			script = script[3+len(argument):]
			now = now.Add(time.Duration(what) * 10 * time.Millisecond)
			if what%2 == 0 && s.Check(HandshakeKey, now) == nil {
				s.Handshake(int16(what>>1&1), string(argument), now)
			} else if what%2 == 1 && s.MayAuthenticate() {
				if _, done, _ := s.Authenticate(argument, now); done {
					t.Fatal("logged in")
				}
			}
			if s.Check(0, now) == nil || !s.Pending() {
				t.Fatal("a request is let in")
			}
		}
	})
}
