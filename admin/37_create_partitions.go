package admin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
)

// CreatePartitions, key 37, v0 to v3.
//
// spec.partitions of the resource is raised; the reply waits, at most the
// request's timeout, until this broker serves the new partitions. Internal topics
// are refused with INVALID_REQUEST while the others of the request go on
// (KAFKA-20029), unless
// controller.unstable.allow.internal.coordinator.partition.increase is set.
//
//	v2     flexible
//	v3     as v2 (the error code for throttling is new)
//
// Checks: Kafka's ControllerApis.createPartitions and
// ReplicationControlManager.createPartitions.
func (a *Admin) createPartitionsAPI() codec.API {
	return codec.API{
		Key: 37, Name: "CreatePartitions", MinVersion: 0, MaxVersion: 3, Class: codec.Pool,
		Handle: a.createPartitions, Refuse: refuseCreatePartitions,
		Note: "raises spec.partitions; internal topics are refused",
	}
}

func refuseCreatePartitions(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrCreatePartitionsRequest(), func(request *kmsg.CreatePartitionsRequest, response *kmsg.CreatePartitionsResponse) {
		response.ThrottleMillis = throttleMs
		for i := range request.Topics {
			topic := kmsg.NewCreatePartitionsResponseTopic()
			topic.Topic, topic.ErrorCode = request.Topics[i].Topic, errorCode
			response.Topics = append(response.Topics, topic)
		}
	})
}

func (a *Admin) createPartitions(r *codec.Request) {
	request := kmsg.NewPtrCreatePartitionsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	ctx, cancel := a.deadline(r, request.TimeoutMillis)
	defer cancel()
	times := make(map[string]int, len(request.Topics))
	for i := range request.Topics {
		times[request.Topics[i].Topic]++
	}
	response := request.ResponseKind().(*kmsg.CreatePartitionsResponse)
	growing := make(map[string]*growth)
	answered := make(map[string]bool)
	var added int64
	for i := range request.Topics {
		topic := &request.Topics[i]
		if answered[topic.Topic] {
			continue
		}
		answered[topic.Topic] = true
		failure := a.checkGrowth(r, topic, times[topic.Topic] > 1, &added)
		if failure == nil && a.DropTopic != nil {
			failure = a.asFailure(meta.ErrDevMode)
		}
		if failure == nil && !request.ValidateOnly {
			var err error
			if growing[topic.Topic], err = a.grow(topic.Topic, topic.Count); err != nil {
				delete(growing, topic.Topic)
				failure = a.asFailure(err)
			}
		}
		result := kmsg.NewCreatePartitionsResponseTopic()
		result.Topic = topic.Topic
		setPartitionsResult(&result, failure)
		response.Topics = append(response.Topics, result)
	}
	a.awaitGrowth(ctx, growing)
	for i := range response.Topics {
		if growth := growing[response.Topics[i].Topic]; growth != nil && growth.failure != nil {
			setPartitionsResult(&response.Topics[i], growth.failure)
		}
	}
	r.Respond(response)
}

func setPartitionsResult(result *kmsg.CreatePartitionsResponseTopic, failure *failure) {
	if failure == nil {
		return
	}
	result.ErrorCode = failure.code.Code
	if failure.message != "" {
		result.ErrorMessage = &failure.message
	}
}

func (a *Admin) checkGrowth(r *codec.Request, request *kmsg.CreatePartitionsRequestTopic, duplicate bool, added *int64) *failure {
	image := a.Images.Load()
	topic := image.Topic(request.Topic)
	switch {
	case duplicate:
		return fail(kerr.InvalidRequest, "Duplicate topic name.")
	case !a.allowed(r, auth.OperationAlter, auth.ResourceTopic, request.Topic):
		return &failure{code: kerr.TopicAuthorizationFailed} // as Kafka, without a text
	case meta.IsInternalTopicName(request.Topic) && !a.Config.ControllerUnstableAllowInternalCoordinatorPartitionIncrease:
		return fail(kerr.InvalidRequest, "The partitions of the internal topic %s can't be increased: what is kept in it would be looked for in other partitions.", request.Topic)
	case topic == nil:
		return &failure{code: kerr.UnknownTopicOrPartition}
	}
	have := int32(len(topic.Partitions))
	switch {
	case request.Count == have:
		return fail(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case request.Count < have:
		return fail(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", request.Topic, have, request.Count)
	}
	more := int64(request.Count) - int64(have)
	if *added+more > limits.PartitionsPerRequest {
		return fail(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
	}
	var sum int64
	for _, other := range image.Topics() {
		sum += int64(len(other.Partitions))
	}
	if sum+*added+more > limits.MaxPartitionsPerBroker {
		return fail(kerr.InvalidPartitions, "The broker would have %d partitions, at most %d.", sum+*added+more, limits.MaxPartitionsPerBroker)
	}
	if request.Assignment != nil {
		if int64(len(request.Assignment)) != more {
			return fail(kerr.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(request.Assignment))
		}
		for _, assignment := range request.Assignment {
			if failure := checkReplicas(image, assignment.Replicas, -1); failure != nil {
				return failure
			}
		}
	}
	*added += more
	return nil
}

// growth is a topic that gets more partitions.
type growth struct {
	resource   string
	generation int64
	before     *int32 // spec.partitions as it was
	count      int32
	failure    *failure
}

// grow patches the resource.
func (a *Admin) grow(name string, count int32) (*growth, error) {
	growth := &growth{count: count}
	patched, err := a.alterResource(a.pool.ctx, name, func(topic *meta.KafkaTopic) (map[string]any, error) {
		inForce, _ := topic.InForce()
		if count <= inForce.PartitionCount {
			return nil, fail(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", name, inForce.PartitionCount, count)
		}
		growth.before = topic.Spec.Partitions
		return map[string]any{"partitions": count}, nil
	})
	if err != nil {
		return nil, err
	}
	growth.resource, growth.generation = patched.Metadata.Name, patched.Metadata.Generation
	return growth, nil
}

// awaitGrowth waits until the image shows the partitions. A growth that the
// reconciler refuses is taken back.
func (a *Admin) awaitGrowth(ctx context.Context, growing map[string]*growth) {
	arrived := func(image *meta.Image, name string, growth *growth) bool {
		topic := image.Topic(name)
		return growth.failure != nil || topic == nil || int32(len(topic.Partitions)) >= growth.count
	}
	poll := time.Duration(limits.AdminRefusalPollMs) * time.Millisecond
	for len(growing) > 0 {
		slice, cancel := context.WithTimeout(ctx, poll)
		done := a.await(slice, func(image *meta.Image) bool {
			for name, growth := range growing {
				if !arrived(image, name, growth) {
					return false
				}
			}
			return true
		})
		cancel()
		if done || ctx.Err() != nil {
			return
		}
		for name, growth := range growing {
			if arrived(a.Images.Load(), name, growth) {
				continue
			}
			if reason, message := a.refusalOf(ctx, growth.resource, growth.generation); reason != "" {
				growth.failure = refusalFailure(reason, message)
				a.takeBackGrowth(name, growth)
			}
		}
		poll = min(2*poll, limits.AdminRefusalPollMaxMs*time.Millisecond)
	}
}

func (a *Admin) takeBackGrowth(name string, growth *growth) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"partitions": growth.before}})
	if err == nil {
		_, err = a.Resources.Patch(a.pool.ctx, meta.KindTopic, growth.resource, patch)
	}
	if err != nil {
		a.Logger.Warn("a refused partition count can't be taken back", "topic", name, "error", err)
	}
}
