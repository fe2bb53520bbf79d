package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth/sasl"
	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/netio"
)

// SaslAuthenticate (key 36), v0 to v2: one token of the mechanism and its answer.
//
//	v1  how long the connection stays authenticated (KIP-368)
//	v2  flexible
//
// A failure is 58 with one text whatever was wrong, after
// connection.failed.authentication.delay.ms, and the connection closes. When
// nothing is to be authenticated: 34.
func (b *Broker) saslAuthenticateAPI() codec.API {
	return codec.API{Key: sasl.AuthenticateKey, Name: "SaslAuthenticate", MinVersion: 0, MaxVersion: 2, Class: codec.Inline,
		EstimateBytes: codec.SmallEstimate, Handle: b.saslAuthenticate, Note: "re-authentication by connections.max.reauth.ms"}
}

func (b *Broker) saslAuthenticate(r *codec.Request) {
	request := kmsg.NewPtrSASLAuthenticateRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	state := connectionOf(r)
	response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	response.SASLAuthBytes = []byte{} // not nullable
	if !state.sasl.MayAuthenticate() {
		response.ErrorCode = kerr.IllegalSaslState.Code
		response.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
		r.Respond(response)
		return
	}
	answer, done, err := state.sasl.Authenticate(request.SASLAuthBytes, r.ReceivedAt)
	if err != nil {
		response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		response.ErrorMessage = kmsg.StringPtr(sasl.FailureMessage())
		b.authenticationFailed(state, err, func() { r.Respond(response) })
		return
	}
	response.SASLAuthBytes = answer
	if done {
		b.authenticated(state)
		response.SessionLifetimeMillis = state.sasl.LifetimeMs()
	}
	r.Respond(response)
}

// saslToken handles a frame without a request header, which a client sends after a
// SaslHandshake v0. It owns the frame.
func (b *Broker) saslToken(state *connection, frame *bufpool.Buf, now time.Time) {
	answer, done, err := state.sasl.Authenticate(frame.B, now)
	frame.Release()
	if err != nil {
		b.authenticationFailed(state, err, nil) // there is no way to tell why
		return
	}
	if done {
		b.authenticated(state)
	}
	const lengthBytes = 4
	reply := bufpool.Get(lengthBytes + len(answer))
	copy(reply.B[lengthBytes:], answer)
	slot := state.conn.Reserve()
	slot.Bytes(reply)
	slot.Done()
}

// authenticated lets the connection in. When it authenticates again the principal
// stays the same, so requests under way on other goroutines read it safely.
func (b *Broker) authenticated(state *connection) {
	if principal := state.sasl.Principal(); state.Principal != principal {
		state.Principal = principal
		state.conn.LimitRequest(0)
		b.enterQuotas(state)
	}
}

// authenticationFailed answers after the delay, if there is something to answer,
// and closes the connection behind that. What the client sends meanwhile is thrown
// away. On the connection's event loop.
func (b *Broker) authenticationFailed(state *connection, cause error, respond func()) {
	b.refused("authentication failed")
	b.dispatch.rejected.Warn(b.Logger, "authentication failed", "remote", state.RemoteHost, "listener", state.Listener,
		"software", state.ClientSoftwareName, "error", cause)
	end := func(slot *netio.Slot) {
		if respond != nil {
			respond()
		}
		slot.CloseConn(cause)
	}
	slot := state.conn.Reserve()
	delay := time.Duration(b.Config.ConnectionFailedAuthenticationDelayMs) * time.Millisecond
	if delay <= 0 {
		end(slot)
		return
	}
	state.conn.Mute(delay)
	time.AfterFunc(delay, func() { end(slot) })
}
