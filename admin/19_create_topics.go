package admin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// CreateTopics, key 19, v0 to v7.
//
// Each topic becomes a KafkaTopic resource; the reply waits, at most the
// request's timeout, until this broker serves all of them. When the wait ends
// first, the topic is reported as created with the zero id.
//
//	v0     no error message, no validate_only, no throttle time
//	v1     validate_only, error messages
//	v2     throttle time
//	v4     -1 partitions and replicas are the defaults (KIP-464); kaas takes them
//	       in older versions, too, as Kafka's controller does
//	v5     flexible; counts and configs in the reply (KIP-525)
//	v7     topic id in the reply (KIP-516)
//
// Order of checks and their messages: Kafka's ControllerApis.createTopics and
// ReplicationControlManager.createTopic.
func (a *Admin) createTopicsAPI() codec.API {
	return codec.API{
		Key: 19, Name: "CreateTopics", MinVersion: 0, MaxVersion: 7, Class: codec.Pool,
		Handle: a.createTopics, Refuse: refuseCreateTopics,
		Note: "each topic becomes a KafkaTopic resource; the reply waits until it is served",
	}
}

func refuseCreateTopics(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrCreateTopicsRequest(), func(request *kmsg.CreateTopicsRequest, response *kmsg.CreateTopicsResponse) {
		response.ThrottleMillis = throttleMs
		for i := range request.Topics {
			topic := newTopicResult(request.Topics[i].Topic)
			topic.ErrorCode = errorCode
			response.Topics = append(response.Topics, topic)
		}
	})
}

// newTopic is one topic of a request on its way through the checks.
type newTopic struct {
	request     *kmsg.CreateTopicsRequestTopic
	partitions  int32
	replication int16
	overrides   map[string]string
	failure     *failure
	pending     *pendingTopic
}

// resourceOf is what the topic becomes.
func (a *Admin) resourceOf(t *newTopic) *meta.KafkaTopic {
	return a.newTopicResource(t.request.Topic, t.partitions, t.overrides)
}

func (a *Admin) createTopics(r *codec.Request) {
	request := kmsg.NewPtrCreateTopicsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	ctx, cancel := a.deadline(r, request.TimeoutMillis)
	defer cancel()
	topics := a.checkNewTopics(r, request)
	if a.DropTopic != nil { // dev mode: refused even when nothing would be written
		for _, topic := range topics {
			if topic.failure == nil {
				topic.failure = a.asFailure(meta.ErrDevMode)
			}
		}
	}
	if !request.ValidateOnly {
		pending := a.writeTopics(topics)
		a.awaitTopics(ctx, pending)
	}
	response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
	response.Topics = make([]kmsg.CreateTopicsResponseTopic, 0, len(topics))
	for _, topic := range topics {
		response.Topics = append(response.Topics, a.createdTopic(r, topic))
	}
	r.Respond(response)
}

// writeTopics makes the resources of all topics without a failure, in one batch. The
// write is not bounded by the wait's deadline: a request with timeout 0 creates its
// topics, too.
func (a *Admin) writeTopics(topics []*newTopic) []*pendingTopic {
	var objects []meta.Object
	var written []*newTopic
	for _, topic := range topics {
		if topic.failure == nil {
			objects, written = append(objects, a.resourceOf(topic)), append(written, topic)
		}
	}
	var pending []*pendingTopic
	for i, result := range meta.CreateAll(a.pool.ctx, a.Resources, objects) {
		topic := written[i]
		created, ok := result.Object.(*meta.KafkaTopic)
		switch {
		case errors.Is(result.Err, meta.ErrAlreadyExists):
			topic.failure = fail(kerr.TopicAlreadyExists, "Topic '%s' already exists.", topic.request.Topic)
		case result.Err != nil:
			topic.failure = a.asFailure(result.Err)
		case !ok:
			panic(fmt.Sprintf("BUG: the store made a %T of a KafkaTopic", result.Object))
		default:
			topic.pending = &pendingTopic{name: topic.request.Topic, resource: created}
			pending = append(pending, topic.pending)
		}
	}
	return pending
}

// checkNewTopics returns one entry per name. Nothing is written.
func (a *Admin) checkNewTopics(r *codec.Request, request *kmsg.CreateTopicsRequest) []*newTopic {
	seen := make(map[string]*newTopic, len(request.Topics))
	topics := make([]*newTopic, 0, len(request.Topics))
	for i := range request.Topics {
		topic := &request.Topics[i]
		if first := seen[topic.Topic]; first != nil {
			first.failure = fail(kerr.InvalidRequest, "Duplicate topic name.")
			continue
		}
		seen[topic.Topic] = &newTopic{request: topic}
		topics = append(topics, seen[topic.Topic])
	}
	all := a.visible(r, auth.OperationCreate, auth.ResourceCluster, auth.ClusterName)
	image := a.Images.Load()
	names := &takenNames{image: image}
	var sum int64
	for _, topic := range topics {
		name := topic.request.Topic
		switch {
		case topic.failure != nil:
		case !all && !a.allowed(r, auth.OperationCreate, auth.ResourceTopic, name):
			topic.failure = fail(kerr.TopicAuthorizationFailed, "Authorization failed.")
		default:
			topic.failure = a.checkNewTopic(image, topic, names)
		}
		if topic.failure == nil {
			sum += int64(topic.partitions)
			names.take(name)
		}
	}
	a.boundPartitions(image, topics, sum)
	for _, topic := range topics {
		if topic.failure == nil {
			topic.failure = a.vetCreation(r, request.ValidateOnly, a.resourceOf(topic), int32(topic.replication))
		}
	}
	return topics
}

