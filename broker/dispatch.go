package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/auth"
	"kaas/auth/sasl"
	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/internal/limits"
	"kaas/netio"
	"kaas/obs"
	"kaas/quota"
)

// errNotServed is wrapped by the errors of keys and versions that are not
// served: the connection closes, as Kafka's does (SocketServer.processException).
var errNotServed = errors.New("not served")

// connection is the broker's state of one client connection, netio.Conn.Context.
// Owner: the connection's event loop.
type connection struct {
	// What each request touches comes first and lies in two cache lines: among thousands of connections none of it is in the
	// processor's caches.

	// sasl is nil on a listener without authentication.
	sasl *sasl.Session
	// receivedAt is when the frames came that OnFrame is called with now; zero: not asked yet.
	receivedAt time.Time
	// wakes may be deferred from OnFrame to OnFramesEnd.
	wakes   deferredWakes
	inFrame bool
	quota   quota.Connection // of its user, from the login on
	codec.Session

	conn *netio.Conn
	// fetches are those that are parked; they end with the connection.
	fetches parkedFetches
	// transactionalID of its last transactional produce.
	transactionalID string

	_ [48]byte // a multiple of 64: it begins with a cache line
}

// connectionOf is the connection that a request came by.
func connectionOf(r *codec.Request) *connection { return r.Session.Context.(*connection) }

// dispatcher holds what dispatch reserves for requests under way.
type dispatcher struct {
	// reservedBytes is the sum of Request.ReservedBytes of all requests that have
	// not ended: frames plus estimates. At most memoryBytes plus the one request that
	// is being refused on each event loop.
	reservedBytes atomic.Int64
	inFlight      atomic.Int64
	// memoryBytes: above it a request is refused, above half of it connections that
	// send more are paused. Set by New.
	memoryBytes int64

	// failures limits the lines about connections closed for what they sent: a peer
	// that is broken comes back at once, for ever.
	failures obs.Limited
	// rejected does so about clients that could not authenticate.
	rejected obs.Limited
}

// OnOpen is called on the connection's event loop.
func (b *Broker) OnOpen(c *netio.Conn) {
	local, remote := c.LocalAddr(), c.RemoteAddr()
	state := &connection{conn: c, Session: codec.Session{
		ID: c.ID(), Listener: c.Listener(),
		LocalHost: local.Addr().Unmap().String(), LocalPort: int32(local.Port()),
		RemoteHost: remote.Addr().Unmap().String(), Principal: codec.AnonymousPrincipal,
	}}
	state.Session.Context = state
	c.Context = state
	if b.Sasl != nil && b.authenticates[c.Listener()] {
		state.sasl = sasl.NewSession(b.Sasl)
		c.LimitRequest(b.Config.SaslServerMaxReceiveSize)
	}
	if !state.sasl.Pending() {
		b.enterQuotas(state)
	}
}

// OnClose is called on the connection's event loop, once. Requests under way go
// on; their replies are dropped by netio. Parked fetches end here: nobody waits
// for them any more. What OnFrame refused netio has logged; what a handler failed
// is logged here.
func (b *Broker) OnClose(c *netio.Conn, err error) {
	state, opened := c.Context.(*connection)
	if !opened {
		return
	}
	state.fetches.close()
	var failed *codec.FailedError
	if errors.As(err, &failed) {
		b.dispatch.failures.Warn(b.Logger, "connection closed because a request failed", "remote", state.RemoteHost, "listener", state.Listener,
			"software", state.ClientSoftwareName, "error", failed.Cause)
	}
}

