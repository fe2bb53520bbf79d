package broker

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
)

// change collects what one batch of events does and publishes it at once, so that
// a thousand topics cost one copy of the maps. Owner: the observer's goroutine.
type change struct {
	o *observer

	topics map[string]*topicState // copy of the view's, written
	byID   map[meta.UUID]*topicState

	opening []openingTopic // in topics, with partitions that are not open yet
	image   []*meta.Topic  // to set
	removed []removedTopic // no longer in topics
	errs    []error
}

// openingTopic waits for the partitions that serve has found missing: those of all
// topics of a batch are opened together.
type openingTopic struct {
	resource  string
	topic     *topicState
	logConfig logstore.Config
}

// removedTopic is a topic that stops being served. Its logs are deleted only when
// its resource was: keep is for a topic whose id has changed without that, where
// the log store sets the old directories aside when it opens the new ones.
type removedTopic struct {
	*topicState
	keep bool
}

func (o *observer) begin() *change {
	c := &change{o: o}
	c.reset()
	return c
}

// reset starts from what is served now: what was published is immutable.
func (c *change) reset() {
	current := c.o.broker.view.Load()
	c.topics, c.byID = maps.Clone(current.topics), maps.Clone(current.byID)
	c.image, c.removed = nil, nil
}

func (c *change) event(e meta.Event) {
	topic, ok := e.Object.(*meta.KafkaTopic)
	switch {
	case !ok: // Synced has no object
	case e.Type == meta.Deleted:
		c.remove(topic)
	default:
		c.set(topic)
	}
}

// set makes the served topic what the resource says.
//
// A resource without an id serves nothing: it has not been reconciled, or never
// will be (a second resource of the same topic); what was served by its name goes
// on, since a lost status is no deletion. A resource that is not Ready keeps being
// served as it was: its spec is not accepted, its data is.
//
// All that is served is what status says is in force: spec may hold an edit that
// is refused, and after a restart nothing else remembers what was valid before.
func (c *change) set(topic *meta.KafkaTopic) {
	inForce, ok := topic.InForce()
	if !ok {
		return
	}
	name, status := inForce.Name, &topic.Status
	served := c.topics[name]
	if served != nil && served.id == status.TopicID && !topic.Ready() && c.o.failed[topic.Metadata.Name] == "" {
		return
	}
	if served != nil && served.id != status.TopicID {
		c.o.log.Warn("a topic has a new id though its resource was not deleted; the old partitions are set aside on disk", "topic", name, "old id", served.id, "new id", status.TopicID)
		c.drop(served, true)
		served = nil
	}
	for _, removed := range c.removed {
		if removed.name == name {
			// The directory must be free before the new topic takes it.
			c.publish()
			break
		}
	}
	c.o.wanted[topic.Metadata.Name] = topic
	overrides, parsed, err := c.parse(topic, served)
	if err != nil {
		c.o.log.Warn("the topic's configuration is not valid; it is served with what was valid before, or with the defaults", "topic", name, "error", err)
	}
	c.serve(topic, served, overrides, parsed)
}

// parse falls back to what is served, then to the broker's defaults: a wrong
// value in a resource never takes the data away.
func (c *change) parse(topic *meta.KafkaTopic, served *topicState) (map[string]string, config.Topic, error) {
	overrides := topic.Status.Config
	parsed, err := config.ParseTopic(c.o.broker.Config, overrides)
	if err == nil {
		return overrides, parsed, nil
	}
	if served != nil {
		return served.overrides, served.config, err
	}
	return nil, c.o.broker.Config.CurrentTopicDefaults(), err
}

