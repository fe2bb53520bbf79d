package broker

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	client "github.com/twmb/franz-go/pkg/sasl/scram"

	"kaas/auth"
	"kaas/auth/sasl"
	"kaas/auth/scram"
	"kaas/meta/config"
)

// scramUsers has alice with the password pw.
type scramUsers struct{ alice *scram.Credential }

func (u scramUsers) Credential(name string) *scram.Credential {
	if name == "alice" {
		return u.alice
	}
	return nil
}

// whoAsked is an authorizer that allows everything and remembers for whom.
type whoAsked struct {
	mu         sync.Mutex
	principals map[string]bool // mu
}

func (w *whoAsked) Authorize(principal, _ string, _ auth.Operation, _ auth.ResourceType, _ string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.principals[principal] = true
	return true
}

// startSaslBroker has one listener, and that one authenticates.
func startSaslBroker(t *testing.T, authorizer auth.Authorizer) *testBroker {
	t.Helper()
	credential, err := scram.Derive("pw", []byte("salt"), scram.MinIterations)
	if err != nil {
		t.Fatal(err)
	}
	return startBroker(t, func(cfg *config.Broker, o *Options) {
		cfg.Dev = true
		cfg.Listeners = []config.Listener{{Name: "PLAINTEXT", Protocol: "SASL_PLAINTEXT"}}
		cfg.ConnectionFailedAuthenticationDelayMs = 1
		o.Authorizer = authorizer
		o.Sasl = &sasl.Mechanisms{Enabled: []string{scram.Mechanism}, Directory: scramUsers{credential}, Secret: scram.NewSecret()}
	})
}

func (c *rawConn) handshake(version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	c.t.Helper()
	request := kmsg.NewPtrSASLHandshakeRequest()
	request.Mechanism, request.Version = mechanism, version
	c.send(request, 1)
	return c.receive(request, 1).(*kmsg.SASLHandshakeResponse)
}

// token sends a token, in a request or as a frame of its own (version -1).
func (c *rawConn) token(version int16, token []byte) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	if version < 0 {
		c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
		answer, err := c.frame()
		if err != nil {
			return nil
		}
		return &kmsg.SASLAuthenticateResponse{SASLAuthBytes: answer}
	}
	request := kmsg.NewPtrSASLAuthenticateRequest()
	request.SASLAuthBytes, request.Version = token, version
	c.send(request, 2)
	return c.receive(request, 2).(*kmsg.SASLAuthenticateResponse)
}

// login returns the last answer; nil when the connection closed.
func (c *rawConn) login(version int16, user, password string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	session, token, err := client.Auth{User: user, Pass: password}.AsSha512Mechanism().Authenticate(context.Background(), "")
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		answer := c.token(version, token)
		if answer == nil || answer.ErrorCode != 0 {
			return answer
		}
		done, next, err := session.Challenge(answer.SASLAuthBytes)
		if err != nil {
			c.t.Fatal(err)
		}
		if done {
			return answer
		}
		token = next
	}
}

func (c *rawConn) isClosed() bool {
	_, err := c.frame()
	return err == io.EOF || isReset(err)
}

func TestLogins(t *testing.T) {
	t.Parallel()
	asked := &whoAsked{principals: map[string]bool{}}
	tb := startSaslBroker(t, asked)
	for version := int16(-1); version <= 2; version++ {
		c := tb.dial()
		c.send(apiVersions(3), 7)
		c.receive(apiVersions(3), 7)
		if got := c.handshake(min(1, version+1), scram.Mechanism); got.ErrorCode != 0 || len(got.SupportedMechanisms) != 1 {
			t.Fatalf("%+v", got)
		}
		if got := c.login(version, "alice", "pw"); got == nil || got.ErrorCode != 0 || got.SessionLifetimeMillis != 0 {
			t.Fatalf("v%d: %+v", version, got)
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version = 12
		c.send(metadata, 3)
		c.receive(metadata, 3)
		if got := c.handshake(1, scram.Mechanism); got.ErrorCode != kerr.IllegalSaslState.Code {
			t.Errorf("a handshake after the login: %+v", got)
		}
		if got := c.token(2, nil); got.ErrorCode != kerr.IllegalSaslState.Code {
			t.Errorf("a token after the login: %+v", got)
		}
	}
	fetchTopic := tb.dial()
	fetchTopic.handshake(1, scram.Mechanism)
	fetchTopic.login(2, "alice", "pw")
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Version, offsets.Topics = 7, []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{}}}}
	fetchTopic.send(offsets, 4)
	fetchTopic.receive(offsets, 4)
	asked.mu.Lock()
	defer asked.mu.Unlock()
	if len(asked.principals) != 1 || !asked.principals["User:alice"] {
		t.Errorf("asked for %v", asked.principals)
	}
}

