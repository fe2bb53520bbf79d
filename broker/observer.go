package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"kaas/broker/leftover"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// observer makes the broker serve what the topic resources say. It only reads
// resources. All changes of the view and of the image are made on its one
// goroutine, which is why it needs no lock for them; applying a change blocks on
// the disk and therefore never happens on an event loop.
//
// The order for a topic that appears: partitions are ensured on disk, hooks run,
// then view and image name it. For a topic that goes: removed is set, view and
// image are published without it, parked requests are woken, committed offsets
// go, and only then the log is deleted. So nobody finds a topic in the image that
// is not served, and nobody parks for ever on one that has gone.
type observer struct {
	broker *Broker
	log    *slog.Logger

	// commands come from EnsureTopic and DropTopic in dev mode.
	commands chan topicCommand
	// defaults has room for one: the broker's topic defaults have changed.
	defaults chan struct{}
	cancel   context.CancelFunc // set by start
	stopped  chan struct{}      // closed by stop
	done     sync.WaitGroup

	// The rest is owned by the observer's goroutine.

	// wanted is the last state of each topic resource that was seen with an id, by
	// resource name: what a failed partition is retried with.
	wanted map[string]*meta.KafkaTopic
	// failed are the resources that are not served as wanted, with the error that was
	// logged; they are tried again. Its keys are among wanted's.
	failed map[string]string
	// loaded: a first complete list has been served.
	loaded bool

	// unclaimed are the partitions that the start found without a single topic resource. Any goroutine reads it.
	unclaimed atomic.Int64
}

// topicCommand creates or drops a topic in dev mode.
type topicCommand struct {
	topic *meta.KafkaTopic // nil: drop
	name  string
	reply chan error // buffered, one answer
}

func (o *observer) init(b *Broker) {
	o.broker, o.log = b, b.Logger
	o.commands, o.stopped = make(chan topicCommand), make(chan struct{})
	o.defaults = make(chan struct{}, 1)
	o.wanted, o.failed = map[string]*meta.KafkaTopic{}, map[string]string{}
}

// start publishes the first image and runs until stop. It returns when the topics
// that exist are served, or with ctx's error.
func (o *observer) start(ctx context.Context) error {
	if o.cancel != nil {
		panic("BUG: the broker is started twice")
	}
	running, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	o.publish(emptyView, o.emptyImage())
	ready := make(chan struct{})
	o.done.Add(1)
	go func() {
		defer o.done.Done()
		o.run(running, ready)
	}()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the topics could not be listed in time: %w", ctx.Err())
	}
}

func (o *observer) stop() {
	close(o.stopped)
	if o.cancel != nil {
		o.cancel()
		o.done.Wait()
	}
}

// emptyImage is this broker alone, without topics.
func (o *observer) emptyImage() *meta.Image {
	cfg := o.broker.Config
	self := meta.BrokerInfo{ID: cfg.NodeID, Rack: cfg.BrokerRack, Endpoints: map[string]meta.Endpoint{}}
	for _, l := range cfg.Listeners {
		// An empty host stays empty: each client is told the address that it used.
		self.Endpoints[l.Name] = meta.Endpoint{Host: l.AdvertisedHost, Port: l.AdvertisedPort}
	}
	return meta.NewImage(o.broker.Store.ClusterID(), cfg.NodeID, cfg.NodeID, []meta.BrokerInfo{self}, nil)
}

// publish is the only writer of view and image. The view comes first: whoever
// learns of a topic from the image finds it served. (A topic that goes is still in
// the image for that moment; produce and fetch answer UNKNOWN_TOPIC_OR_PARTITION,
// as to a client whose metadata is old.)
func (o *observer) publish(v *view, image *meta.Image) {
	o.broker.view.Store(v)
	o.broker.Images.Store(image)
}

// run lists and watches until ctx ends. ready is closed once the first list is served.
func (o *observer) run(ctx context.Context, ready chan struct{}) {
	if o.broker.Resources == nil {
		o.markLoaded(ready)
		o.follow(ctx, nil)
		return
	}
	backoff := limits.ObserverRetryMinMs * time.Millisecond
	for ctx.Err() == nil {
		events, err := o.list(ctx, ready)
		if err == nil {
			backoff = limits.ObserverRetryMinMs * time.Millisecond
			o.follow(ctx, events)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		// What is served goes on being served.
		o.log.Warn("the topic resources cannot be read; topics stay as they are, trying again", "in", backoff, "error", err)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, limits.ObserverRetryMaxMs*time.Millisecond)
	}
}

// list serves exactly the topics of one complete list and watches from there.
func (o *observer) list(ctx context.Context, ready chan struct{}) (<-chan meta.Event, error) {
	resources := o.broker.Resources
	objects, revision, err := resources.List(ctx, meta.KindTopic)
	if err != nil {
		return nil, err
	}
	events, err := resources.Watch(ctx, meta.KindTopic, revision)
	if err != nil {
		return nil, err
	}
	if !o.loaded {
		leftover.FinishDeletions(o.broker.Store, o.broker.Resources, objects, o.log)
	}
	change := o.begin()
	gone := maps.Clone(o.wanted)
	for _, object := range objects {
		if topic, ok := object.(*meta.KafkaTopic); ok {
			delete(gone, topic.Metadata.Name)
			change.set(topic)
		}
	}
	for _, topic := range gone {
		change.remove(topic)
	}
	change.finish()
	if !o.loaded {
		o.unclaimed.Store(int64(leftover.SetAside(o.broker.Store, o.broker.Resources, objects, o.log)))
		o.markLoaded(ready)
	}
	return events, nil
}

