import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.message.ConsumerGroupDescribeRequestData;
import org.apache.kafka.common.message.ConsumerGroupDescribeResponseData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.message.DeleteGroupsRequestData;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.DescribeGroupsResponseData;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.ListGroupsResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** The classic group protocol, committed offsets, and the consumer protocol of KIP-848. */
final class GroupCases {
    private static final byte[] SUBSCRIPTION = {0, 1, 0, 0, 0, 0};
    private static final byte[] ASSIGNMENT = {0, 1, 0, 0, 0, 0, -1, -1, -1, -1};

    /** A member of a classic group after it has joined. */
    record Member(String group, int generation, String id) { }

    private final Cases cases;

    GroupCases(Cases cases) {
        this.cases = cases;
    }

    void register(Map<ApiKeys, Cases.Case> into) {
        into.put(ApiKeys.FIND_COORDINATOR, this::findCoordinator);
        into.put(ApiKeys.JOIN_GROUP, this::joinGroup);
        into.put(ApiKeys.SYNC_GROUP, this::syncGroup);
        into.put(ApiKeys.HEARTBEAT, this::heartbeat);
        into.put(ApiKeys.LEAVE_GROUP, this::leaveGroup);
        into.put(ApiKeys.OFFSET_COMMIT, this::offsetCommit);
        into.put(ApiKeys.OFFSET_FETCH, this::offsetFetch);
        into.put(ApiKeys.OFFSET_DELETE, this::offsetDelete);
        into.put(ApiKeys.DESCRIBE_GROUPS, this::describeGroups);
        into.put(ApiKeys.LIST_GROUPS, this::listGroups);
        into.put(ApiKeys.DELETE_GROUPS, this::deleteGroups);
        into.put(ApiKeys.CONSUMER_GROUP_HEARTBEAT, this::consumerGroupHeartbeat);
        into.put(ApiKeys.CONSUMER_GROUP_DESCRIBE, this::consumerGroupDescribe);
    }

    private void findCoordinator(Wire wire, short version) throws IOException {
        FindCoordinatorRequestData request = new FindCoordinatorRequestData();
        if (version < 4) {
            FindCoordinatorResponseData answer = wire.exchange(ApiKeys.FIND_COORDINATOR, version, request.setKey("a-group")).ok().as();
            Cases.check(answer.port() > 0 && answer.host() != null, "an address", answer);
            return;
        }
        FindCoordinatorResponseData answer = wire.exchange(ApiKeys.FIND_COORDINATOR, version,
            request.setCoordinatorKeys(List.of("a-group", "another"))).ok().as();
        Cases.check(answer.coordinators().size() == 2 && answer.coordinators().get(1).key().equals("another"), "two keys, two answers", answer);
    }