// OnFrame is called on the connection's event loop with the reference of frame.
// An error closes the connection. It allocates nothing for inline and two-phase
// requests.
func (b *Broker) OnFrame(c *netio.Conn, frame *bufpool.Buf) error {
	state := c.Context.(*connection)
	if state.receivedAt.IsZero() {
		state.receivedAt = time.Now() // once for all that came at once
	}
	receivedAt := state.receivedAt
	state.inFrame = true
	defer func() { state.inFrame = false }()
	switch {
	case state.sasl.Failed():
		frame.Release()
		return nil
	case state.sasl.Raw():
		b.saslToken(state, frame, receivedAt)
		return nil
	}
	header, body, err := codec.ParseHeader(frame.B)
	if err != nil {
		frame.Release()
		b.refused("malformed")
		return err
	}
	if err := state.sasl.Check(header.Key, receivedAt); err != nil {
		frame.Release()
		b.refused("not authenticated")
		return err
	}
	served := b.registry.Load()
	api := served.Lookup(header.Key)
	if api == nil || !api.Serves(header.Version) {
		if header.Key != apiVersionsKey || api == nil {
			frame.Release()
			b.refused("not served")
			return notServed(api, header)
		}
		// KIP-511: a version of ApiVersions that is not known is answered, see
		// apiVersionsAPI, which looks at the version itself.
	}
	request := codec.NewRequest(api, header, body, frame, &state.Session, c.Reserve(), receivedAt, b)
	switch total := b.dispatch.reserve(request, len(frame.B)+api.Estimate(header, len(body))); {
	case total > b.dispatch.memoryBytes:
		b.refuse(request, "memory of requests under way")
		return nil
	case total > b.dispatch.memoryBytes/2:
		c.Mute(limits.RequestMemoryPauseMs * time.Millisecond)
	}
	if state.quota.Measured() {
		request.Throttler, request.StartedAt = &state.quota, time.Now()
	}
	if api.Class != codec.Pool {
		if api.Class == codec.TwoPhase && state.quota.Measured() {
			startedAt := request.StartedAt
			api.Handle(request)
			state.quota.Charge(quota.Request, float64(time.Since(startedAt)))
		} else {
			api.Handle(request)
		}
		return nil
	}
	if !b.submit(request, handlePooled) {
		b.refuse(request, "worker pool")
	}
	return nil
}

// OnFramesEnd is called on the connection's event loop.
func (b *Broker) OnFramesEnd(c *netio.Conn) {
	state, opened := c.Context.(*connection)
	if !opened {
		return
	}
	state.receivedAt = time.Time{}
	if len(state.wakes.partitions) > 0 {
		state.wakes.wake(b)
	}
}

func handlePooled(request *codec.Request) {
	if request.Throttler != nil {
		request.StartedAt = time.Now()
	}
	request.API.Handle(request)
}

// enterQuotas gives a connection the quotas of its user (KIP-13, KIP-124). A reply
// leaves at once and tells the throttle time; the connection is muted for as long
// (KIP-219), so what waits is with the client and in the socket, not here.
func (b *Broker) enterQuotas(c *connection) {
	c.quota.Enter(b.Quotas, strings.TrimPrefix(c.Principal, auth.UserPrefix), c.conn, b.Throttled)
}

// offLoopWhenLarge runs a handler of requests that only read on the worker pool
// when the request is so large that it would hold up the other connections of the
// loop. When the pool is full it runs here all the same: what it costs is bounded
// by limits.RequestMemoryBytes.
func (b *Broker) offLoopWhenLarge(handle func(*codec.Request)) func(*codec.Request) {
	return func(r *codec.Request) {
		if len(r.Body) > limits.InlineBodyBytes && b.submit(r, handle) {
			return
		}
		handle(r)
	}
}

// submit hands a request to the worker pool; false: it is full, the request stays.
func (b *Broker) submit(r *codec.Request, handle func(*codec.Request)) bool {
	pool := b.Pool
	if r.API.DataPlane && b.DataPool != nil {
		pool = b.DataPool
	}
	return pool != nil && pool.Submit(codec.Guarded(r, b.Logger, handle))
}

func notServed(api *codec.API, header codec.Header) error {
	if api == nil {
		return fmt.Errorf("API key %d version %d: the key is %w", header.Key, header.Version, errNotServed)
	}
	return fmt.Errorf("%s version %d is %w, %d to %d are", api.Name, header.Version, errNotServed, api.MinHandled(), api.MaxVersion)
}

func (b *Broker) refused(reason string) {
	if b.Metrics != nil {
		b.Metrics.RequestRefused(reason)
	}
}

// refuse ends a request that would take the broker over one of its bounds.
func (b *Broker) refuse(request *codec.Request, bound string) {
	b.refused(bound)
	if request.API.Refuse != nil {
		request.API.Refuse(request, kerr.ThrottlingQuotaExceeded.Code, limits.RefusedThrottleMs)
		return
	}
	request.Fail(fmt.Errorf("%s: the broker is at its bound: %s", request.API.Name, bound))
}

// reserve returns what is reserved by all requests under way, this one included.
func (d *dispatcher) reserve(request *codec.Request, bytes int) int64 {
	request.ReservedBytes = int64(bytes)
	d.inFlight.Add(1)
	return d.reservedBytes.Add(int64(bytes))
}

// RequestEnded implements codec.Observer: it runs on whatever goroutine ended
// the request.
func (b *Broker) RequestEnded(request *codec.Request, replyBytes int) {
	b.dispatch.reservedBytes.Add(-request.ReservedBytes)
	b.dispatch.inFlight.Add(-1)
	if b.Metrics != nil {
		b.Metrics.RequestEnded(request.API, request.Version, len(request.Frame().B), replyBytes, time.Since(request.ReceivedAt))
	}
}
