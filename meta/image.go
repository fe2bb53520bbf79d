package meta

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// PartitionInfo is who leads a partition.
type PartitionInfo struct {
	Leader      int32
	LeaderEpoch int32
}

// Topic is a served topic. Immutable once in an Image.
type Topic struct {
	Name       string
	ID         UUID
	Partitions []PartitionInfo // by partition index
	// Config holds the overrides only, under dotted names.
	Config   map[string]string
	Internal bool
}

// BrokerInfo is one broker of the cluster. Endpoints maps the Kafka listener
// name to where clients reach it.
type BrokerInfo struct {
	ID        int32
	Rack      string
	Endpoints map[string]Endpoint
}

// Endpoint is an advertised host and port.
type Endpoint struct {
	Host string
	Port int32
}

// Image is the state of the cluster at one moment. It is immutable: everything
// reachable from it may be read without a lock and must not be changed.
type Image struct {
	ClusterID    string
	NodeID       int32 // this broker
	ControllerID int32
	Brokers      []BrokerInfo // by id

	byName map[string]*Topic
	byID   map[UUID]*Topic
	sorted []*Topic // by name

	// configs are set by Images.Store, before the image is published.
	configs *imageConfigs
}

// imageConfigs is immutable once it is in an Images.
type imageConfigs struct{ groups, clientMetrics NamedConfigs }

// NewImage returns an image with these topics. The topics are not copied and
// must not change any more.
func NewImage(clusterID string, nodeID, controllerID int32, brokers []BrokerInfo, topics []*Topic) *Image {
	image := &Image{ClusterID: clusterID, NodeID: nodeID, ControllerID: controllerID, Brokers: brokers}
	return image.WithTopics(topics, nil)
}

// Topic returns the topic of that name, or nil.
func (i *Image) Topic(name string) *Topic { return i.byName[name] }

// TopicBytes is Topic for a view into a frame; it does not allocate.
func (i *Image) TopicBytes(name []byte) *Topic { return i.byName[string(name)] }

// TopicByID returns the topic with that id, or nil.
func (i *Image) TopicByID(id UUID) *Topic { return i.byID[id] }

// Topics returns all topics sorted by name; read only.
func (i *Image) Topics() []*Topic { return i.sorted }

// GroupConfig returns the overrides in force for a group, nil when it has none; read
// only.
func (i *Image) GroupConfig(groupID string) map[string]string { return i.GroupConfigs()[groupID] }

// GroupConfigs returns those of all groups; read only.
func (i *Image) GroupConfigs() NamedConfigs {
	if i.configs == nil {
		return nil
	}
	return i.configs.groups
}

// ClientMetrics returns the subscriptions in force; read only.
func (i *Image) ClientMetrics() NamedConfigs {
	if i.configs == nil {
		return nil
	}
	return i.configs.clientMetrics
}

// WithTopics returns a new image in which the topics of set were added or
// replaced (by name) and those named in remove are gone. The receiver stays as
// it is. Cost is linear in the number of topics, so callers batch changes.
func (i *Image) WithTopics(set []*Topic, remove []string) *Image {
	next := *i
	next.byName = make(map[string]*Topic, len(i.byName)+len(set))
	maps.Copy(next.byName, i.byName)
	next.byID = make(map[UUID]*Topic, len(i.byID)+len(set))
	maps.Copy(next.byID, i.byID)
	for _, name := range remove {
		next.drop(name)
	}
	for _, topic := range set {
		next.drop(topic.Name)
		next.byName[topic.Name] = topic
		if !topic.ID.IsZero() {
			next.byID[topic.ID] = topic
		}
	}
	next.sorted = make([]*Topic, 0, len(next.byName))
	for _, topic := range next.byName {
		next.sorted = append(next.sorted, topic)
	}
	slices.SortFunc(next.sorted, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return &next
}

// WithBrokers returns a new image with these brokers.
func (i *Image) WithBrokers(brokers []BrokerInfo, controllerID int32) *Image {
	next := *i
	next.Brokers, next.ControllerID = brokers, controllerID
	return &next
}

func (i *Image) drop(name string) {
	if old := i.byName[name]; old != nil {
		delete(i.byName, name)
		if i.byID[old.ID] == old {
			delete(i.byID, old.ID)
		}
	}
}

// Images publishes the current Image. The zero value holds an empty one.
//
// Publication protocol: writers fill an Image completely before Store; Store
// publishes it by one atomic pointer (release), Load reads it by one (acquire),
// so a reader sees either the old or the new image whole. The garbage collector
// keeps an old image alive for readers that still hold it.
type Images struct {
	current atomic.Pointer[Image]

	mu sync.Mutex
	// changed is closed and replaced by each Store; nil until someone waits.
	// +checklocks:mu
	changed chan struct{}
	// configs go into every image that is stored from now on, whoever makes it.
	// +checklocks:mu
	configs *imageConfigs
}

var emptyImage = NewImage("", 0, 0, nil, nil)

// Load returns the current image, never nil.
func (s *Images) Load() *Image {
	if image := s.current.Load(); image != nil {
		return image
	}
	return emptyImage
}

// Store publishes the next image. Writers serialise among themselves. The configs of
// groups and client metrics in it are those of the last SetConfigs.
func (s *Images) Store(image *Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(image)
}

// SetConfigs publishes the present image with these configs of one kind, which must
// not change any more. It may run beside Store: neither undoes the other.
func (s *Images) SetConfigs(kind Kind, configs NamedConfigs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &imageConfigs{}
	if s.configs != nil {
		*next = *s.configs
	}
	switch kind {
	case KindGroupConfig:
		next.groups = configs
	case KindClientMetrics:
		next.clientMetrics = configs
	default:
		panic("BUG: an image has no configs of kind " + string(kind))
	}
	s.configs = next
	s.store(s.Load())
}

// +checklocks:s.mu
func (s *Images) store(image *Image) {
	if image.configs != s.configs { // else it may be published already
		next := *image
		next.configs = s.configs
		image = &next
	}
	s.current.Store(image)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Await returns nil as soon as the condition holds for a published image, or
// the context's error. The condition is called on this goroutine, once per image
// seen; images that are replaced quickly may be skipped.
func (s *Images) Await(ctx context.Context, condition func(*Image) bool) error {
	for {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		// Taken before the image is loaded: a Store after this point closes it.
		changed := s.changed
		s.mu.Unlock()
		if condition(s.Load()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
