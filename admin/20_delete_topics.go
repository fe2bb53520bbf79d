package admin

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
)

// DeleteTopics, key 20, v0 to v6; v7 with unstable.api.versions.enable.
//
// The resource is deleted; the broker's observer then drops the topic, wakes
// what is parked on it, closes and removes its partitions and forgets its
// committed offsets. The reply waits, at most the request's timeout, until the
// image has it no more.
//
//	v0     no throttle time
//	v3     delete.topic.enable=false is TOPIC_DELETION_DISABLED (73); older
//	       versions answer INVALID_REQUEST (42)
//	v4     flexible
//	v5     error messages
//	v6     by topic id (KIP-516)
//	v7     validate_only, after the timeout (the KIP of DeleteTopicPolicy, under
//	       discussion). delete.topic.policy itself holds for every version
//
// Checks: Kafka's ControllerApis.deleteTopics.
func (a *Admin) deleteTopicsAPI() codec.API {
	return codec.API{
		Key: 20, Name: "DeleteTopics", MinVersion: 0, MaxVersion: 6, UnstableMaxVersion: 7, Class: codec.Pool,
		Handle: a.deleteTopics, Refuse: refuseDeleteTopics,
		Note: "the KafkaTopic resource is deleted; the reply waits until the topic is gone",
	}
}

func refuseDeleteTopics(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrDeleteTopicsRequest()
	if _, err := r.DecodeDeleteTopics(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DeleteTopicsResponse)
	response.ThrottleMillis = throttleMs
	for _, topic := range namedTopics(request) {
		topic.ErrorCode = errorCode
		response.Topics = append(response.Topics, topic)
	}
	r.Respond(response)
}