func TestFailedLoginsAnswerAndClose(t *testing.T) {
	t.Parallel()
	tb := startSaslBroker(t, nil)
	var texts []string
	for version := int16(0); version <= 2; version++ {
		for _, wrong := range [][2]string{{"alice", "wp"}, {"nobody", "pw"}} {
			c := tb.dial()
			c.handshake(1, scram.Mechanism)
			got := c.login(version, wrong[0], wrong[1])
			if got.ErrorCode != kerr.SaslAuthenticationFailed.Code || got.ErrorMessage == nil || len(got.SASLAuthBytes) != 0 || !c.isClosed() {
				t.Errorf("v%d %v: %+v", version, wrong, got)
			}
			texts = append(texts, *got.ErrorMessage)
		}
	}
	if strings.Join(texts, "") != strings.Repeat(texts[0], len(texts)) {
		t.Errorf("the texts differ: %q", texts)
	}
	c := tb.dial()
	c.handshake(0, scram.Mechanism)
	if got := c.login(-1, "alice", "wp"); got != nil {
		t.Errorf("%+v", got)
	}
	c = tb.dial()
	if got := c.handshake(1, "PLAIN"); got.ErrorCode != kerr.UnsupportedSaslMechanism.Code || len(got.SupportedMechanisms) != 1 || got.SupportedMechanisms[0] != scram.Mechanism || !c.isClosed() {
		t.Errorf("%+v", got)
	}
}

// TestNothingBeforeTheLogin: any other request closes the connection unanswered,
// and so does a frame that is larger than a login needs.
func TestNothingBeforeTheLogin(t *testing.T) {
	t.Parallel()
	tb := startSaslBroker(t, auth.AllowAll{})
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		api := tb.registry.Load().Lookup(key)
		if api == nil || key == 17 || key == 18 {
			continue
		}
		request := kmsg.RequestForKey(key)
		request.SetVersion(api.MaxVersion)
		for _, afterHandshake := range []bool{false, true} {
			if afterHandshake && key == 36 {
				continue
			}
			c := tb.dial()
			if afterHandshake {
				c.handshake(1, scram.Mechanism)
			}
			if c.send(request, 5); !c.isClosed() {
				t.Errorf("%s is answered before the login", api.Name)
			}
		}
	}
	for _, size := range []uint32{512<<10 + 1, 100 << 20} {
		c := tb.dial()
		if c.write(binary.BigEndian.AppendUint32(nil, size)); !c.isClosed() {
			t.Errorf("a frame of %d bytes is waited for", size)
		}
	}
	c := tb.dial()
	c.handshake(1, scram.Mechanism)
	c.login(2, "alice", "pw")
	c.write(append(binary.BigEndian.AppendUint32(nil, 600<<10), 0, 3)) // now it may begin
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.frame(); err == nil || err == io.EOF || isReset(err) {
		t.Errorf("a large request after the login: %v", err)
	}
}

func TestNoSaslOnAPlaintextListener(t *testing.T) {
	t.Parallel()
	c := startBroker(t, func(cfg *config.Broker, _ *Options) { cfg.Dev = true }).dial()
	for version := int16(0); version <= 1; version++ {
		if got := c.handshake(version, scram.Mechanism); got.ErrorCode != kerr.IllegalSaslState.Code {
			t.Errorf("%+v", got)
		}
	}
	for version := int16(0); version <= 2; version++ {
		if got := c.token(version, []byte("n,,n=alice,r=x")); got.ErrorCode != kerr.IllegalSaslState.Code {
			t.Errorf("%+v", got)
		}
	}
}
