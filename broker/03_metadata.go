package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
)

// Metadata (key 3), v0 to v13. Kafka: KafkaApis.handleTopicMetadataRequest.
//
//   - Topics of the request: null is all topics (v1+), in v0 the empty list is.
//   - Brokers are listed with their address on the listener that the client came
//     by; without advertised.listeners that is the address it connected to.
//   - v0 to v3 always allow auto-creation, v4 has a flag. With it and
//     auto.create.topics.enable a missing topic is created on the worker pool and
//     the reply waits for it (package firstuse), then answers
//     UNKNOWN_TOPIC_OR_PARTITION as Kafka does while it creates the topic.
//   - v8: authorised operations of topics, also of missing ones; v8 to v10: of the cluster.
//   - v10: topic ids in the reply; v12: lookup by id, unknown → UNKNOWN_TOPIC_ID.
//     As soon as one id is given, names are ignored, as in Kafka. Ids before v12
//     and null names before v12 are INVALID_REQUEST.
//   - All topics of a broker with many partitions are described on the worker pool,
//     so that one client's listing does not hold up an event loop.
//   - v13: error code of the whole reply (KIP-1102), always 0 here.
//
// Different from Kafka: a null name without an id in v12+ is INVALID_REQUEST,
// where Kafka 4.4 answers UNKNOWN_SERVER_ERROR.

func (b *Broker) metadataAPI() codec.API {
	return codec.API{
		Key: 3, Name: "Metadata", MinVersion: 0, MaxVersion: 13, Class: codec.TwoPhase,
		EstimateBytes: func(_ codec.Header, bodyBytes int) int {
			return codec.DefaultEstimate(bodyBytes) + metadataBytesPerPartition*b.view.Load().partitions
		},
		Handle: b.offLoopWhenLarge(b.metadata),
		Note:   "auto-creation, topic ids, authorised operations",
	}
}

func (b *Broker) metadata(r *codec.Request) {
	request := kmsg.NewPtrMetadataRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if r.Version < 4 {
		request.AllowAutoTopicCreation = true
	}
	if refused := checkMetadataTopics(request); refused != nil {
		r.Respond(metadataRefused(request, refused))
		return
	}
	missing := b.topicsToCreate(r, request)
	large := wantsAllTopics(request) && b.view.Load().partitions > limits.MetadataInlinePartitions
	if (len(missing) > 0 || large) && b.Pool != nil && b.Pool.Submit(codec.Guarded(r, b.Logger, func(r *codec.Request) {
		b.createMissing(missing)
		r.Respond(b.metadataResponse(r, request))
	})) {
		return
	}
	r.Respond(b.metadataResponse(r, request))
}

// metadataBytesPerPartition is what a partition takes in a reply: the kmsg struct,
// its replica lists and its encoding.
const metadataBytesPerPartition = 192

func checkMetadataTopics(request *kmsg.MetadataRequest) *kerr.Error {
	for i := range request.Topics {
		topic := &request.Topics[i]
		switch {
		case topic.Topic == nil && (request.Version < 12 || topic.TopicID == meta.ZeroUUID):
			return kerr.InvalidRequest
		case topic.TopicID != meta.ZeroUUID && request.Version < 12:
			return kerr.InvalidRequest
		}
	}
	return nil
}

// metadataRefused is Kafka's MetadataRequest.getErrorResponse: no brokers, and
// every topic that was asked for with the error.
func metadataRefused(request *kmsg.MetadataRequest, refused *kerr.Error) *kmsg.MetadataResponse {
	response := kmsg.NewPtrMetadataResponse()
	response.Brokers = []kmsg.MetadataResponseBroker{}
	response.ErrorCode = refused.Code
	for i := range request.Topics {
		topic := metadataTopic(deref(request.Topics[i].Topic), request.Topics[i].TopicID, refused)
		response.Topics = append(response.Topics, topic)
	}
	return response
}

