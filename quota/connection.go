package quota

import "time"

// Muter is a connection (*netio.Conn) that can be left unread for a while.
type Muter interface{ Mute(time.Duration) }

// Connection charges what one connection does to its user, and mutes it when a
// quota is overdrawn. Enter is called before the first request that counts; the
// rest on whatever goroutine answers. The zero value has no quotas.
type Connection struct {
	client *Client
	muter  Muter
	told   func(Kind, time.Duration)
}

// Enter gives the connection the quotas of a user. told, when not nil, hears of
// every throttle.
func (c *Connection) Enter(m *Manager, user string, muter Muter, told func(Kind, time.Duration)) {
	c.client, c.muter, c.told = m.Client(user), muter, told
}

// Measured says whether the time that requests take counts.
func (c *Connection) Measured() bool { return c.client.Counts(Request) }

// Charge takes an amount and mutes the connection when that overdraws the quota.
// It allocates nothing.
func (c *Connection) Charge(kind Kind, amount float64) time.Duration {
	if !c.client.Counts(kind) {
		return 0
	}
	throttle := c.client.Charge(kind, amount, time.Now())
	if throttle > 0 {
		c.muter.Mute(throttle)
		if c.told != nil {
			c.told(kind, throttle)
		}
	}
	return throttle
}

// ChargeBytes is Charge for a request whose reply tells the throttle time. What the
// user owes of thread time counts, too.
func (c *Connection) ChargeBytes(kind Kind, bytes int) (throttleMs int32) {
	return milliseconds(max(c.Charge(kind, float64(bytes)), c.Charge(Request, 0)))
}

// maxChargedTime: what takes longer has waited most of it, for a topic to be served.
const maxChargedTime = 100 * time.Millisecond

// ThrottleMs implements codec.Throttler.
func (c *Connection) ThrottleMs(taken time.Duration) int32 {
	return milliseconds(c.Charge(Request, float64(min(taken, maxChargedTime))))
}

// milliseconds rounds up: a client that comes back too early finds a deaf broker.
func milliseconds(d time.Duration) int32 {
	return int32((d + time.Millisecond - 1) / time.Millisecond)
}