    private JoinGroupRequestData joinRequest(String group, String member) {
        JoinGroupRequestData request = new JoinGroupRequestData().setGroupId(group).setSessionTimeoutMs(10_000)
            .setRebalanceTimeoutMs(10_000).setProtocolType("consumer").setMemberId(member);
        request.protocols().add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(SUBSCRIPTION));
        return request;
    }

    /** Joins in a version; since version 4 the first attempt only hands out the member's id (KIP-394). */
    private Member join(Wire wire, String group, short version) throws IOException {
        String id = "";
        if (version >= 4) {
            JoinGroupResponseData first = wire.exchange(ApiKeys.JOIN_GROUP, version, joinRequest(group, "")).fails(Errors.MEMBER_ID_REQUIRED).as();
            id = first.memberId();
        }
        JoinGroupResponseData answer = wire.exchange(ApiKeys.JOIN_GROUP, version, joinRequest(group, id)).ok().as();
        Cases.check(answer.leader().equals(answer.memberId()) && answer.members().size() == 1, "a lonely member leads", answer);
        Cases.check("range".equals(answer.protocolName()), "the only protocol is chosen", answer);
        Cases.check(answer.generationId() == 1, "the first generation is 1", answer);
        Cases.check(version < 7 || "consumer".equals(answer.protocolType()), "the type is told since version 7", answer);
        return new Member(group, answer.generationId(), answer.memberId());
    }

    private Member joinAndSync(Wire wire, String group) throws IOException {
        Member member = join(wire, group, cases.best(ApiKeys.JOIN_GROUP));
        sync(wire, member, cases.best(ApiKeys.SYNC_GROUP));
        return member;
    }

    private void sync(Wire wire, Member member, short version) throws IOException {
        SyncGroupRequestData request = new SyncGroupRequestData().setGroupId(member.group()).setGenerationId(member.generation())
            .setMemberId(member.id()).setAssignments(List.of(new SyncGroupRequestData.SyncGroupRequestAssignment()
                .setMemberId(member.id()).setAssignment(ASSIGNMENT)));
        if (version >= 5) {
            request.setProtocolType("consumer").setProtocolName("range");
        }
        SyncGroupResponseData answer = wire.exchange(ApiKeys.SYNC_GROUP, version, request).ok().as();
        Cases.check(java.util.Arrays.equals(answer.assignment(), ASSIGNMENT), "the leader's own assignment comes back", answer);
    }

    private void leave(Wire wire, Member member, short version, Errors expected) throws IOException {
        LeaveGroupRequestData request = new LeaveGroupRequestData().setGroupId(member.group());
        if (version < 3) {
            request.setMemberId(member.id());
        } else {
            LeaveGroupRequestData.MemberIdentity identity = new LeaveGroupRequestData.MemberIdentity().setMemberId(member.id());
            if (version >= 5) {
                identity.setReason("the case is over");
            }
            request.setMembers(List.of(identity));
        }
        Wire.Reply reply = wire.exchange(ApiKeys.LEAVE_GROUP, version, request);
        if (expected == Errors.NONE) {
            reply.ok();
        } else {
            reply.fails(expected);
        }
    }

    private void joinGroup(Wire wire, short version) throws IOException {
        Member member = join(wire, cases.fresh("join"), version);
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
        if (version >= 5) {
            JoinGroupRequestData named = joinRequest(cases.fresh("static"), "").setGroupInstanceId("instance");
            JoinGroupResponseData answer = wire.exchange(ApiKeys.JOIN_GROUP, version, named).ok().as();
            Cases.check("instance".equals(answer.members().get(0).groupInstanceId()), "a static member needs no second attempt", answer);
        }
        wire.exchange(ApiKeys.JOIN_GROUP, version, joinRequest(cases.fresh("join"), "nobody")).fails(Errors.UNKNOWN_MEMBER_ID);
        wire.exchange(ApiKeys.JOIN_GROUP, version, joinRequest(cases.fresh("join"), "").setSessionTimeoutMs(1))
            .fails(Errors.INVALID_SESSION_TIMEOUT);
    }

    private void syncGroup(Wire wire, short version) throws IOException {
        Member member = join(wire, cases.fresh("sync"), cases.best(ApiKeys.JOIN_GROUP));
        sync(wire, member, version);
        SyncGroupRequestData stale = new SyncGroupRequestData().setGroupId(member.group()).setGenerationId(99).setMemberId(member.id());
        if (version >= 5) {
            stale.setProtocolType("consumer").setProtocolName("range");
        }
        wire.exchange(ApiKeys.SYNC_GROUP, version, stale).fails(Errors.ILLEGAL_GENERATION);
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
    }

    private void heartbeat(Wire wire, short version) throws IOException {
        Member member = joinAndSync(wire, cases.fresh("heartbeat"));
        HeartbeatRequestData request = new HeartbeatRequestData().setGroupId(member.group()).setGenerationId(member.generation())
            .setMemberId(member.id());
        wire.exchange(ApiKeys.HEARTBEAT, version, request).ok();
        wire.exchange(ApiKeys.HEARTBEAT, version, request.duplicate().setGenerationId(99)).fails(Errors.ILLEGAL_GENERATION);
        wire.exchange(ApiKeys.HEARTBEAT, version, request.duplicate().setMemberId("nobody")).fails(Errors.UNKNOWN_MEMBER_ID);
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
    }

    private void leaveGroup(Wire wire, short version) throws IOException {
        Member member = joinAndSync(wire, cases.fresh("leave"));
        leave(wire, member, version, Errors.NONE);
        leave(wire, member, version, Errors.UNKNOWN_MEMBER_ID);
    }

    Wire.Reply commit(Wire wire, short version, String group, int generation, String member, int partition, long offset) throws IOException {
        OffsetCommitRequestData.OffsetCommitRequestTopic topic = new OffsetCommitRequestData.OffsetCommitRequestTopic();
        if (version >= 10) {
            topic.setTopicId(cases.topicId);
        } else {
            topic.setName(Cases.TOPIC);
        }
        topic.setPartitions(List.of(new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(partition)
            .setCommittedOffset(offset).setCommittedLeaderEpoch(version >= 6 ? 0 : -1).setCommittedMetadata("by version " + version)));
        return wire.exchange(ApiKeys.OFFSET_COMMIT, version, new OffsetCommitRequestData().setGroupId(group)
            .setGenerationIdOrMemberEpoch(generation).setMemberId(member).setTopics(List.of(topic)));
    }

    private void offsetCommit(Wire wire, short version) throws IOException {
        commit(wire, version, cases.fresh("commit-alone"), -1, "", 0, 3).ok();
        Member member = joinAndSync(wire, cases.fresh("commit"));
        commit(wire, version, member.group(), member.generation(), member.id(), 0, 3).ok();
        commit(wire, version, member.group(), 99, member.id(), 0, 3).fails(Errors.ILLEGAL_GENERATION);
        commit(wire, version, member.group(), member.generation(), "nobody", 0, 3).fails(Errors.UNKNOWN_MEMBER_ID);
        commit(wire, version, member.group(), member.generation(), member.id(), 77, 3).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
    }

    private void offsetFetch(Wire wire, short version) throws IOException {
        String group = cases.fresh("offset-fetch");
        commit(wire, cases.best(ApiKeys.OFFSET_COMMIT), group, -1, "", 0, 4).ok();
        List<Integer> partitions = List.of(0, 1);
        if (version < 8) {
            OffsetFetchRequestData request = new OffsetFetchRequestData().setGroupId(group)
                .setTopics(List.of(new OffsetFetchRequestData.OffsetFetchRequestTopic().setName(Cases.TOPIC).setPartitionIndexes(partitions)));
            OffsetFetchResponseData answer = wire.exchange(ApiKeys.OFFSET_FETCH, version, request).ok().as();
            List<OffsetFetchResponseData.OffsetFetchResponsePartition> found = answer.topics().get(0).partitions();
            Cases.check(found.get(0).committedOffset() == 4 && found.get(1).committedOffset() == -1, "4 and nothing", answer);
            Cases.check(found.get(0).metadata().startsWith("by version") && found.get(1).metadata().isEmpty(), "the metadata", answer);
            Cases.check(version < 5 || found.get(0).committedLeaderEpoch() == 0, "the leader epoch", answer);
            if (version >= 2) {
                answer = wire.exchange(ApiKeys.OFFSET_FETCH, version, request.duplicate().setTopics(null)).ok().as();
                Cases.check(answer.topics().size() == 1 && answer.topics().get(0).partitions().size() == 1, "all that is committed", answer);
            }
            return;
        }
        OffsetFetchRequestData.OffsetFetchRequestTopics topic = new OffsetFetchRequestData.OffsetFetchRequestTopics().setPartitionIndexes(partitions);
        if (version >= 10) {
            topic.setTopicId(cases.topicId);
        } else {
            topic.setName(Cases.TOPIC);
        }
        OffsetFetchRequestData request = new OffsetFetchRequestData().setRequireStable(true).setGroups(List.of(
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group).setTopics(List.of(topic)),
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(cases.fresh("no-such-group")).setTopics(null)));
        OffsetFetchResponseData answer = wire.exchange(ApiKeys.OFFSET_FETCH, version, request).ok().as();
        Cases.check(answer.groups().size() == 2 && answer.groups().get(1).topics().isEmpty(), "two groups, one without offsets", answer);
        List<OffsetFetchResponseData.OffsetFetchResponsePartitions> found = answer.groups().get(0).topics().get(0).partitions();
        Cases.check(found.get(0).committedOffset() == 4 && found.get(1).committedOffset() == -1, "4 and nothing", answer);
        Cases.check(found.get(0).committedLeaderEpoch() == 0 && found.get(0).metadata().startsWith("by version"), "epoch and metadata", answer);
        request.setGroups(List.of(new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group).setTopics(null)));
        answer = wire.exchange(ApiKeys.OFFSET_FETCH, version, request).ok().as();
        Cases.check(answer.groups().get(0).topics().size() == 1, "all that is committed", answer);
    }

    private void offsetDelete(Wire wire, short version) throws IOException {
        String group = cases.fresh("offset-delete");
        commit(wire, cases.best(ApiKeys.OFFSET_COMMIT), group, -1, "", 0, 4).ok();
        OffsetDeleteRequestData request = new OffsetDeleteRequestData().setGroupId(group);
        request.topics().add(new OffsetDeleteRequestData.OffsetDeleteRequestTopic().setName(Cases.TOPIC)
            .setPartitions(List.of(new OffsetDeleteRequestData.OffsetDeleteRequestPartition().setPartitionIndex(0))));
        wire.exchange(ApiKeys.OFFSET_DELETE, version, request).ok();
        wire.exchange(ApiKeys.OFFSET_DELETE, version, request.duplicate().setGroupId(cases.fresh("no-such-group"))).fails(Errors.GROUP_ID_NOT_FOUND);
    }

    private void describeGroups(Wire wire, short version) throws IOException {
        Member member = joinAndSync(wire, cases.fresh("describe"));
        DescribeGroupsRequestData request = new DescribeGroupsRequestData().setGroups(List.of(member.group()))
            .setIncludeAuthorizedOperations(version >= 3);
        DescribeGroupsResponseData answer = wire.exchange(ApiKeys.DESCRIBE_GROUPS, version, request).ok().as();
        DescribeGroupsResponseData.DescribedGroup group = answer.groups().get(0);
        Cases.check(group.groupState().equals("Stable") && group.protocolData().equals("range") && group.members().size() == 1,
            "a stable group of one", answer);
        Cases.check(java.util.Arrays.equals(group.members().get(0).memberAssignment(), ASSIGNMENT), "with its assignment", answer);
        Cases.check(version < 3 || group.authorizedOperations() > 0, "operations were asked for", answer);
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
        Wire.Reply missing = wire.exchange(ApiKeys.DESCRIBE_GROUPS, version, new DescribeGroupsRequestData().setGroups(List.of(cases.fresh("no-such-group"))));
        if (version >= 6) { // KIP-1043; before it an unknown group is a dead one
            missing.fails(Errors.GROUP_ID_NOT_FOUND);
        } else {
            answer = missing.ok().as();
            Cases.check(answer.groups().get(0).groupState().equals("Dead"), "an unknown group is dead", answer);
        }
    }

    private void listGroups(Wire wire, short version) throws IOException {
        Member member = joinAndSync(wire, cases.fresh("list"));
        ListGroupsRequestData request = new ListGroupsRequestData();
        if (version >= 4) {
            request.setStatesFilter(List.of("Stable"));
        }
        if (version >= 5) {
            request.setTypesFilter(List.of("classic"));
        }
        ListGroupsResponseData answer = wire.exchange(ApiKeys.LIST_GROUPS, version, request).ok().as();
        ListGroupsResponseData.ListedGroup found = answer.groups().stream().filter(g -> g.groupId().equals(member.group())).findFirst().orElse(null);
        Cases.check(found != null && found.protocolType().equals("consumer"), "the group is listed", answer);
        Cases.check(version < 4 || found.groupState().equals("Stable"), "with its state", answer);
        Cases.check(version < 5 || found.groupType().equals("classic"), "with its type", answer);
        if (version >= 4) {
            answer = wire.exchange(ApiKeys.LIST_GROUPS, version, new ListGroupsRequestData().setStatesFilter(List.of("Dead"))).ok().as();
            Cases.check(answer.groups().isEmpty(), "no group is dead", answer);
        }
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
    }

    private void deleteGroups(Wire wire, short version) throws IOException {
        Member member = joinAndSync(wire, cases.fresh("delete"));
        DeleteGroupsRequestData request = new DeleteGroupsRequestData().setGroupsNames(List.of(member.group()));
        wire.exchange(ApiKeys.DELETE_GROUPS, version, request).fails(Errors.NON_EMPTY_GROUP);
        leave(wire, member, cases.best(ApiKeys.LEAVE_GROUP), Errors.NONE);
        wire.exchange(ApiKeys.DELETE_GROUPS, version, request).ok();
        wire.exchange(ApiKeys.DELETE_GROUPS, version, request).fails(Errors.GROUP_ID_NOT_FOUND);
    }

    private ConsumerGroupHeartbeatResponseData consumerJoin(Wire wire, String group, short version) throws IOException {
        return wire.exchange(ApiKeys.CONSUMER_GROUP_HEARTBEAT, version, new ConsumerGroupHeartbeatRequestData().setGroupId(group)
            .setMemberId(org.apache.kafka.common.Uuid.randomUuid().toString()).setMemberEpoch(0).setRebalanceTimeoutMs(10_000)
            .setSubscribedTopicNames(List.of(Cases.TOPIC)).setTopicPartitions(List.of())).ok().as();
    }

    private void consumerLeave(Wire wire, String group, String member) throws IOException {
        wire.exchange(ApiKeys.CONSUMER_GROUP_HEARTBEAT, cases.best(ApiKeys.CONSUMER_GROUP_HEARTBEAT),
            new ConsumerGroupHeartbeatRequestData().setGroupId(group).setMemberId(member).setMemberEpoch(-1)).ok();
    }

    private void consumerGroupHeartbeat(Wire wire, short version) throws IOException {
        String group = cases.fresh("consumer");
        ConsumerGroupHeartbeatResponseData answer = consumerJoin(wire, group, version);
        Cases.check(answer.memberEpoch() >= 1 && answer.assignment() != null, "an epoch and an assignment", answer);
        consumerLeave(wire, group, answer.memberId());
        wire.exchange(ApiKeys.CONSUMER_GROUP_HEARTBEAT, version, new ConsumerGroupHeartbeatRequestData().setGroupId(group)
            .setMemberId("nobody").setMemberEpoch(5)).fails(Errors.UNKNOWN_MEMBER_ID);
    }

    private void consumerGroupDescribe(Wire wire, short version) throws IOException {
        String group = cases.fresh("consumer-describe");
        ConsumerGroupHeartbeatResponseData joined = consumerJoin(wire, group, cases.best(ApiKeys.CONSUMER_GROUP_HEARTBEAT));
        ConsumerGroupDescribeResponseData answer = wire.exchange(ApiKeys.CONSUMER_GROUP_DESCRIBE, version,
            new ConsumerGroupDescribeRequestData().setGroupIds(List.of(group)).setIncludeAuthorizedOperations(true)).ok().as();
        Cases.check(answer.groups().get(0).members().size() == 1, "a group of one", answer);
        consumerLeave(wire, group, joined.memberId());
        wire.exchange(ApiKeys.CONSUMER_GROUP_DESCRIBE, version,
            new ConsumerGroupDescribeRequestData().setGroupIds(List.of(cases.fresh("no-such-group")))).fails(Errors.GROUP_ID_NOT_FOUND);
    }
}