func (c *change) serve(topic *meta.KafkaTopic, served *topicState, overrides map[string]string, parsed config.Topic) {
	name, id := topic.Status.TopicName, topic.Status.TopicID
	if slices.ContainsFunc(c.opening, func(o openingTopic) bool { return o.topic == served }) {
		c.open() // the same topic twice in one batch
	}
	next := &topicState{
		name: name, id: id, internal: meta.IsInternalTopicName(name),
		config: parsed, overrides: overrides,
		partitions: make([]*partitionState, topic.Status.PartitionCount),
	}
	if served != nil {
		if len(served.partitions) > len(next.partitions) {
			// The number never goes down (Kafka has no way to); a status that says so is
			// wrong and must not hide data.
			next.partitions = make([]*partitionState, len(served.partitions))
		}
		copy(next.partitions, served.partitions)
	}
	logConfig := partitionConfig(&next.config)
	for _, p := range next.partitions {
		if p != nil && (served == nil || served.config != next.config) {
			p.log.SetConfig(logConfig)
			p.config.Store(&next.config)
		}
	}
	c.opening = append(c.opening, openingTopic{topic.Metadata.Name, next, logConfig})
	c.topics[name], c.byID[id] = next, next
}

// open opens the partitions that are not served yet, several at a time: each may
// wait for the disk. A partition that fails stays nil, the others are served.
func (c *change) open() {
	var group sync.WaitGroup
	slots := make(chan struct{}, limits.ObserverEnsureWorkers)
	errs := make([][]error, len(c.opening))
	for n, o := range c.opening {
		errs[n] = make([]error, len(o.topic.partitions))
		for i := range o.topic.partitions {
			if o.topic.partitions[i] != nil {
				continue
			}
			slots <- struct{}{}
			group.Go(func() {
				errs[n][i] = c.ensure(o.topic, int32(i), o.logConfig)
				<-slots
			})
		}
	}
	group.Wait()
	for n, o := range c.opening {
		c.opened(o, errors.Join(errs[n]...))
	}
	c.opening = nil
}

// ensure opens one partition. The error names topic and partition.
func (c *change) ensure(t *topicState, partition int32, logConfig logstore.Config) error {
	log, err := c.o.broker.Store.Ensure(t.name, t.id, partition, logConfig)
	if err != nil {
		return err
	}
	state := &partitionState{topicName: t.name, topicID: t.id, index: partition, log: log}
	state.config.Store(&t.config)
	log.Context = state
	t.partitions[partition] = state
	return nil
}

func (c *change) opened(o openingTopic, err error) {
	switch failed := c.o.failed; {
	case err == nil:
		delete(failed, o.resource)
	default:
		c.errs = append(c.errs, err)
		if failed[o.resource] != err.Error() {
			failed[o.resource] = err.Error()
			c.o.log.Error("partitions of a topic cannot be served; they are tried again", "topic", o.topic.name, "everyMs", limits.ObserverRetryMaxMs, "error", err)
		}
	}
	c.image = append(c.image, c.imageTopic(o.topic))
}

// imageTopic is the topic as clients see it. A partition that cannot be served has
// no leader.
func (c *change) imageTopic(t *topicState) *meta.Topic {
	topic := &meta.Topic{Name: t.name, ID: t.id, Config: t.overrides, Internal: t.internal,
		Partitions: make([]meta.PartitionInfo, len(t.partitions))}
	for i, p := range t.partitions {
		topic.Partitions[i] = meta.PartitionInfo{Leader: -1, LeaderEpoch: -1}
		if p != nil {
			topic.Partitions[i] = meta.PartitionInfo{Leader: c.o.broker.Config.NodeID, LeaderEpoch: p.log.LeaderEpoch()}
		}
	}
	return topic
}

// remove stops serving the topic of a resource that has gone. Another resource of
// the same Kafka name, with another id, is not touched.
func (c *change) remove(topic *meta.KafkaTopic) {
	c.open()
	delete(c.o.failed, topic.Metadata.Name)
	delete(c.o.wanted, topic.Metadata.Name)
	if served := c.topics[topic.Status.TopicName]; served != nil && served.id == topic.Status.TopicID {
		c.drop(served, false)
	}
}

func (c *change) drop(served *topicState, keep bool) {
	c.open() // it may be one of them
	delete(c.topics, served.name)
	delete(c.byID, served.id)
	c.removed = append(c.removed, removedTopic{served, keep})
}

// finish publishes what is left and returns what could not be served.
func (c *change) finish() error {
	c.publish()
	return errors.Join(c.errs...)
}

