package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"kaas/internal/limits"
	"kaas/meta"
)

// Reconciler makes the status of topics follow their spec. It knows the store
// only through the port, so standalone and cluster mode share it.
//
// All state belongs to one goroutine: the one that calls StartReconciler until
// the first pass is done, then the reconciler's own.
type Reconciler struct {
	options ReconcilerOptions
	logger  *slog.Logger
	cancel  context.CancelFunc
	done    chan struct{}

	topics     map[string]*meta.KafkaTopic // by resource name
	byName     map[string][]string         // Kafka name → resource names that claim it
	byFolded   map[string][]string         // foldName of the Kafka name → the same
	byID       map[meta.UUID][]string      // topic id → resource names that hold it
	partitions int64                       // sum of PartitionCount over topics
	// crowded holds Kafka names that were refused because there are too many
	// partitions: a deletion makes room for them.
	crowded map[string]bool
	// retry holds Kafka names whose status could not be written.
	retry map[string]bool
	// pending are decided and not stored yet; empty between two events.
	pending []statusWrite
	// admitted holds resources that are being created with a status from Admit; they
	// are among topics although the watch has not shown them yet.
	admitted  map[string]bool
	firstPass bool

	// requests come from Admit and Withdraw.
	requests chan admission
}

// statusWrite is a status that name's resource gets: topic as it was, next as it
// will be.
type statusWrite struct {
	name        string
	topic, next *meta.KafkaTopic
}

// StartReconciler returns after the first full pass: from then on every topic
// that is to be served has its id in status.
func StartReconciler(ctx context.Context, o ReconcilerOptions) (*Reconciler, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.ValidateConfig == nil {
		o.ValidateConfig = func(map[string]string) error { return nil }
	}
	if o.DefaultPartitions == nil {
		o.DefaultPartitions = func() int32 { return 1 }
	}
	own, cancel := context.WithCancel(context.Background())
	r := &Reconciler{options: o, logger: o.Logger, cancel: cancel, done: make(chan struct{}), retry: make(map[string]bool), firstPass: true, requests: make(chan admission)}
	stop := context.AfterFunc(ctx, cancel) // the caller's context bounds the first pass only
	events, err := r.begin(own)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("reconciler: %w", err)
	}
	r.firstPass = false
	go r.run(own, events)
	if store, ok := o.Store.(meta.AdmittingStore); ok {
		store.SetTopicAdmitter(r)
	}
	return r, nil
}

// Close stops the reconciler and waits for it.
func (r *Reconciler) Close() {
	if store, ok := r.options.Store.(meta.AdmittingStore); ok {
		store.SetTopicAdmitter(nil)
	}
	r.cancel()
	<-r.done
}

// begin lists through a fresh watch and reconciles all topics.
func (r *Reconciler) begin(ctx context.Context) (<-chan meta.Event, error) {
	r.topics = make(map[string]*meta.KafkaTopic)
	r.byName = make(map[string][]string)
	r.byFolded = make(map[string][]string)
	r.partitions = 0
	r.crowded = make(map[string]bool)
	r.admitted = make(map[string]bool)
	r.byID = make(map[meta.UUID][]string)
	events, err := r.options.Store.Watch(ctx, meta.KindTopic, "")
	if err != nil {
		return nil, err
	}
	for {
		event, ok := <-events
		if !ok {
			return nil, errors.Join(errors.New("the watch ended before it was complete"), ctx.Err())
		}
		if event.Type == meta.Synced {
			break
		}
		r.note(event)
	}
	names := make([]string, 0, len(r.byName))
	for name := range r.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	r.reconcileNames(ctx, names)
	return events, nil
}

// reconcileNames brings the status of all that claim these Kafka names up to date,
// with as few writes of the store as that takes.
func (r *Reconciler) reconcileNames(ctx context.Context, names []string) {
	for _, name := range names {
		if r.reconcileName(name); len(r.pending) >= limits.ResourceBatch {
			r.flush(ctx)
		}
	}
	r.flush(ctx)
}

// noteAll takes an event and those that wait behind it into the state and returns
// the Kafka names that they touch. ended: the watch has.
func (r *Reconciler) noteAll(event meta.Event, more <-chan meta.Event) (names []string, ended bool) {
	defer func() {
		slices.Sort(names)
		names = slices.Compact(names)
	}()
	for n := 1; ; n++ {
		names = append(names, r.note(event)...)
		if n == limits.ResourceBatch {
			return names, false
		}
		select {
		case next, ok := <-more:
			if !ok {
				return names, true
			}
			event = next
		default:
			return names, false
		}
	}
}

func (r *Reconciler) run(ctx context.Context, events <-chan meta.Event) {
	defer close(r.done)
	// The timer runs only while something waits for it: an idle broker sleeps.
	timer := time.NewTimer(limits.ReconcileRetry)
	defer timer.Stop()
	armed := true
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if ok {
				names, ended := r.noteAll(event, events)
				r.reconcileNames(ctx, names)
				ok = !ended
			}
			if !ok {
				if events = r.resume(ctx); events == nil {
					return
				}
			}
		case request := <-r.requests:
			r.serve(ctx, request)
		case <-timer.C:
			armed = false
			names := slices.Sorted(maps.Keys(r.retry))
			r.retry = make(map[string]bool) // refilled by what fails again
			r.reconcileNames(ctx, names)
		}
		if len(r.retry) > 0 && !armed {
			armed = true
			timer.Reset(limits.ReconcileRetry)
		}
	}
}