// namedTopics are the results to fill in, one per entry of the request.
func namedTopics(request *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsResponseTopic {
	topics := make([]kmsg.DeleteTopicsResponseTopic, 0, len(request.TopicNames)+len(request.Topics))
	for i := range request.TopicNames {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic = &request.TopicNames[i]
		topics = append(topics, topic)
	}
	for i := range request.Topics {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.TopicID = request.Topics[i].Topic, request.Topics[i].TopicID
		topics = append(topics, topic)
	}
	return topics
}

func (a *Admin) deleteTopics(r *codec.Request) {
	request := kmsg.NewPtrDeleteTopicsRequest()
	validateOnly, err := r.DecodeDeleteTopics(request)
	if err != nil {
		r.Fail(err)
		return
	}
	ctx, cancel := a.deadline(r, request.TimeoutMillis)
	defer cancel()
	response := request.ResponseKind().(*kmsg.DeleteTopicsResponse)
	deletions := a.checkDeletions(r, namedTopics(request))
	for _, deletion := range deletions {
		if deletion.failure == nil {
			deletion.failure = a.vetDeletion(r, validateOnly, deletion.name)
		}
	}
	gone := make(map[meta.UUID]string, len(deletions))
	if !validateOnly {
		a.deleteAll(deletions, gone)
	}
	a.await(ctx, func(image *meta.Image) bool {
		for id, name := range gone {
			if topic := image.Topic(name); topic != nil && topic.ID == id {
				return false
			}
		}
		return true
	})
	for _, deletion := range deletions {
		if problem := deletion.failure; problem != nil {
			deletion.result.ErrorCode, deletion.result.ErrorMessage = problem.code.Code, &problem.message
		}
		response.Topics = append(response.Topics, deletion.result)
	}
	r.Respond(response)
}

// deletion is one topic of the reply: to delete by name, or refused.
type deletion struct {
	result  kmsg.DeleteTopicsResponseTopic
	name    string
	failure *failure
}

// checkDeletions returns one entry per topic: what is asked for twice, by name or
// by id or by both, is answered once and not deleted.
func (a *Admin) checkDeletions(r *codec.Request, results []kmsg.DeleteTopicsResponseTopic) []*deletion {
	image := a.Images.Load()
	asked := make(map[string]int) // by askedKey
	for i := range results {
		if key := askedKey(&results[i]); key != "" {
			asked[key]++
		}
	}
	var deletions []*deletion
	byName := make(map[string]*deletion)
	answered := make(map[string]bool)
	for i := range results {
		key := askedKey(&results[i])
		if answered[key] && asked[key] > 1 {
			continue
		}
		answered[key] = true
		next := &deletion{result: results[i]}
		next.name, next.failure = a.checkDeletion(r, image, &next.result, asked[key] > 1)
		if first := byName[next.name]; next.failure == nil && first != nil {
			first.failure = fail(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
			continue
		}
		if next.failure == nil {
			byName[next.name] = next
		}
		deletions = append(deletions, next)
	}
	return deletions
}

// askedKey is what an entry asks for, "" when it asks for nothing.
func askedKey(result *kmsg.DeleteTopicsResponseTopic) string {
	switch {
	case result.Topic != nil:
		return "name " + *result.Topic
	case meta.UUID(result.TopicID) != meta.ZeroUUID:
		return "id " + string(result.TopicID[:])
	}
	return ""
}

func (a *Admin) checkDeletion(r *codec.Request, image *meta.Image, result *kmsg.DeleteTopicsResponseTopic, duplicate bool) (string, *failure) {
	if !a.Config.DeleteTopicEnable {
		if r.Version < 3 {
			return "", fail(kerr.InvalidRequest, "This version does not support topic deletion being disabled.")
		}
		return "", fail(kerr.TopicDeletionDisabled, "Topic deletion is disabled.")
	}
	byName := result.Topic != nil
	switch {
	case byName && meta.UUID(result.TopicID) != meta.ZeroUUID:
		return "", fail(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
	case byName && duplicate:
		return "", fail(kerr.InvalidRequest, "Duplicate topic name.")
	case !byName && meta.UUID(result.TopicID) == meta.ZeroUUID:
		return "", fail(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	case !byName && duplicate:
		return "", fail(kerr.InvalidRequest, "Duplicate topic id.")
	}
	if !byName {
		return a.checkDeletionByID(r, image, result)
	}
	name := *result.Topic
	if !a.allowed(r, auth.OperationDelete, auth.ResourceTopic, name) {
		return "", fail(kerr.TopicAuthorizationFailed, "Topic authorization failed.")
	}
	topic := image.Topic(name)
	if topic == nil {
		return "", fail(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	result.TopicID = topic.ID
	return name, nil
}

// checkDeletionByID does not tell an id's name to those who may not know it.
func (a *Admin) checkDeletionByID(r *codec.Request, image *meta.Image, result *kmsg.DeleteTopicsResponseTopic) (string, *failure) {
	topic := image.TopicByID(result.TopicID)
	if topic == nil {
		return "", fail(kerr.UnknownTopicID, "This server does not host this topic ID.")
	}
	if !a.allowed(r, auth.OperationDescribe, auth.ResourceTopic, topic.Name) {
		return "", fail(kerr.TopicAuthorizationFailed, "Topic authorization failed.")
	}
	result.Topic = kmsg.StringPtr(topic.Name)
	if !a.allowed(r, auth.OperationDelete, auth.ResourceTopic, topic.Name) {
		return "", fail(kerr.TopicAuthorizationFailed, "Topic authorization failed.")
	}
	return topic.Name, nil
}

// deleteAll deletes the resources of the topics without a failure, in one batch,
// and notes the ids that shall leave the image.
func (a *Admin) deleteAll(deletions []*deletion, gone map[meta.UUID]string) {
	var batch []meta.Deletion
	var found []*deletion
	var ids []meta.UUID
	done := func(d *deletion, id meta.UUID, err error) {
		if errors.Is(err, meta.ErrConflict) { // deleted and made again in between
			err = meta.ErrNotFound
		}
		if d.failure = a.asFailure(err); d.failure == nil {
			gone[id] = d.name
		} else if d.failure.code != kerr.UnknownTopicOrPartition && d.failure.code != kerr.PolicyViolation {
			d.failure.code = kerr.InvalidRequest // the store's trouble, with its message
		}
	}
	for _, d := range deletions {
		if d.failure != nil {
			continue
		}
		if a.DropTopic != nil {
			var id meta.UUID
			if topic := a.Images.Load().Topic(d.name); topic != nil {
				id = topic.ID
			}
			done(d, id, a.DropTopic(a.pool.ctx, d.name))
			continue
		}
		topic, err := a.topicResource(a.pool.ctx, d.name)
		if err != nil {
			done(d, meta.ZeroUUID, err)
			continue
		}
		batch = append(batch, meta.Deletion{Kind: meta.KindTopic, Name: topic.Metadata.Name, UID: topic.Metadata.UID})
		found, ids = append(found, d), append(ids, topic.Status.TopicID)
	}
	for i, err := range meta.DeleteAll(a.pool.ctx, a.Resources, batch) {
		done(found[i], ids[i], err)
	}
}
