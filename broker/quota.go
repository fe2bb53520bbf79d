package broker

import (
	"strings"
	"time"

	"kaas/auth"
	"kaas/codec"
	"kaas/quota"
)

// Quotas (KIP-13, KIP-124): what a user may produce, consume and have handled. A
// reply leaves at once and tells the throttle time; the connection is muted for as
// long (KIP-219), so what waits is in the client and in the socket, not here.

// enterQuotas gives a connection the quotas of its user. Before its first request
// that counts.
func (b *Broker) enterQuotas(c *connection) {
	c.quota = b.Quotas.Client(strings.TrimPrefix(c.Principal, auth.UserPrefix))
}

// charge takes an amount from a quota and mutes the connection when it is overdrawn.
// Any goroutine; it allocates nothing.
func (c *connection) charge(kind quota.Kind, amount float64) time.Duration {
	if !c.quota.Counts(kind) {
		return 0
	}
	throttle := c.quota.Charge(kind, amount, time.Now())
	if throttle > 0 {
		c.conn.Mute(throttle)
		if c.throttled != nil {
			c.throttled(kind, throttle)
		}
	}
	return throttle
}

// chargeBytes is charge for Produce and Fetch, whose replies are encoded by hand.
// What the user owes of thread time counts, too.
func (c *connection) chargeBytes(kind quota.Kind, bytes int) (throttleMs int32) {
	return milliseconds32(max(c.charge(kind, float64(bytes)), c.charge(quota.Request, 0)))
}

// ThrottleMs implements codec.Throttler. The time of a two-phase request is charged
// when its handler has returned: it goes on without a thread.
func (c *connection) ThrottleMs(r *codec.Request) int32 {
	taken := time.Duration(0)
	if r.API.Class != codec.TwoPhase {
		taken = min(time.Since(r.StartedAt), maxChargedTime)
	}
	return milliseconds32(c.charge(quota.Request, float64(taken)))
}

// maxChargedTime: what takes longer has waited most of it, for a topic to be served.
const maxChargedTime = 100 * time.Millisecond

// milliseconds32 rounds up: a client that comes back too early finds a deaf broker.
func milliseconds32(d time.Duration) int32 {
	return int32((d + time.Millisecond - 1) / time.Millisecond)
}

// measured says whether time is to be measured for the request.
func (c *connection) measured() bool { return c.quota.Counts(quota.Request) }
