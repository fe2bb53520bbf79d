package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/auth"
	"kaas/broker/coordinators"
	"kaas/broker/describe"
	"kaas/logstore"
	"kaas/meta"
	"kaas/obs"
)

// startCoordinators makes the coordinators and has the observer tell them what this
// broker serves.
func (b *Broker) startCoordinators() {
	c := coordinators.New(coordinators.Options{
		Config: b.Config, Authorizer: brokersAuthorizer{b}, Images: b.Images, Topics: servedTopics{b},
		NextProducerID: b.Store.NextProducerID,
		Submit:         func(f func()) bool { return b.Pool != nil && b.Pool.Submit(f) },
		CreateTopic:    func(name string) { b.createTopics([]string{name}) },
		Endpoint:       describe.Endpoint,
		Logger:         b.Logger, Clock: b.Clock,
	})
	b.coordinators = c
	b.hooks.partitionAdded = append(b.hooks.partitionAdded, func(p *partitionState) { c.PartitionAdded(p.topicName, p.index, p.log) })
	b.hooks.partitionRemoved = append(b.hooks.partitionRemoved, func(p *partitionState) { c.PartitionRemoved(p.topicName, p.index) })
	b.hooks.topicRemoved = append(b.hooks.topicRemoved, c.TopicRemoved)
	b.hooks.topicsLoaded = append(b.hooks.topicsLoaded, c.TopicsLoaded)
}

// RegisterMetrics registers the series of the coordinators.
func (b *Broker) RegisterMetrics(r *obs.Registry) { b.coordinators.Metrics(r) }

// describers are the handlers that answer from the image alone.
func (b *Broker) describers() *describe.Handlers {
	return describe.New(describe.Options{
		Config: b.Config, Authorizer: brokersAuthorizer{b}, Images: b.Images,
		Partitions:       func() int { return b.view.Load().partitions },
		Submit:           b.submit,
		OffLoopWhenLarge: b.offLoopWhenLarge,
		CreateTopics:     b.createTopics,
	})
}

// createTopics runs on the worker pool, without holding it up.
func (b *Broker) createTopics(names []string) {
	b.Pool.Park(func() { b.firstUse.Create(b.TopicCreator, names) })
}

// brokersAuthorizer asks the broker's authorizer, which tests change.
type brokersAuthorizer struct{ broker *Broker }

func (a brokersAuthorizer) Authorize(principal, host string, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return a.broker.Authorizer.Authorize(principal, host, operation, resource, name)
}

// Denied implements auth.DenialListener.
func (a brokersAuthorizer) Denied(d auth.Denial) {
	auth.Denied(a.broker.Authorizer, d.Request, d.Principal, d.Host, d.Operation, d.Resource, d.Name)
}

// AuthorizeByResourceType implements auth.ByResourceType.
func (a brokersAuthorizer) AuthorizeByResourceType(principal, host string, operation auth.Operation, resource auth.ResourceType) bool {
	byType, ok := a.broker.Authorizer.(auth.ByResourceType)
	return ok && byType.AuthorizeByResourceType(principal, host, operation, resource)
}

// servedTopics shows the coordinators the view.
type servedTopics struct{ broker *Broker }

func (s servedTopics) Topic(name string) coordinators.Topic {
	if t := s.broker.topic(name); t != nil {
		return t
	}
	return nil // and not a nil *topicState in an interface
}

func (s servedTopics) TopicByID(id meta.UUID) coordinators.Topic {
	if t := s.broker.topicByID(id); t != nil {
		return t
	}
	return nil
}

// Name, ID, Partitions and Log implement coordinators.Topic.
func (t *topicState) Name() string    { return t.name }
func (t *topicState) ID() meta.UUID   { return t.id }
func (t *topicState) Partitions() int { return len(t.partitions) }

func (t *topicState) Log(partition int32) (*logstore.Partition, *kerr.Error) {
	p, err := t.partition(partition)
	if err != nil {
		return nil, err
	}
	return p.log, nil
}