func metadataTopic(name string, id meta.UUID, err *kerr.Error) kmsg.MetadataResponseTopic {
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID, topic.IsInternal = &name, id, meta.IsInternalTopicName(name)
	if err != nil {
		topic.ErrorCode = err.Code
	}
	return topic
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// wantsAllTopics: v0 has no null, its empty list asks for all.
func wantsAllTopics(request *kmsg.MetadataRequest) bool {
	return request.Topics == nil || request.Version == 0 && len(request.Topics) == 0
}

func wantsTopicIDs(request *kmsg.MetadataRequest) bool {
	return slices.ContainsFunc(request.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != meta.ZeroUUID })
}

// topicsToCreate are the topics of the request that auto-creation shall make:
// missing, of a valid name, and the client may describe and create them.
func (b *Broker) topicsToCreate(r *codec.Request, request *kmsg.MetadataRequest) []string {
	if !b.Config.AutoCreateTopicsEnable || !request.AllowAutoTopicCreation || wantsAllTopics(request) || wantsTopicIDs(request) {
		return nil
	}
	image := b.Images.Load()
	var missing []string
	for i := range request.Topics {
		name := *request.Topics[i].Topic
		if image.Topic(name) != nil || meta.ValidateTopicName(name) != nil || slices.Contains(missing, name) ||
			!b.allowed(r, auth.OperationDescribe, auth.ResourceTopic, name) || !b.mayCreateTopic(r, name) {
			continue
		}
		if missing = append(missing, name); len(missing) == limits.AutoCreateTopicsPerRequest {
			break
		}
	}
	return missing
}

// mayCreateTopic: Create on the cluster or on the topic (Kafka asks in this order).
func (b *Broker) mayCreateTopic(r *codec.Request, name string) bool {
	return b.allowed(r, auth.OperationCreate, auth.ResourceCluster, auth.ClusterName) ||
		b.allowed(r, auth.OperationCreate, auth.ResourceTopic, name)
}

// allowed asks the authorizer for the client of a request.
func (b *Broker) allowed(r *codec.Request, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return b.Authorizer.Authorize(r.Session.Principal, r.Session.RemoteHost, operation, resource, name)
}

// createMissing runs on the worker pool, without holding it up.
func (b *Broker) createMissing(names []string) {
	if len(names) > 0 {
		b.Pool.Park(func() { b.firstUse.Create(b.TopicCreator, names) })
	}
}

// metadataResponse is made of one image: a topic is there with all of its
// partitions or not at all.
func (b *Broker) metadataResponse(r *codec.Request, request *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	image := b.Images.Load()
	response := kmsg.NewPtrMetadataResponse()
	response.ClusterID = &image.ClusterID
	response.ControllerID = image.ControllerID
	response.Brokers = b.metadataBrokers(r, image)
	if request.IncludeClusterAuthorizedOperations {
		response.AuthorizedOperations = 0
		if b.allowed(r, auth.OperationDescribe, auth.ResourceCluster, auth.ClusterName) {
			response.AuthorizedOperations = b.authorizedOperations(r, auth.ResourceCluster, auth.ClusterName)
		}
	}
	switch {
	case wantsAllTopics(request):
		response.Topics = b.metadataOfAll(r, request, image)
	case wantsTopicIDs(request):
		response.Topics = b.metadataByID(r, request, image)
	default:
		response.Topics = b.metadataByName(r, request, image)
	}
	return response
}

func (b *Broker) authorizedOperations(r *codec.Request, resource auth.ResourceType, name string) int32 {
	return auth.AuthorizedOperations(b.Authorizer, r.Session.Principal, r.Session.RemoteHost, resource, name)
}

func (b *Broker) metadataBrokers(r *codec.Request, image *meta.Image) []kmsg.MetadataResponseBroker {
	brokers := make([]kmsg.MetadataResponseBroker, 0, len(image.Brokers))
	for i := range image.Brokers {
		endpoint, ok := b.endpoint(r.Session, image, &image.Brokers[i])
		if !ok {
			continue
		}
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = image.Brokers[i].ID, endpoint.Host, endpoint.Port
		if image.Brokers[i].Rack != "" {
			broker.Rack = &image.Brokers[i].Rack
		}
		brokers = append(brokers, broker)
	}
	return brokers
}