// boundPartitions refuses what one request or this broker can't hold.
func (a *Admin) boundPartitions(image *meta.Image, topics []*newTopic, sum int64) {
	var have int64
	for _, topic := range image.Topics() {
		have += int64(len(topic.Partitions))
	}
	for _, topic := range topics {
		switch {
		case topic.failure != nil:
		case sum > limits.PartitionsPerRequest:
			topic.failure = fail(kerr.PolicyViolation, "Excessively large number of partitions per request: %d, at most %d.", sum, limits.PartitionsPerRequest)
		case have+sum > limits.MaxPartitionsPerBroker:
			topic.failure = fail(kerr.InvalidPartitions, "The broker would have %d partitions, at most %d.", have+sum, limits.MaxPartitionsPerBroker)
		}
	}
}

// checkNewTopic decides counts and configs of one topic.
func (a *Admin) checkNewTopic(image *meta.Image, topic *newTopic, names *takenNames) *failure {
	name := topic.request.Topic
	if name == clusterMetadataTopic {
		return fail(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", name)
	}
	if err := meta.ValidateTopicName(name); err != nil {
		return fail(kerr.InvalidTopicException, "%s", err)
	}
	if image.Topic(name) != nil {
		return fail(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	if other := names.collision(name); other != "" {
		return fail(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	topic.overrides = make(map[string]string, len(topic.request.Configs))
	for _, entry := range topic.request.Configs {
		if entry.Value == nil {
			return fail(kerr.InvalidConfig, "Null value not supported for topic configs: %s", entry.Name)
		}
		topic.overrides[meta.DottedConfigKey(entry.Name)] = *entry.Value
	}
	if _, err := config.ParseTopic(a.Config, topic.overrides); err != nil {
		return fail(kerr.InvalidConfig, "%s", err)
	}
	return a.decideCounts(image, topic)
}

func (a *Admin) decideCounts(image *meta.Image, topic *newTopic) *failure {
	request := topic.request
	if len(request.ReplicaAssignment) > 0 {
		if request.ReplicationFactor != -1 {
			return fail(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
		}
		if request.NumPartitions != -1 {
			return fail(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
		}
		return checkAssignment(image, topic)
	}
	topic.partitions, topic.replication = request.NumPartitions, request.ReplicationFactor
	if topic.replication == -1 {
		topic.replication = int16(a.Config.DefaultReplicationFactor)
	}
	if topic.partitions == -1 {
		topic.partitions = a.Config.NumPartitions
	}
	if topic.replication <= 0 {
		return fail(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if topic.partitions <= 0 {
		return fail(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	return nil
}

// checkAssignment validates a manual assignment as
// ReplicationControlManager.createTopic and validateManualPartitionAssignment
// do. kaas keeps one copy on the volume, so of the assignment only its shape is
// taken.
func checkAssignment(image *meta.Image, topic *newTopic) *failure {
	replication := -1
	seen := make(map[int32]bool)
	for _, assignment := range topic.request.ReplicaAssignment {
		if seen[assignment.Partition] {
			return fail(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", assignment.Partition)
		}
		seen[assignment.Partition] = true
		if failure := checkReplicas(image, assignment.Replicas, replication); failure != nil {
			return failure
		}
		replication = len(assignment.Replicas)
	}
	for partition := range int32(len(seen)) {
		if !seen[partition] {
			return fail(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
	}
	topic.partitions, topic.replication = int32(len(seen)), int16(replication)
	return nil
}

// checkReplicas validates the replicas of one partition; replication -1 takes
// any number of them.
func checkReplicas(image *meta.Image, replicas []int32, replication int) *failure {
	if len(replicas) == 0 {
		return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, broker := range sorted {
		if !slices.ContainsFunc(image.Brokers, func(b meta.BrokerInfo) bool { return b.ID == broker }) {
			return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", broker)
		}
		if i > 0 && sorted[i-1] == broker {
			return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", broker)
		}
	}
	if replication >= 0 && len(replicas) != replication {
		return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), replication)
	}
	return nil
}

// clusterMetadataTopic is Kafka's KRaft log, which no request may name.
const clusterMetadataTopic = "__cluster_metadata"

func newTopicResult(name string) kmsg.CreateTopicsResponseTopic {
	result := kmsg.NewCreateTopicsResponseTopic()
	result.Topic = name
	result.NumPartitions, result.ReplicationFactor = -1, -1
	result.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // null is "not known" to some clients
	return result
}

// createdTopic is the reply for one topic.
func (a *Admin) createdTopic(r *codec.Request, topic *newTopic) kmsg.CreateTopicsResponseTopic {
	result := newTopicResult(topic.request.Topic)
	problem := topic.failure
	if problem == nil && topic.pending != nil {
		problem = topic.pending.failure
	}
	if problem != nil {
		result.ErrorCode, result.ErrorMessage = problem.code.Code, &problem.message
		return result
	}
	if topic.pending != nil {
		if served := topic.pending.servedIn(a.Images.Load()); served != nil {
			result.TopicID = served.ID
		}
	}
	if r.Version < 5 {
		return result
	}
	if !a.visible(r, auth.OperationDescribeConfigs, auth.ResourceTopic, topic.request.Topic) {
		result.ConfigErrorCode = kerr.TopicAuthorizationFailed.Code
		return result
	}
	result.NumPartitions, result.ReplicationFactor = topic.partitions, topic.replication
	for _, entry := range a.Config.DescribeTopic(maps.Clone(topic.overrides)) {
		value := kmsg.NewCreateTopicsResponseTopicConfig()
		value.Name, value.ReadOnly, value.IsSensitive = entry.Key.Name, entry.ReadOnly, entry.Key.Sensitive()
		value.Source = int8(entry.Source)
		if !entry.Null && !value.IsSensitive {
			value.Value = kmsg.StringPtr(entry.Value)
		}
		result.Configs = append(result.Configs, value)
	}
	return result
}
