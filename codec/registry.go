package codec

import (
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Class says where a handler runs.
type Class uint8

const (
	// Inline: on the connection's event loop; it replies before it returns and
	// never blocks.
	Inline Class = iota
	// TwoPhase: starts on the event loop, in request order, never blocks there,
	// and replies later from any goroutine.
	TwoPhase
	// Pool: runs on the bounded worker pool and may block for at most the
	// request's timeout.
	Pool
)

func (c Class) String() string {
	switch c {
	case Inline:
		return "inline"
	case TwoPhase:
		return "two-phase"
	case Pool:
		return "pool"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// API is all that dispatch knows about one API key. Handlers obey it: they are
// never called with a version outside of it.
type API struct {
	Key  int16
	Name string
	// MinVersion to MaxVersion is what ApiVersions advertises.
	MinVersion int16
	MaxVersion int16
	// MinServed above MinVersion: versions below it are advertised and refused
	// (the connection closes). Only Produce has it: librdkafka chooses its codecs
	// by the advertised range, so Kafka advertises from v0 and refuses v0 to v2
	// (KIP-896). Zero means MinVersion.
	MinServed int16
	Class     Class
	// DataPlane keys of class Pool wait for a disk of the log store and for nothing
	// else. They run on workers of their own: those of the others may all hang in a
	// resource store that does not answer.
	DataPlane bool
	// EstimateBytes bounds the memory that decoding and answering takes beyond the
	// frame, before anything is allocated. Nil: DefaultEstimate.
	EstimateBytes func(header Header, bodyBytes int) int
	// Handle owns the request, see [Request].
	Handle func(*Request)
	// Refuse answers the whole request with one error code, throttled where the
	// response can say so: the broker is at a bound and the client shall try again.
	// It owns the request. Nil: the connection is closed instead.
	Refuse func(request *Request, errorCode int16, throttleMs int32)
	// Unstable: the whole key is advertised only with unstable.api.versions.enable.
	Unstable bool
	// UnstableMaxVersion above MaxVersion: the versions between are advertised only
	// with unstable.api.versions.enable. kmsg may not know them; then the handler
	// decodes them itself (DecodeDeleteTopics), and their reply has the shape of the
	// highest version that kmsg knows.
	UnstableMaxVersion int16
	// Note is one sentence for the support table.
	Note string
}

// MinHandled is the lowest version that reaches the handler.
func (a *API) MinHandled() int16 { return max(a.MinVersion, a.MinServed) }

// Serves says whether version reaches the handler.
func (a *API) Serves(version int16) bool {
	return version >= a.MinHandled() && version <= a.MaxVersion
}

// decodeFactor bounds what kmsg makes of a body. Its arrays check that the rest
// of the body can hold their elements, so the worst is an array of the smallest
// elements; TestDecodeFactor measures it over all messages. The worst of kmsg
// 1.15.1 is a little below 30.
const decodeFactor = 32

// DefaultEstimate is the memory estimate of an API without its own.
func DefaultEstimate(bodyBytes int) int { return 1024 + decodeFactor*bodyBytes }

// SmallEstimate is for requests with no list in them: decoding takes about the
// frame again.
func SmallEstimate(_ Header, bodyBytes int) int { return 1024 + 2*bodyBytes }

// Estimate is EstimateBytes with its default.
func (a *API) Estimate(header Header, bodyBytes int) int {
	if a.EstimateBytes == nil {
		return DefaultEstimate(bodyBytes)
	}
	return a.EstimateBytes(header, bodyBytes)
}

// Registry maps API keys to what is served. Immutable.
type Registry struct {
	byKey [kmsg.MaxKey + 1]*API
	all   []API // sorted by key
}

// NewRegistry checks that every API can be decoded by kmsg in all its versions
// and is there once.
func NewRegistry(apis ...API) (*Registry, error) {
	r := &Registry{all: append([]API(nil), apis...)}
	sort.Slice(r.all, func(i, j int) bool { return r.all[i].Key < r.all[j].Key })
	for i := range r.all {
		api := &r.all[i]
		if err := checkAPI(api); err != nil {
			return nil, err
		}
		if r.byKey[api.Key] != nil {
			return nil, fmt.Errorf("registry: API key %d is there twice, as %s and as %s", api.Key, r.byKey[api.Key].Name, api.Name)
		}
		r.byKey[api.Key] = api
	}
	return r, nil
}

func checkAPI(api *API) error {
	var message kmsg.Request
	if api.Key >= 0 && api.Key <= kmsg.MaxKey {
		message = kmsg.RequestForKey(api.Key)
	}
	raised := api.UnstableMaxVersion != 0 && api.MaxVersion == api.UnstableMaxVersion // by Select
	switch {
	case message == nil:
		return fmt.Errorf("registry: %s: no message of API key %d is known", api.Name, api.Key)
	case api.Name == "":
		return fmt.Errorf("registry: API key %d has no name", api.Key)
	case api.MinVersion < 0 || api.MaxVersion < api.MinHandled():
		return fmt.Errorf("registry: %s: versions %d (served from %d) to %d", api.Name, api.MinVersion, api.MinServed, api.MaxVersion)
	case api.UnstableMaxVersion != 0 && api.UnstableMaxVersion < api.MaxVersion:
		return fmt.Errorf("registry: %s: the unstable versions end at %d, below %d", api.Name, api.UnstableMaxVersion, api.MaxVersion)
	case api.MaxVersion > message.MaxVersion() && !raised:
		return fmt.Errorf("registry: %s: version %d is above %d, the highest that can be encoded", api.Name, api.MaxVersion, message.MaxVersion())
	case api.MaxVersion > KafkaVersions[api.Key].Max && !api.Unstable && !raised:
		return fmt.Errorf("registry: %s: version %d is above %d, the highest of Apache Kafka", api.Name, api.MaxVersion, KafkaVersions[api.Key].Max)
	case api.Handle == nil:
		return fmt.Errorf("registry: %s has no handler", api.Name)
	case api.Class > Pool:
		return fmt.Errorf("registry: %s: %v", api.Name, api.Class)
	}
	return nil
}

// Select returns the registry as it is served: with all unstable keys and versions,
// or without any.
func (r *Registry) Select(unstable bool) *Registry {
	var apis []API
	for _, api := range r.all {
		switch {
		case unstable && api.UnstableMaxVersion > api.MaxVersion:
			api.MaxVersion = api.UnstableMaxVersion
		case !unstable && api.Unstable:
			continue
		}
		apis = append(apis, api)
	}
	selected, err := NewRegistry(apis...)
	if err != nil {
		panic(fmt.Sprintf("BUG: a part of a registry is no registry: %v", err))
	}
	return selected
}

// Lookup returns nil for a key that is not served.
func (r *Registry) Lookup(key int16) *API {
	if key < 0 || int(key) >= len(r.byKey) {
		return nil
	}
	return r.byKey[key]
}

// All returns the APIs sorted by key. The caller does not change them.
func (r *Registry) All() []API { return r.all }