// endpoint is where a client of this session reaches a broker: on the listener
// that it came by. A broker without that listener is not told to it.
func (b *Broker) endpoint(session *codec.Session, image *meta.Image, broker *meta.BrokerInfo) (meta.Endpoint, bool) {
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

func (b *Broker) metadataOfAll(r *codec.Request, request *kmsg.MetadataRequest, image *meta.Image) []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(image.Topics()))
	for _, topic := range image.Topics() {
		if b.allowed(r, auth.OperationDescribe, auth.ResourceTopic, topic.Name) {
			topics = append(topics, b.metadataOf(r, request, topic))
		}
	}
	return topics
}

func (b *Broker) metadataByID(r *codec.Request, request *kmsg.MetadataRequest, image *meta.Image) []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(request.Topics))
	seen := make(map[meta.UUID]bool, len(request.Topics))
	for i := range request.Topics {
		id := meta.UUID(request.Topics[i].TopicID)
		if id.IsZero() || seen[id] {
			continue
		}
		seen[id] = true
		topic := image.TopicByID(id)
		if topic == nil || !b.allowed(r, auth.OperationDescribe, auth.ResourceTopic, topic.Name) {
			// Not authorised looks as if there were none, without the name.
			unknown := kmsg.NewMetadataResponseTopic()
			unknown.TopicID, unknown.ErrorCode = id, kerr.UnknownTopicID.Code
			topics = append(topics, unknown)
			continue
		}
		topics = append(topics, b.metadataOf(r, request, topic))
	}
	return topics
}

func (b *Broker) metadataByName(r *codec.Request, request *kmsg.MetadataRequest, image *meta.Image) []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(request.Topics))
	seen := make(map[string]bool, len(request.Topics))
	for i := range request.Topics {
		name := *request.Topics[i].Topic
		if seen[name] {
			continue
		}
		seen[name] = true
		topic := image.Topic(name)
		switch {
		case !b.allowed(r, auth.OperationDescribe, auth.ResourceTopic, name):
			topics = append(topics, metadataTopic(name, meta.ZeroUUID, kerr.TopicAuthorizationFailed))
		case topic != nil:
			topics = append(topics, b.metadataOf(r, request, topic))
		default:
			missing := metadataTopic(name, meta.ZeroUUID, b.missingTopicError(r, request, name))
			if request.IncludeTopicAuthorizedOperations && missing.ErrorCode != kerr.TopicAuthorizationFailed.Code {
				missing.AuthorizedOperations = b.authorizedOperations(r, auth.ResourceTopic, name)
			}
			topics = append(topics, missing)
		}
	}
	return topics
}

func (b *Broker) missingTopicError(r *codec.Request, request *kmsg.MetadataRequest, name string) *kerr.Error {
	switch {
	case b.Config.AutoCreateTopicsEnable && request.AllowAutoTopicCreation && !b.mayCreateTopic(r, name):
		return kerr.TopicAuthorizationFailed
	case meta.ValidateTopicName(name) != nil:
		return kerr.InvalidTopicException
	}
	return kerr.UnknownTopicOrPartition
}

// metadataOf describes a topic of the image.
func (b *Broker) metadataOf(r *codec.Request, request *kmsg.MetadataRequest, topic *meta.Topic) kmsg.MetadataResponseTopic {
	described := metadataTopic(topic.Name, topic.ID, nil)
	described.IsInternal = topic.Internal
	if request.IncludeTopicAuthorizedOperations {
		described.AuthorizedOperations = b.authorizedOperations(r, auth.ResourceTopic, topic.Name)
	}
	described.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(topic.Partitions))
	// One array for the replica lists of all partitions: each partition has one
	// replica, the leader.
	replicas := make([]int32, len(topic.Partitions))
	for i := range topic.Partitions {
		replicas[i] = topic.Partitions[i].Leader
		p := &described.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), topic.Partitions[i].Leader, topic.Partitions[i].LeaderEpoch
		if p.Leader < 0 {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
			continue
		}
		p.Replicas, p.ISR = replicas[i:i+1:i+1], replicas[i:i+1:i+1]
	}
	return described
}
