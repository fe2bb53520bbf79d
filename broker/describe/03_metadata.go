package describe

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

func (h *Handlers) metadataAPI() codec.API {
	return codec.API{
		Key: 3, Name: "Metadata", MinVersion: 0, MaxVersion: 13, Class: codec.TwoPhase,
		EstimateBytes: func(_ codec.Header, bodyBytes int) int {
			return codec.DefaultEstimate(bodyBytes) + metadataBytesPerPartition*h.Partitions()
		},
		Handle: h.OffLoopWhenLarge(h.metadata),
		Note:   "auto-creation, topic ids, authorised operations",
	}
}

func (h *Handlers) metadata(r *codec.Request) {
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
	missing := h.topicsToCreate(r, request)
	large := wantsAllTopics(request) && h.Partitions() > limits.MetadataInlinePartitions
	if (len(missing) > 0 || large) && h.Submit(r, func(r *codec.Request) {
		if len(missing) > 0 {
			h.CreateTopics(missing)
		}
		r.Respond(h.metadataResponse(r, request))
	}) {
		return
	}
	r.Respond(h.metadataResponse(r, request))
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
func (h *Handlers) topicsToCreate(r *codec.Request, request *kmsg.MetadataRequest) []string {
	if !h.Config.AutoCreateTopicsEnable || !request.AllowAutoTopicCreation || wantsAllTopics(request) || wantsTopicIDs(request) {
		return nil
	}
	image := h.Images.Load()
	var missing []string
	for i := range request.Topics {
		name := *request.Topics[i].Topic
		if image.Topic(name) != nil || meta.ValidateTopicName(name) != nil || slices.Contains(missing, name) ||
			!h.visible(r, auth.OperationDescribe, auth.ResourceTopic, name) || !h.mayCreateTopic(r, name) {
			continue
		}
		if missing = append(missing, name); len(missing) == limits.AutoCreateTopicsPerRequest {
			break
		}
	}
	return missing
}

// mayCreateTopic: Create on the cluster or on the topic (Kafka asks in this order).
func (h *Handlers) mayCreateTopic(r *codec.Request, name string) bool {
	return h.visible(r, auth.OperationCreate, auth.ResourceCluster, auth.ClusterName) ||
		h.visible(r, auth.OperationCreate, auth.ResourceTopic, name)
}

// metadataResponse is made of one image: a topic is there with all of its
// partitions or not at all.
func (h *Handlers) metadataResponse(r *codec.Request, request *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	image := h.Images.Load()
	response := kmsg.NewPtrMetadataResponse()
	response.ClusterID = &image.ClusterID
	response.ControllerID = image.ControllerID
	response.Brokers = h.metadataBrokers(r, image)
	if request.IncludeClusterAuthorizedOperations {
		response.AuthorizedOperations = 0
		if h.visible(r, auth.OperationDescribe, auth.ResourceCluster, auth.ClusterName) {
			response.AuthorizedOperations = h.authorizedOperations(r, auth.ResourceCluster, auth.ClusterName)
		}
	}
	switch {
	case wantsAllTopics(request):
		response.Topics = h.metadataOfAll(r, request, image)
	case wantsTopicIDs(request):
		response.Topics = h.metadataByID(r, request, image)
	default:
		response.Topics = h.metadataByName(r, request, image)
	}
	return response
}

func (h *Handlers) metadataBrokers(r *codec.Request, image *meta.Image) []kmsg.MetadataResponseBroker {
	brokers := make([]kmsg.MetadataResponseBroker, 0, len(image.Brokers))
	for i := range image.Brokers {
		endpoint, ok := Endpoint(r.Session, image, &image.Brokers[i])
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

func (h *Handlers) metadataOfAll(r *codec.Request, request *kmsg.MetadataRequest, image *meta.Image) []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(image.Topics()))
	for _, topic := range image.Topics() {
		if h.visible(r, auth.OperationDescribe, auth.ResourceTopic, topic.Name) {
			topics = append(topics, h.metadataOf(r, request, topic))
		}
	}
	return topics
}

func (h *Handlers) metadataByID(r *codec.Request, request *kmsg.MetadataRequest, image *meta.Image) []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(request.Topics))
	seen := make(map[meta.UUID]bool, len(request.Topics))
	for i := range request.Topics {
		id := meta.UUID(request.Topics[i].TopicID)
		if id.IsZero() || seen[id] {
			continue
		}
		seen[id] = true
		topic := image.TopicByID(id)
		if topic == nil || !h.allowed(r, auth.OperationDescribe, auth.ResourceTopic, topic.Name) {
			// Not authorised looks as if there were none, without the name.
			unknown := kmsg.NewMetadataResponseTopic()
			unknown.TopicID, unknown.ErrorCode = id, kerr.UnknownTopicID.Code
			topics = append(topics, unknown)
			continue
		}
		topics = append(topics, h.metadataOf(r, request, topic))
	}
	return topics
}

func (h *Handlers) metadataByName(r *codec.Request, request *kmsg.MetadataRequest, image *meta.Image) []kmsg.MetadataResponseTopic {
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
		case !h.allowed(r, auth.OperationDescribe, auth.ResourceTopic, name):
			topics = append(topics, metadataTopic(name, meta.ZeroUUID, kerr.TopicAuthorizationFailed))
		case topic != nil:
			topics = append(topics, h.metadataOf(r, request, topic))
		default:
			missing := metadataTopic(name, meta.ZeroUUID, h.missingTopicError(r, request, name))
			if request.IncludeTopicAuthorizedOperations && missing.ErrorCode != kerr.TopicAuthorizationFailed.Code {
				missing.AuthorizedOperations = h.authorizedOperations(r, auth.ResourceTopic, name)
			}
			topics = append(topics, missing)
		}
	}
	return topics
}

func (h *Handlers) missingTopicError(r *codec.Request, request *kmsg.MetadataRequest, name string) *kerr.Error {
	switch {
	case h.Config.AutoCreateTopicsEnable && request.AllowAutoTopicCreation && !h.mayCreateTopic(r, name):
		auth.Denied(h.Authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, auth.OperationCreate, auth.ResourceTopic, name)
		return kerr.TopicAuthorizationFailed
	case meta.ValidateTopicName(name) != nil:
		return kerr.InvalidTopicException
	}
	return kerr.UnknownTopicOrPartition
}

// metadataOf describes a topic of the image.
func (h *Handlers) metadataOf(r *codec.Request, request *kmsg.MetadataRequest, topic *meta.Topic) kmsg.MetadataResponseTopic {
	described := metadataTopic(topic.Name, topic.ID, nil)
	described.IsInternal = topic.Internal
	if request.IncludeTopicAuthorizedOperations {
		described.AuthorizedOperations = h.authorizedOperations(r, auth.ResourceTopic, topic.Name)
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