func (o *observer) markLoaded(ready chan struct{}) {
	o.loaded = true
	for _, hook := range o.broker.hooks.topicsLoaded {
		hook()
	}
	close(ready)
}

// follow applies events and commands until the watch ends or ctx does. events is
// nil in dev mode.
func (o *observer) follow(ctx context.Context, events <-chan meta.Event) {
	retry := time.NewTicker(limits.ObserverRetryMaxMs * time.Millisecond)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				return // fell behind, or the store stopped: list anew
			}
			if !o.applyEvents(event, events) {
				return
			}
		case command := <-o.commands:
			o.applyCommand(command)
		case <-o.defaults:
			o.applyDefaults()
		case <-retry.C:
			o.retryFailed()
		}
	}
}

// applyEvents applies an event with those that wait behind it, as one change.
// False: the watch ended.
func (o *observer) applyEvents(event meta.Event, more <-chan meta.Event) bool {
	change := o.begin()
	defer change.finish()
	for n := 1; ; n++ {
		change.event(event)
		if n == limits.ObserverEventsPerChange {
			return true
		}
		select {
		case next, ok := <-more:
			if !ok {
				return false
			}
			event = next
		default:
			return true
		}
	}
}

func (o *observer) retryFailed() {
	if len(o.failed) == 0 {
		return
	}
	change := o.begin()
	for name := range maps.Clone(o.failed) {
		change.set(o.wanted[name])
	}
	change.finish()
}

// Unclaimed says why not one topic is served though there is data, "" when there is none, or one is.
func (b *Broker) Unclaimed() string {
	n := b.observer.unclaimed.Load()
	if n == 0 || len(b.view.Load().topics) > 0 {
		return ""
	}
	return fmt.Sprintf("%d partitions on disk and no topic resource: is the log directory with resources/ in log.dirs, and mounted?", n)
}

// TopicDefaultsChanged makes the topics follow new defaults of the configuration.
// It does not wait for that.
func (b *Broker) TopicDefaultsChanged() {
	select {
	case b.observer.defaults <- struct{}{}:
	default: // one that has not been looked at covers this one
	}
}

// applyDefaults parses the configuration of all topics anew.
func (o *observer) applyDefaults() {
	change := o.begin()
	for _, topic := range o.wanted {
		served := change.topics[topic.Status.TopicName]
		if served == nil || served.id != topic.Status.TopicID {
			continue
		}
		if overrides, parsed, err := change.parse(topic, served); err == nil && parsed != served.config {
			change.serve(topic, served, overrides, parsed)
		}
	}
	change.finish()
}

// errObserverStopped answers commands after Close.
var errObserverStopped = errors.New("the broker is stopping")

// EnsureTopic implements meta.TopicCreator in dev mode: the topic lives in the
// memory of this broker.
func (o *observer) EnsureTopic(ctx context.Context, name string, partitions int32, overrides map[string]string) error {
	if o.broker.Resources != nil {
		panic("BUG: the observer makes topics in dev mode only; otherwise they are resources")
	}
	if err := meta.ValidateTopicName(name); err != nil {
		return fmt.Errorf("%w: %w", meta.ErrInvalid, err)
	}
	if _, err := config.ParseTopic(o.broker.Config, overrides); err != nil {
		return fmt.Errorf("%w: %w", meta.ErrInvalid, err)
	}
	if partitions == -1 {
		partitions = o.broker.Config.NumPartitions
	}
	topic := meta.NewKafkaTopic(name)
	topic.Spec.Config = make(map[string]any, len(overrides))
	for key, value := range overrides {
		topic.Spec.Config[key] = value
	}
	topic.Status = meta.KafkaTopicStatus{TopicID: meta.NewUUID(), TopicName: name, PartitionCount: partitions, Config: maps.Clone(overrides),
		Conditions: []meta.Condition{{Type: meta.ConditionReady, Status: "True"}}}
	return o.command(ctx, topicCommand{topic: topic, name: name})
}

// DropTopic removes a topic from the memory of a broker in dev mode.
// meta.ErrNotFound when there is none.
func (b *Broker) DropTopic(ctx context.Context, name string) error {
	if b.Resources != nil {
		panic("BUG: topics are dropped from memory in dev mode only; otherwise their resource is deleted")
	}
	return b.observer.command(ctx, topicCommand{name: name})
}

func (o *observer) command(ctx context.Context, command topicCommand) error {
	command.reply = make(chan error, 1)
	select {
	case o.commands <- command:
	case <-o.stopped:
		return errObserverStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-command.reply: // the observer answers what it has taken
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *observer) applyCommand(command topicCommand) {
	served := o.broker.topic(command.name)
	switch {
	case command.topic != nil && served != nil:
		command.reply <- nil
		return
	case command.topic == nil && served == nil:
		command.reply <- fmt.Errorf("topic %s: %w", command.name, meta.ErrNotFound)
		return
	}
	change := o.begin()
	if command.topic != nil {
		change.set(command.topic)
	} else {
		change.remove(o.wanted[meta.TopicResourceName(command.name)])
	}
	command.reply <- change.finish()
}
