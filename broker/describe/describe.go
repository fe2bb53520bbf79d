package describe

import (
	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
	"kaas/meta/config"
)

// Options are what Handlers are made of; all must be given.
type Options struct {
	Config     *config.Broker
	Authorizer auth.Authorizer
	Images     *meta.Images
	// Partitions is how many the broker serves.
	Partitions func() int
	// Submit runs the rest of a request on the worker pool. It never blocks; false: the
	// pool is full, and the request is where it was.
	Submit func(r *codec.Request, rest func(*codec.Request)) bool
	// OffLoopWhenLarge wraps a handler that only reads: a large request runs on the
	// worker pool.
	OffLoopWhenLarge func(handle func(*codec.Request)) func(*codec.Request)
	// CreateTopics has topics made and waits for them, for a bounded time; on the
	// worker pool only.
	CreateTopics func(names []string)
}

// Handlers are the APIs of this package. Immutable.
type Handlers struct{ Options }

// New makes the handlers.
func New(o Options) *Handlers { return &Handlers{o} }

// APIs are the API keys of this package.
func (h *Handlers) APIs() []codec.API {
	return []codec.API{h.metadataAPI(), h.describeClusterAPI(), h.describeTopicPartitionsAPI()}
}

// visible asks the authorizer for the client of a request: whether something is shown.
func (h *Handlers) visible(r *codec.Request, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return h.Authorizer.Authorize(r.Session.Principal, r.Session.RemoteHost, operation, resource, name)
}

// allowed is visible for what the request depends on: a denial is told.
func (h *Handlers) allowed(r *codec.Request, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return h.visible(r, operation, resource, name) || auth.Denied(h.Authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, operation, resource, name)
}

func (h *Handlers) authorizedOperations(r *codec.Request, resource auth.ResourceType, name string) int32 {
	return auth.AuthorizedOperations(h.Authorizer, r.Session.Principal, r.Session.RemoteHost, resource, name)
}

// Endpoint is where a client of this session reaches a broker: on the listener
// that it came by. A broker without that listener is not told to it.
func Endpoint(session *codec.Session, image *meta.Image, broker *meta.BrokerInfo) (meta.Endpoint, bool) {
	endpoint, ok := broker.Endpoints[session.Listener]
	if broker.ID != image.NodeID {
		return endpoint, ok
	}
	// This broker: what is not configured is the address that the client used.
	if endpoint.Host == "" {
		endpoint.Host = session.LocalHost
	}
	if endpoint.Port == 0 {
		endpoint.Port = session.LocalPort
	}
	return endpoint, true
}