// publish makes the change visible, in the order that the observer promises, and
// goes on from there.
func (c *change) publish() {
	c.open()
	if len(c.image) == 0 && len(c.removed) == 0 {
		return
	}
	b := c.o.broker
	previous := b.view.Load()
	for _, t := range c.removed {
		for _, p := range t.partitions {
			if p != nil {
				p.removed.Store(true)
			}
		}
	}
	c.runAdded(previous)
	next := &view{topics: c.topics, byID: c.byID}
	for _, t := range next.topics {
		next.partitions += len(t.partitions)
	}
	c.o.publish(next, c.nextImage())
	for _, t := range c.removed {
		c.forget(t)
	}
	c.deleteLogs()
	c.reset()
}

func (c *change) nextImage() *meta.Image {
	var remove []string
	for _, t := range c.removed {
		if c.topics[t.name] == nil {
			remove = append(remove, t.name)
		}
	}
	var set []*meta.Topic
	for _, t := range c.image {
		// A topic that was set and then removed in the same change is not there.
		if now := c.topics[t.Name]; now != nil && now.id == t.ID {
			set = append(set, t)
		}
	}
	return c.o.broker.Images.Load().WithTopics(set, remove)
}

func (c *change) runAdded(previous *view) {
	hooks := c.o.broker.hooks.partitionAdded
	if len(hooks) == 0 {
		return
	}
	for _, topic := range c.image {
		now := c.topics[topic.Name]
		if now == nil || now.id != topic.ID {
			continue
		}
		old := previous.byID[now.id]
		for i, p := range now.partitions {
			if p == nil || old != nil && i < len(old.partitions) && old.partitions[i] == p {
				continue
			}
			for _, hook := range hooks {
				hook(p)
			}
		}
	}
}

// forget runs after the topic is in no view any more, before its logs go.
func (c *change) forget(t removedTopic) {
	b := c.o.broker
	for _, p := range t.partitions {
		if p == nil {
			continue
		}
		for _, hook := range b.hooks.partitionRemoved {
			hook(p)
		}
	}
	for _, hook := range b.hooks.topicRemoved {
		hook(t.name, t.id)
	}
}

// deleteLogs deletes the logs of what was removed, several at a time.
func (c *change) deleteLogs() {
	var group sync.WaitGroup
	slots := make(chan struct{}, limits.ObserverEnsureWorkers)
	for _, t := range c.removed {
		for i := range t.partitions {
			if t.keep {
				continue
			}
			slots <- struct{}{}
			group.Go(func() {
				if err := c.o.broker.Store.Delete(t.name, int32(i)); err != nil {
					c.o.log.Error("a deleted topic's partition could not be removed from disk; remove the directory by hand", "topic", t.name, "partition", i, "error", err)
				}
				<-slots
			})
		}
	}
	group.Wait()
}

// partitionConfig is a topic's configuration in the log store's terms.
func partitionConfig(t *config.Topic) logstore.Config {
	return logstore.Config{
		SegmentBytes: t.SegmentBytes, IndexIntervalBytes: t.IndexIntervalBytes, SegmentIndexBytes: t.SegmentIndexBytes,
		MaxMessageBytes: t.MaxMessageBytes, SegmentMs: t.SegmentMs, SegmentJitterMs: t.SegmentJitterMs,
		RetentionMs: t.RetentionMs, RetentionBytes: t.RetentionBytes, FlushMessages: t.FlushMessages, FlushMs: t.FlushMs,
		DeleteRetentionMs: t.DeleteRetentionMs, MinCompactionLagMs: t.MinCompactionLagMs, MaxCompactionLagMs: t.MaxCompactionLagMs,
		FileDeleteDelayMs: t.FileDeleteDelayMs, TimestampBeforeMaxMs: t.TimestampBeforeMaxMs, TimestampAfterMaxMs: t.TimestampAfterMaxMs,
		LogAppendTime: t.LogAppendTime, CompressionType: t.CompressionType,
		CleanupDelete: t.CleanupDelete, CleanupCompact: t.CleanupCompact, MinCleanableDirtyRatio: t.MinCleanableDirtyRatio,
	}
}
