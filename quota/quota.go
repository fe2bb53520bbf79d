package quota

import (
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
)

// Keys as they travel on the wire (Kafka's QuotaConfig).
const (
	ProducerByteRate  = "producer_byte_rate"
	ConsumerByteRate  = "consumer_byte_rate"
	RequestPercentage = "request_percentage"
)

// Kind is what is counted.
type Kind uint8

// The kinds, in the order of a Client's buckets.
const (
	Produce Kind = iota // bytes
	Consume             // bytes
	Request             // nanoseconds on a thread
	kinds
)

// Client is one user's state. Connections of the user keep it.
type Client struct {
	buckets [kinds]bucket
}

// bucket counts one thing.
type bucket struct {
	// perSecond is the bits of the rate; 0: no quota. Written under mu, read without.
	perSecond atomic.Uint64
	mu        sync.Mutex
	// balance is what may be taken now; below 0 it is a debt.
	// +checklocks:mu
	balance float64
	// +checklocks:mu
	lastNs int64
}

// Charge takes an amount and returns for how long the client is to be throttled: as
// long as paying the debt takes, at most limits.QuotaThrottleMaxMs; the rest of the
// debt stays. It allocates nothing. A nil Client has no quotas.
func (c *Client) Charge(kind Kind, amount float64, now time.Time) time.Duration {
	if c == nil {
		return 0
	}
	b := &c.buckets[kind]
	rate := math.Float64frombits(b.perSecond.Load())
	if rate == 0 {
		return 0
	}
	b.mu.Lock()
	b.refill(rate, now)
	b.balance -= amount
	debt := -b.balance
	b.mu.Unlock()
	if debt <= 0 {
		return 0
	}
	return min(time.Duration(debt/rate*float64(time.Second)), limits.QuotaThrottleMaxMs*time.Millisecond)
}

// Counts says whether a kind has a quota, so that what is expensive to measure need
// not be.
func (c *Client) Counts(kind Kind) bool { return c != nil && c.buckets[kind].perSecond.Load() != 0 }

// refill adds what has come since, up to a second's worth.
// +checklocks:b.mu
func (b *bucket) refill(rate float64, now time.Time) {
	at := now.UnixNano()
	if at > b.lastNs {
		b.balance = min(rate, b.balance+float64(at-b.lastNs)/float64(time.Second)*rate)
		b.lastNs = at
	}
}

// set changes the rate in place: a debt is worth the same time as before.
func (b *bucket) set(rate float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := math.Float64frombits(b.perSecond.Load())
	switch {
	case before == rate:
		return
	case before == 0:
		b.balance, b.lastNs = rate, now.UnixNano()
	default:
		b.refill(before, now)
		b.balance *= rate / before
	}
	b.perSecond.Store(math.Float64bits(rate))
}

// Manager knows the quotas of all users.
type Manager struct {
	// fromResource returns what a user's resource says, read-only. known: there is one.
	fromResource func(user string) (quotas map[string]float64, known bool)
	clock        func() time.Time

	mu sync.Mutex
	// clients are those of users that have connected: bounded by the users that can
	// log in, and ANONYMOUS.
	// +checklocks:mu
	clients map[string]*Client
	// overrides are those of users without a resource. They hold no empty map. At most
	// limits.QuotaOverrides.
	// +checklocks:mu
	overrides map[string]map[string]float64
}

// NewManager makes a manager; fromResource may be called with its lock held.
func NewManager(fromResource func(user string) (quotas map[string]float64, known bool)) *Manager {
	return &Manager{fromResource: fromResource, clock: time.Now, clients: map[string]*Client{}, overrides: map[string]map[string]float64{}}
}

// Client is the state of a user, the same for all its connections. A nil Manager
// has none.
func (m *Manager) Client(user string) *Client {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clients[user]
	if c == nil {
		c = &Client{}
		m.clients[user] = c
		m.apply(user, c)
	}
	return c
}

// Refresh takes over what resources say now. The override of a user who has got one
// ends.
func (m *Manager) Refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.overrides, func(user string, _ map[string]float64) bool {
		_, known := m.fromResource(user)
		return known
	})
	for user, c := range m.clients {
		m.apply(user, c)
	}
}

// Effective is what is in force for a user; nil: nothing. The caller's own.
func (m *Manager) Effective(user string) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.effective(user))
}

// +checklocks:m.mu
func (m *Manager) effective(user string) map[string]float64 {
	if quotas, known := m.fromResource(user); known {
		return quotas
	}
	return m.overrides[user]
}

// Overridden lists the users without a resource that have an override.
func (m *Manager) Overridden() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	users := make([]string, 0, len(m.overrides))
	for user := range m.overrides {
		users = append(users, user)
	}
	return users
}

// Errors of Override.
var (
	ErrTooManyOverrides = errors.New("too many users without a resource have quotas")
	ErrHasResource      = errors.New("the user has a resource")
)

// Override merges changes onto the quotas of a user who has no resource.
func (m *Manager) Override(user string, changes map[string]*float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.fromResource(user); known {
		return ErrHasResource
	}
	if m.overrides[user] == nil && len(m.overrides) >= limits.QuotaOverrides {
		return ErrTooManyOverrides
	}
	if m.overrides[user] = Merge(m.overrides[user], changes); len(m.overrides[user]) == 0 {
		delete(m.overrides, user)
	}
	if c := m.clients[user]; c != nil {
		m.apply(user, c)
	}
	return nil
}

// Merge returns quotas with changes made: a value sets its key, nil removes it.
func Merge(quotas map[string]float64, changes map[string]*float64) map[string]float64 {
	next := make(map[string]float64, len(quotas)+len(changes))
	maps.Copy(next, quotas)
	for key, value := range changes {
		if value == nil {
			delete(next, key)
		} else {
			next[key] = *value
		}
	}
	return next
}

// apply puts what is in force into the buckets, which go on.
// +checklocks:m.mu
func (m *Manager) apply(user string, c *Client) {
	now, values := m.clock(), m.effective(user)
	c.buckets[Produce].set(values[ProducerByteRate], now)
	c.buckets[Consume].set(values[ConsumerByteRate], now)
	// A percentage of one thread, in nanoseconds of it a second.
	c.buckets[Request].set(values[RequestPercentage]/100*float64(time.Second), now)
}