// resume begins anew after a watch has ended; nil when the reconciler is closed.
func (r *Reconciler) resume(ctx context.Context) <-chan meta.Event {
	for ctx.Err() == nil {
		events, err := r.begin(ctx)
		if err == nil {
			return events
		}
		r.logger.Warn("topics can't be watched; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(limits.ReconcileRetry):
		}
	}
	return nil
}

// note takes an event into the state and returns the Kafka names that it touches.
func (r *Reconciler) note(event meta.Event) []string {
	topic, ok := event.Object.(*meta.KafkaTopic)
	if !ok {
		return nil
	}
	var touched []string
	if old := r.topics[topic.Metadata.Name]; old != nil {
		touched = append(touched, r.remove(old)...)
	}
	if r.admitted[topic.Metadata.Name] {
		delete(r.admitted, topic.Metadata.Name)
		r.report(topic.ClaimedName(), topic, &meta.KafkaTopicStatus{}, &topic.Status)
	}
	if event.Type != meta.Deleted {
		touched = append(touched, r.insert(topic)...)
	} else {
		touched = slices.AppendSeq(touched, maps.Keys(r.crowded))
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

func (r *Reconciler) insert(topic *meta.KafkaTopic) []string {
	resource, name, id := topic.Metadata.Name, topic.ClaimedName(), topic.Status.TopicID
	r.topics[resource] = topic
	r.partitions += int64(topic.Status.PartitionCount)
	r.byName[name] = append(r.byName[name], resource)
	r.byFolded[foldName(name)] = append(r.byFolded[foldName(name)], resource)
	touched := []string{name}
	if !id.IsZero() {
		r.byID[id] = append(r.byID[id], resource)
		touched = append(touched, r.namesOf(r.byID[id])...)
	}
	return touched
}

// remove also returns the names that may have waited for the one that goes.
func (r *Reconciler) remove(topic *meta.KafkaTopic) []string {
	resource, name, id := topic.Metadata.Name, topic.ClaimedName(), topic.Status.TopicID
	delete(r.topics, resource)
	r.partitions -= int64(topic.Status.PartitionCount)
	touched := []string{name}
	dropFrom(r.byName, name, resource)
	touched = append(touched, r.namesOf(dropFrom(r.byFolded, foldName(name), resource))...)
	if !id.IsZero() {
		touched = append(touched, r.namesOf(dropFrom(r.byID, id, resource))...)
	}
	return touched
}

// dropFrom takes a resource out of an index and returns who is left there.
func dropFrom[K comparable](index map[K][]string, key K, resource string) []string {
	rest := slices.DeleteFunc(index[key], func(other string) bool { return other == resource })
	if len(rest) == 0 {
		delete(index, key)
		return nil
	}
	index[key] = rest
	return rest
}

func (r *Reconciler) namesOf(resources []string) []string {
	var names []string
	for _, resource := range resources {
		if topic := r.topics[resource]; topic != nil {
			names = append(names, topic.ClaimedName())
		}
	}
	return names
}

// reconcileName decides which resource has a Kafka name and brings the status of
// all that claim it up to date.
func (r *Reconciler) reconcileName(name string) {
	claims := slices.Clone(r.byName[name])
	topics := make([]*meta.KafkaTopic, len(claims))
	for i, resource := range claims {
		topics[i] = r.topics[resource]
	}
	slices.SortFunc(topics, r.compareClaims)
	for i, topic := range topics {
		var status meta.KafkaTopicStatus
		if i == 0 {
			status = r.desired(topic)
		} else {
			status = refused(topic, meta.KafkaTopicStatus{}, "TopicNameConflict",
				fmt.Sprintf("topic %s belongs to the older KafkaTopic %s; give this one another spec.topicName or remove it", name, topics[0].Metadata.Name))
		}
		r.write(name, topic, status)
	}
}

// compareClaims orders resources that claim one name: one that holds a topic
// before one that doesn't, so that a forged or copied timestamp never takes a
// topic with data away; then the older; then by name.
func (r *Reconciler) compareClaims(a, b *meta.KafkaTopic) int {
	holdsA, holdsB := r.holdsTopic(a), r.holdsTopic(b)
	switch {
	case holdsA && !holdsB:
		return -1
	case holdsB && !holdsA:
		return 1
	}
	return meta.CompareAge(a, b)
}

// holdsTopic says whether a resource has a topic id of its own. A file that was
// copied together with its status holds the id of another resource: the oldest
// one keeps it.
func (r *Reconciler) holdsTopic(topic *meta.KafkaTopic) bool {
	if topic.Status.TopicID.IsZero() {
		return false
	}
	for _, resource := range r.byID[topic.Status.TopicID] {
		other := r.topics[resource]
		if other == nil || other.Metadata.Name == topic.Metadata.Name {
			continue
		}
		if meta.CompareAge(other, topic) < 0 {
			return false
		}
	}
	return true
}

// write queues a status that changed. The state has it at once, so that what is
// decided next in the same batch (a colliding name, one topic too many) sees it;
// flush takes it back when it can't be stored.
func (r *Reconciler) write(name string, topic *meta.KafkaTopic, status meta.KafkaTopicStatus) {
	r.stamp(topic, &status)
	if condition := meta.FindCondition(status.Conditions, meta.ConditionReady); condition != nil && condition.Reason == reasonTooManyPartitions {
		r.crowded[name] = true
	} else {
		delete(r.crowded, name)
	}
	if sameStatus(&topic.Status, &status) {
		if r.firstPass {
			r.report(name, topic, &meta.KafkaTopicStatus{TopicID: status.TopicID}, &status)
		}
		return
	}
	next := topic.Copy()
	next.Status = status
	r.pending = append(r.pending, statusWrite{name, topic, next})
	r.note(meta.Event{Type: meta.Modified, Object: next})
}

// flush stores what was queued.
func (r *Reconciler) flush(ctx context.Context) {
	if len(r.pending) == 0 {
		return
	}
	pending := r.pending
	r.pending = nil
	objects := make([]meta.Object, len(pending))
	for i := range pending {
		objects[i] = pending[i].next
	}
	for i, result := range meta.UpdateStatusAll(ctx, r.options.Store, objects) {
		if result.Err != nil {
			r.note(meta.Event{Type: meta.Modified, Object: pending[i].topic})
		}
		r.written(ctx, &pending[i], result)
	}
}

// written takes in what became of a write.
func (r *Reconciler) written(ctx context.Context, w *statusWrite, result meta.WriteResult) {
	name, resource, err := w.name, w.topic.Metadata.Name, result.Err
	switch {
	case err == nil:
		r.report(name, w.topic, &w.topic.Status, &w.next.Status)
		// The event of this very change comes later and changes nothing.
		r.note(meta.Event{Type: meta.Modified, Object: result.Object})
		if claimed := w.next.ClaimedName(); claimed != name {
			r.retry[claimed] = true
		}
	case errors.Is(err, meta.ErrNotFound), errors.Is(err, meta.ErrConflict):
		// Most likely the deletion, or a newer state, is on its way through the watch.
		// If the edit was of a comment only, or the file was put back in time, there is
		// none: try again.
		r.retry[name] = true
	case errors.Is(err, meta.ErrInvalid):
		r.logger.Warn("the status of a topic can't be kept", "resource", resource, "topic", name, "error", err)
	case ctx.Err() == nil:
		r.logger.Warn("the status of a topic can't be written; trying again", "resource", resource, "topic", name, "error", err)
		r.retry[name] = true
	}
}

// report logs what somebody who looks at the broker's log and not at status wants
// to know: topics that begin, specs that are refused, and that they are no more.
func (r *Reconciler) report(name string, topic *meta.KafkaTopic, before, after *meta.KafkaTopicStatus) {
	if before.TopicID.IsZero() && !after.TopicID.IsZero() {
		r.logger.Info("topic created", "topic", name, "topicId", after.TopicID.String(), "partitions", after.PartitionCount, "resource", topic.Metadata.Name)
	}
	logReady(r.logger, string(meta.KindTopic)+" "+topic.Metadata.Name, before.Conditions, after.Conditions)
}

// logReady says that a spec is refused, for another reason than before, or in force
// again.
func logReady(logger *slog.Logger, resource string, before, after []meta.Condition) {
	old, now := meta.FindCondition(before, meta.ConditionReady), meta.FindCondition(after, meta.ConditionReady)
	switch {
	case now == nil || old != nil && old.Reason == now.Reason && old.Message == now.Message:
	case now.Status == "False":
		logger.Warn("a resource is refused; what was in force before stays in force", "resource", resource, "reason", now.Reason, "message", now.Message)
	case old != nil && old.Status == "False":
		logger.Info("a resource is in force again", "resource", resource)
	}
}

// stamp says which edit a status speaks of, see stampConditions.
func (r *Reconciler) stamp(topic *meta.KafkaTopic, status *meta.KafkaTopicStatus) {
	status.Conditions = stampConditions(r.options.Clock(), topic.Metadata.Generation, topic.Status.Conditions, status.Conditions)
	status.ObservedGeneration = topic.Metadata.Generation
}

// stampConditions carries over conditions of other writers and the transition
// times of conditions whose status did not change.
func stampConditions(now time.Time, generation int64, old, next []meta.Condition) []meta.Condition {
	now = now.UTC().Truncate(time.Second)
	for i := range next {
		condition := &next[i]
		condition.ObservedGeneration = generation
		condition.LastTransitionTime = now
		if before := meta.FindCondition(old, condition.Type); before != nil && before.Status == condition.Status && !before.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	for _, before := range old {
		if meta.FindCondition(next, before.Type) == nil {
			next = append(next, before)
		}
	}
	return next
}
