package kube

import (
	"context"

	"kaas/meta"
)

// Admission: a topic that is created gets its status with the same write, when
// nothing speaks against it. Whatever does is left to the ordinary way, which knows
// how to refuse: the resource is stored without a status and reconciled like one
// written by hand.

// admission is a request of Admit or Withdraw to the reconciler's goroutine. The
// topics are the requester's again when done is closed.
type admission struct {
	topics   []*meta.KafkaTopic
	withdraw bool
	done     chan struct{}
}

// Admit implements meta.TopicAdmitter. An admitted topic counts from now on, for the
// names and the partitions of others too, until the watch shows it or Withdraw does.
func (r *Reconciler) Admit(ctx context.Context, topics []*meta.KafkaTopic) {
	r.request(ctx, admission{topics: topics, done: make(chan struct{})})
}

// Withdraw implements meta.TopicAdmitter.
func (r *Reconciler) Withdraw(topics []*meta.KafkaTopic) {
	r.request(context.Background(), admission{topics: topics, withdraw: true, done: make(chan struct{})})
}

func (r *Reconciler) request(ctx context.Context, request admission) {
	select {
	case r.requests <- request:
	case <-ctx.Done():
		return
	case <-r.done:
		return
	}
	<-request.done // what the goroutine has taken it finishes
}

// serve runs on the reconciler's goroutine.
func (r *Reconciler) serve(ctx context.Context, request admission) {
	if request.withdraw {
		var touched []string
		for _, topic := range request.topics {
			if name := topic.Metadata.Name; r.admitted[name] {
				delete(r.admitted, name)
				touched = append(touched, r.remove(r.topics[name])...)
			}
		}
		close(request.done) // before a write: who withdraws does not wait for the disk
		r.reconcileNames(ctx, touched)
		return
	}
	for _, topic := range request.topics {
		r.admit(topic)
	}
	close(request.done)
}

// admit decides one topic.
func (r *Reconciler) admit(topic *meta.KafkaTopic) {
	resource := topic.Metadata.Name
	if r.topics[resource] != nil || len(r.byName[topic.KafkaName()]) > 0 {
		return // it exists, or was deleted a moment ago and the watch is behind
	}
	inForce, err := r.accept(topic, meta.KafkaTopicStatus{})
	if err != nil {
		return
	}
	inForce.Conditions = ready("True", "Reconciled", "")
	r.stamp(topic, &inForce)
	topic.Status = inForce
	r.insert(topic.Copy())
	r.admitted[resource] = true
}
