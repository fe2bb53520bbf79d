package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"kaas/auth"
	"kaas/auth/sasl"
	"kaas/broker/coordinators"
	"kaas/broker/firstuse"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/quota"
)

// Pool runs the handlers of class pool. Submit never blocks; false: the pool and
// its queue are full, and the function is not run.
type Pool interface {
	Submit(func()) bool
	// Park runs wait without holding up the others. Only inside a function that
	// Submit runs.
	Park(wait func())
}

// Options are what a Broker is made of. Store, Images, Config and Logger must be
// given.
type Options struct {
	Store  *logstore.Store
	Images *meta.Images
	Config *config.Broker
	Logger *slog.Logger
	// Resources is watched for topics. Without, or with Config.Dev, topics live in
	// this broker's memory only: it is its own TopicCreator, see also DropTopic.
	Resources meta.ResourceStore
	// TopicCreator makes topics for auto-creation and the internal topics. Not used
	// in dev mode.
	TopicCreator meta.TopicCreator
	// Authorizer nil allows everything.
	Authorizer auth.Authorizer
	// Sasl authenticates clients of listeners with SASL. Without it such a listener
	// must not be served.
	Sasl *sasl.Mechanisms
	// Quotas nil: nobody is throttled.
	Quotas *quota.Manager
	// Throttled, when given, is told about every throttled reply, on any goroutine.
	Throttled func(kind quota.Kind, throttle time.Duration)
	// RequestMemoryBytes bounds the memory of all requests under way; 0, and at most:
	// limits.RequestMemoryBytes.
	RequestMemoryBytes int64
	// Pool nil: every request of class pool is refused as if it were full.
	Pool Pool
	// DataPool runs those with codec.API.DataPlane. nil: Pool does.
	DataPool Pool
	// Metrics nil counts nothing.
	Metrics Metrics
	// Clock nil: time.Now.
	Clock func() time.Time
}

// Metrics is told about every request. Its methods are called on event loops and
// must neither block nor allocate.
type Metrics interface {
	// RequestEnded: replyBytes is -1 for a request without a reply.
	RequestEnded(api *codec.API, version int16, requestBytes, replyBytes int, took time.Duration)
	// RequestRefused: a frame that did not reach a handler.
	RequestRefused(reason string)
}

// Broker is one Kafka broker. Exported fields are set by New and never change.
type Broker struct {
	Store        *logstore.Store
	Images       *meta.Images
	Config       *config.Broker
	Authorizer   auth.Authorizer
	Sasl         *sasl.Mechanisms
	Quotas       *quota.Manager
	Throttled    func(quota.Kind, time.Duration)
	TopicCreator meta.TopicCreator
	Resources    meta.ResourceStore
	Pool         Pool
	DataPool     Pool
	Metrics      Metrics
	Logger       *slog.Logger
	Clock        func() time.Time

	// registry is set once by SetRegistry, before the first connection.
	registry atomic.Pointer[servedAPIs]
	// authenticates holds the names of the listeners with SASL. Immutable.
	authenticates map[string]bool
	// view is replaced by the observer only.
	view atomic.Pointer[view]
	// hooks are appended to by the parts' start, before the observer runs, and
	// immutable afterwards.
	hooks    hooks
	observer observer
	dispatch dispatcher

	// firstUse makes topics for clients that name them.
	firstUse firstuse.Topics

	data dataPart
	// coordinators of groups and transactions; set by New.
	coordinators *coordinators.Coordinators
}

// hooks are how the parts of the room hear of what the observer does. They run
// on the observer's goroutine, with no lock held; they must not block for long.
type hooks struct {
	// partitionAdded: before the partition is in a published view.
	partitionAdded []func(*partitionState)
	// partitionRemoved: after a view without the partition was published and
	// before its log is deleted: parked requests are answered here.
	partitionRemoved []func(*partitionState)
	// topicRemoved: after partitionRemoved of all partitions: committed offsets go.
	topicRemoved []func(name string, id meta.UUID)
	// topicsLoaded: once, after the first complete list of topics is served.
	topicsLoaded []func()
}

