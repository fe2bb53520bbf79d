package group

import (
	"kaas/coord"
	"kaas/group/assignor"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of OffsetCommit from which on it behaves differently.
const (
	commitRetentionFrom     = 2 // retention_time_ms stands in v2–v4 only (KIP-211)
	commitRetentionTo       = 4
	commitNamesUnknownGroup = 9 // GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION (KIP-848)
)

// OffsetCommit records offsets. The handler has authorised and resolved the
// topics: every topic of the request exists, with name and id both set. All
// offsets of one request stand in one batch of the log.
func (m *Machine) OffsetCommit(t *coord.Turn, req *kmsg.OffsetCommitRequest, done func(*kmsg.OffsetCommitResponse)) {
	g := m.groups[req.Group]
	if code := m.checkCommit(g, req); code != 0 {
		done(CommitResponse(req, code))
		return
	}
	if g != nil {
		if mem := g.members[req.MemberID]; mem != nil {
			m.touch(t, mem) // committing is a sign of life
		}
	}
	response := CommitResponse(req, 0)
	expireMs := noExpiry
	if req.Version >= commitRetentionFrom && req.Version <= commitRetentionTo && req.RetentionTimeMillis >= 0 {
		expireMs = t.WallMs + req.RetentionTimeMillis
	}
	var records []coord.Record
	for i := range req.Topics {
		topic := &req.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			o := offset{offset: p.Offset, leaderEpoch: p.LeaderEpoch, commitMs: t.WallMs, expireMs: expireMs, topicID: topic.TopicID}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			if m.metadataTooLarge(p.Metadata) {
				response.Topics[i].Partitions[j].ErrorCode = codeOffsetMetadataTooLarge
				continue
			}
			records = append(records, offsetRecord(req.Group, topic.Topic, p.Partition, &o))
		}
	}
	if len(records) > 0 {
		if err := t.Emit(records...); err != nil {
			done(CommitResponse(req, codeInvalidCommitSize))
			return
		}
		m.counts.Commits.Add(int64(len(records)))
	}
	reply(t, done, response, func(code int16) *kmsg.OffsetCommitResponse { return CommitResponse(req, code) })
}

// checkCommit says whether this member may commit now (ClassicGroup.validateOffsetCommit).
func (m *Machine) checkCommit(g *group, req *kmsg.OffsetCommitRequest) int16 {
	if g == nil {
		switch {
		case req.Generation < 0:
			return 0 // a consumer that assigns by hand; its first commit makes the group
		case req.Version >= commitNamesUnknownGroup:
			return codeGroupIDNotFound
		default:
			return codeIllegalGeneration
		}
	}
	if g.consumer != nil {
		return g.consumer.consumerCommit(req.MemberID, req.Generation, req.Version >= commitNamesUnknownGroup, func(had func(assignor.TopicID, int32) bool) bool {
			for i := range req.Topics {
				for j := range req.Topics[i].Partitions {
					p := &req.Topics[i].Partitions[j]
					if !m.metadataTooLarge(p.Metadata) && !had(req.Topics[i].TopicID, p.Partition) {
						return false
					}
				}
			}
			return true
		})
	}
	if req.Generation < 0 && g.state == stateEmpty {
		return 0
	}
	if req.Generation < 0 && req.MemberID == unknownMemberID && req.InstanceID == nil {
		return codeUnknownMemberID // somebody outside the group, which has members
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	switch {
	case req.Generation != g.generation:
		return codeIllegalGeneration
	case g.state == stateCompletingRebalance:
		// The member does not know yet what it will own.
		return codeRebalanceInProgress
	}
	return 0
}

// CommitResponse answers every partition of the request with the same code.
func CommitResponse(req *kmsg.OffsetCommitRequest, code int16) *kmsg.OffsetCommitResponse {
	r := kmsg.NewPtrOffsetCommitResponse()
	r.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		from, to := &req.Topics[i], &r.Topics[i]
		to.Topic, to.TopicID = from.Topic, from.TopicID
		to.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			to.Partitions[j] = kmsg.OffsetCommitResponseTopicPartition{Partition: from.Partitions[j].Partition, ErrorCode: code}
		}
	}
	return r
}

// metadataTooLarge: it is answered for the partition, before anything is asked about it.
func (m *Machine) metadataTooLarge(metadata *string) bool {
	return metadata != nil && coord.JavaLength(*metadata) > int(m.config.OffsetMetadataMaxChars)
}
