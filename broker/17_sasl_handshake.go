package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth/sasl"
	"kaas/codec"
)

// SaslHandshake (key 17), v0 and v1.
//
//	v0  the tokens that follow are frames without a request header, the answers too
//	v1  they are SaslAuthenticate requests (KIP-152)
//
// A mechanism that is not enabled: 33 with those that are, and the connection
// closes. An authenticated connection begins again (KIP-368) when
// connections.max.reauth.ms is set, at most once a second; otherwise, and on a
// listener without SASL: 34.
func (b *Broker) saslHandshakeAPI() codec.API {
	return codec.API{Key: sasl.HandshakeKey, Name: "SaslHandshake", MinVersion: 0, MaxVersion: 1, Class: codec.Inline,
		EstimateBytes: codec.SmallEstimate, Handle: b.saslHandshake, Note: "SCRAM-SHA-512"}
}

func (b *Broker) saslHandshake(r *codec.Request) {
	request := kmsg.NewPtrSASLHandshakeRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	state := connectionOf(r)
	response := request.ResponseKind().(*kmsg.SASLHandshakeResponse)
	switch state.sasl.Handshake(r.Version, request.Mechanism, r.ReceivedAt) {
	case sasl.IllegalState:
		response.ErrorCode = kerr.IllegalSaslState.Code
		r.Respond(response)
	case sasl.NotEnabled:
		response.ErrorCode, response.SupportedMechanisms = kerr.UnsupportedSaslMechanism.Code, state.sasl.Enabled()
		r.Respond(response)
		b.authenticationFailed(state, &mechanismError{request.Mechanism}, nil)
	default:
		response.SupportedMechanisms = state.sasl.Enabled()
		r.Respond(response)
	}
}

type mechanismError struct{ asked string }

func (e *mechanismError) Error() string {
	return "SASL mechanism " + strconv.Quote(e.asked) + " is not enabled"
}