// New makes a broker that serves nothing yet: Start begins to observe topics.
func New(o Options) (*Broker, error) {
	if o.Store == nil || o.Images == nil || o.Config == nil || o.Logger == nil {
		return nil, errors.New("broker: Store, Images, Config and Logger must be given")
	}
	b := &Broker{
		Store: o.Store, Images: o.Images, Config: o.Config, Authorizer: o.Authorizer, Sasl: o.Sasl, Quotas: o.Quotas, Throttled: o.Throttled, TopicCreator: o.TopicCreator,
		Resources: o.Resources, Pool: o.Pool, DataPool: o.DataPool, Metrics: o.Metrics, Logger: o.Logger, Clock: o.Clock,
	}
	b.authenticates = make(map[string]bool)
	for _, l := range o.Config.Listeners {
		b.authenticates[l.Name] = l.Authenticates()
	}
	if o.Config.Authenticates() && o.Sasl == nil {
		return nil, errors.New("broker: Sasl must be given when a listener authenticates")
	}
	if b.Authorizer == nil {
		b.Authorizer = auth.AllowAll{}
	}
	if b.Clock == nil {
		b.Clock = time.Now
	}
	b.dispatch.memoryBytes = limits.RequestMemoryBytes
	if o.RequestMemoryBytes > 0 {
		b.dispatch.memoryBytes = min(o.RequestMemoryBytes, limits.RequestMemoryBytes)
	}
	b.firstUse.Config, b.firstUse.Clock, b.firstUse.Logger = b.Config, b.Clock, b.Logger
	b.view.Store(emptyView)
	b.observer.init(b)
	if o.Config.Dev || o.Resources == nil {
		b.Resources, b.TopicCreator = nil, &b.observer
	}
	if b.TopicCreator == nil {
		return nil, errors.New("broker: TopicCreator must be given with Resources")
	}
	if err := b.data.start(b); err != nil {
		return nil, fmt.Errorf("broker: produce and fetch: %w", err)
	}
	b.startCoordinators()
	return b, nil
}

// Start lists the topics, serves them and goes on observing until Close. It
// returns when the first list is served, or with ctx's error.
func (b *Broker) Start(ctx context.Context) error { return b.observer.start(ctx) }

// Close stops the observer and the parts. The network is closed before, the
// store after it, by the caller.
func (b *Broker) Close() {
	b.observer.stop()
	b.coordinators.Close()
	b.data.stop()
}

// APIs are the API keys of this room. The caller joins them with admin's into one
// Registry and hands that to SetRegistry.
func (b *Broker) APIs() []codec.API {
	apis := []codec.API{
		b.saslHandshakeAPI(),
		b.apiVersionsAPI(),
		b.saslAuthenticateAPI(),
	}
	apis = append(apis, b.dataAPIs()...)
	apis = append(apis, b.describers().APIs()...)
	return append(apis, b.coordinators.APIs()...)
}

// allowed asks the authorizer whether the client of r may do operation. A denial is told.
func (b *Broker) allowed(r *codec.Request, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return b.Authorizer.Authorize(r.Session.Principal, r.Session.RemoteHost, operation, resource, name) ||
		auth.Denied(b.Authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, operation, resource, name)
}

// SetRegistry gives the broker the APIs that it dispatches and advertises: all of
// them, those marked unstable only with unstable.api.versions.enable. Once, before
// the network starts.
func (b *Broker) SetRegistry(r *codec.Registry) {
	r = r.Select(b.Config.UnstableAPIVersionsEnable)
	if !b.registry.CompareAndSwap(nil, &servedAPIs{r, r.Advertise(features)}) {
		panic("BUG: the registry is set twice")
	}
}
