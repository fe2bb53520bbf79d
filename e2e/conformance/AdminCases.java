import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.AlterConfigsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterReplicaLogDirsRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.CreatePartitionsRequestData;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.message.DeleteRecordsRequestData;
import org.apache.kafka.common.message.DeleteRecordsResponseData;
import org.apache.kafka.common.message.DeleteTopicsRequestData;
import org.apache.kafka.common.message.DescribeAclsRequestData;
import org.apache.kafka.common.message.DescribeClientQuotasRequestData;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.DescribeConfigsResponseData;
import org.apache.kafka.common.message.DescribeLogDirsRequestData;
import org.apache.kafka.common.message.DescribeLogDirsResponseData;
import org.apache.kafka.common.message.DescribeUserScramCredentialsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.IncrementalAlterConfigsRequestData;
import org.apache.kafka.common.message.ListConfigResourcesRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** Topics, configs, log directories, ACLs, quotas, credentials and what else an administrator asks. */
final class AdminCases {
    private static final byte TOPIC_RESOURCE = 2;
    private static final byte BROKER_RESOURCE = 4;

    private final Cases cases;

    AdminCases(Cases cases) {
        this.cases = cases;
    }

    void register(Map<ApiKeys, Cases.Case> into) {
        into.put(ApiKeys.CREATE_TOPICS, this::createTopics);
        into.put(ApiKeys.DELETE_TOPICS, this::deleteTopics);
        into.put(ApiKeys.DELETE_RECORDS, this::deleteRecords);
        into.put(ApiKeys.CREATE_PARTITIONS, this::createPartitions);
        into.put(ApiKeys.DESCRIBE_CONFIGS, this::describeConfigs);
        into.put(ApiKeys.ALTER_CONFIGS, this::alterConfigs);
        into.put(ApiKeys.INCREMENTAL_ALTER_CONFIGS, this::incrementalAlterConfigs);
        into.put(ApiKeys.DESCRIBE_LOG_DIRS, this::describeLogDirs);
        into.put(ApiKeys.ALTER_REPLICA_LOG_DIRS, this::alterReplicaLogDirs);
        into.put(ApiKeys.DESCRIBE_ACLS, this::describeAcls);
        into.put(ApiKeys.CREATE_ACLS, this::createAcls);
        into.put(ApiKeys.DELETE_ACLS, this::deleteAcls);
        into.put(ApiKeys.ELECT_LEADERS, this::electLeaders);
        into.put(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, this::alterReassignments);
        into.put(ApiKeys.LIST_PARTITION_REASSIGNMENTS, this::listReassignments);
        into.put(ApiKeys.DESCRIBE_CLIENT_QUOTAS, this::describeQuotas);
        into.put(ApiKeys.ALTER_CLIENT_QUOTAS, this::alterQuotas);
        into.put(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, this::describeScram);
        into.put(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, this::alterScram);
        into.put(ApiKeys.LIST_CONFIG_RESOURCES, this::listConfigResources);
    }

    private static CreateTopicsRequestData createRequest(String name, int partitions) {
        CreateTopicsRequestData request = new CreateTopicsRequestData().setTimeoutMs(Cases.TIMEOUT_MS);
        CreateTopicsRequestData.CreatableTopic topic = new CreateTopicsRequestData.CreatableTopic().setName(name)
            .setNumPartitions(partitions).setReplicationFactor((short) 1);
        topic.configs().add(new CreateTopicsRequestData.CreatableTopicConfig().setName("retention.ms").setValue("3600000"));
        request.topics().add(topic);
        return request;
    }

    private void createTopics(Wire wire, short version) throws IOException {
        String name = cases.fresh("create");
        CreateTopicsRequestData request = createRequest(name, 3);
        wire.exchange(ApiKeys.CREATE_TOPICS, version, request.duplicate().setValidateOnly(true)).ok();
        CreateTopicsResponseData answer = wire.exchange(ApiKeys.CREATE_TOPICS, version, request).ok().as();
        CreateTopicsResponseData.CreatableTopicResult topic = answer.topics().find(name);
        Cases.check(version < 7 || !topic.topicId().equals(Uuid.ZERO_UUID), "an id", answer);
        if (version >= 5) {
            Cases.check(topic.numPartitions() == 3 && topic.replicationFactor() == 1, "the counts", answer);
            Cases.check(topic.configs().stream().anyMatch(c -> c.name().equals("retention.ms") && c.value().equals("3600000")),
                "the configs in force", answer);
        }
        wire.exchange(ApiKeys.CREATE_TOPICS, version, request).fails(Errors.TOPIC_ALREADY_EXISTS);
        wire.exchange(ApiKeys.CREATE_TOPICS, version, createRequest("no/topic", 1)).fails(Errors.INVALID_TOPIC_EXCEPTION);
        wire.exchange(ApiKeys.CREATE_TOPICS, version, createRequest(cases.fresh("create"), 0)).fails(Errors.INVALID_PARTITIONS);
        // Defaults, and an explicit assignment.
        if (version >= 4) {
            wire.exchange(ApiKeys.CREATE_TOPICS, version, createRequest(cases.fresh("create"), -1)).ok();
        }
    }

    private void deleteTopics(Wire wire, short version) throws IOException {
        String name = cases.fresh("delete");
        Uuid id = cases.createTopic(wire, name, 1);
        DeleteTopicsRequestData request = new DeleteTopicsRequestData().setTimeoutMs(Cases.TIMEOUT_MS);
        if (version < 6) {
            request.setTopicNames(List.of(name));
        } else {
            request.setTopics(List.of(new DeleteTopicsRequestData.DeleteTopicState().setName(name)));
        }
        wire.exchange(ApiKeys.DELETE_TOPICS, version, request).ok();
        wire.exchange(ApiKeys.DELETE_TOPICS, version, request).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
        if (version >= 6) {
            id = cases.createTopic(wire, cases.fresh("delete"), 1);
            request.setTopics(List.of(new DeleteTopicsRequestData.DeleteTopicState().setName(null).setTopicId(id)));
            wire.exchange(ApiKeys.DELETE_TOPICS, version, request).ok();
            wire.exchange(ApiKeys.DELETE_TOPICS, version, request).fails(Errors.UNKNOWN_TOPIC_ID);
        }
    }

    private void deleteRecords(Wire wire, short version) throws IOException {
        String name = cases.fresh("delete-records");
        Uuid id = cases.createTopic(wire, name, 1);
        DataCases.produce(cases, wire, cases.best(ApiKeys.PRODUCE), name, id, 0, DataCases.plainRecords(0)).ok();
        DeleteRecordsRequestData.DeleteRecordsPartition partition = new DeleteRecordsRequestData.DeleteRecordsPartition().setPartitionIndex(0).setOffset(1);
        DeleteRecordsRequestData request = new DeleteRecordsRequestData().setTimeoutMs(Cases.TIMEOUT_MS).setTopics(List.of(
            new DeleteRecordsRequestData.DeleteRecordsTopic().setName(name).setPartitions(List.of(partition))));
        DeleteRecordsResponseData answer = wire.exchange(ApiKeys.DELETE_RECORDS, version, request).ok().as();
        Cases.check(answer.topics().iterator().next().partitions().iterator().next().lowWatermark() == 1, "the log starts at 1", answer);
        partition.setOffset(-1);
        answer = wire.exchange(ApiKeys.DELETE_RECORDS, version, request).ok().as();
        Cases.check(answer.topics().iterator().next().partitions().iterator().next().lowWatermark() == 2, "-1 is the high watermark", answer);
        partition.setOffset(99);
        wire.exchange(ApiKeys.DELETE_RECORDS, version, request).fails(Errors.OFFSET_OUT_OF_RANGE);
    }

    private void createPartitions(Wire wire, short version) throws IOException {
        String name = cases.fresh("partitions");
        cases.createTopic(wire, name, 1);
        CreatePartitionsRequestData request = new CreatePartitionsRequestData().setTimeoutMs(Cases.TIMEOUT_MS);
        request.topics().add(new CreatePartitionsRequestData.CreatePartitionsTopic().setName(name).setCount(3).setAssignments(null));
        wire.exchange(ApiKeys.CREATE_PARTITIONS, version, request).ok();
        wire.exchange(ApiKeys.CREATE_PARTITIONS, version, request).fails(Errors.INVALID_PARTITIONS);
    }

    private void describeConfigs(Wire wire, short version) throws IOException {
        DescribeConfigsRequestData.DescribeConfigsResource topic = new DescribeConfigsRequestData.DescribeConfigsResource()
            .setResourceType(TOPIC_RESOURCE).setResourceName(Cases.TOPIC).setConfigurationKeys(List.of("retention.ms", "cleanup.policy"));
        DescribeConfigsRequestData request = new DescribeConfigsRequestData().setResources(List.of(topic)).setIncludeSynonyms(true);
        if (version >= 3) {
            request.setIncludeDocumentation(true);
        }
        DescribeConfigsResponseData answer = wire.exchange(ApiKeys.DESCRIBE_CONFIGS, version, request).ok().as();
        Cases.check(answer.results().get(0).configs().size() == 2, "two keys were asked for", answer);
        DescribeConfigsResponseData.DescribeConfigsResourceResult retention = answer.results().get(0).configs().stream()
            .filter(c -> c.name().equals("retention.ms")).findFirst().orElseThrow();
        Cases.check("604800000".equals(retention.value()), "a week", answer);
        Cases.check(version < 3 || (retention.configType() == 5 && !retention.documentation().isEmpty()), "a long with its words", answer);
        topic.setConfigurationKeys(null);
        answer = wire.exchange(ApiKeys.DESCRIBE_CONFIGS, version, request).ok().as();
        Cases.check(answer.results().get(0).configs().size() > 20, "all keys of a topic", answer);
        topic.setResourceType(BROKER_RESOURCE).setResourceName(brokerId(wire));
        wire.exchange(ApiKeys.DESCRIBE_CONFIGS, version, request).ok();
        topic.setResourceType(TOPIC_RESOURCE).setResourceName(Cases.MISSING);
        wire.exchange(ApiKeys.DESCRIBE_CONFIGS, version, request).fails(Errors.UNKNOWN_TOPIC_OR_PARTITION);
    }

    private String brokerId(Wire wire) throws IOException {
        org.apache.kafka.common.message.MetadataResponseData answer = wire.exchange(ApiKeys.METADATA, cases.best(ApiKeys.METADATA),
            new org.apache.kafka.common.message.MetadataRequestData().setTopics(List.of())).ok().as();
        return Integer.toString(answer.brokers().iterator().next().nodeId());
    }

    private void alterConfigs(Wire wire, short version) throws IOException {
        String name = cases.fresh("alter");
        cases.createTopic(wire, name, 1);
        AlterConfigsRequestData.AlterConfigsResource resource = new AlterConfigsRequestData.AlterConfigsResource()
            .setResourceType(TOPIC_RESOURCE).setResourceName(name);
        resource.configs().add(new AlterConfigsRequestData.AlterableConfig().setName("retention.ms").setValue("1000"));
        AlterConfigsRequestData request = new AlterConfigsRequestData();
        request.resources().add(resource);
        wire.exchange(ApiKeys.ALTER_CONFIGS, version, request.duplicate().setValidateOnly(true)).ok();
        wire.exchange(ApiKeys.ALTER_CONFIGS, version, request).ok();
        resource.configs().add(new AlterConfigsRequestData.AlterableConfig().setName("segment.ms").setValue("not a number"));
        wire.exchange(ApiKeys.ALTER_CONFIGS, version, request).fails(Errors.INVALID_CONFIG);
    }

    private void incrementalAlterConfigs(Wire wire, short version) throws IOException {
        String name = cases.fresh("incremental");
        cases.createTopic(wire, name, 1);
        IncrementalAlterConfigsRequestData.AlterConfigsResource resource = new IncrementalAlterConfigsRequestData.AlterConfigsResource()
            .setResourceType(TOPIC_RESOURCE).setResourceName(name);
        resource.configs().add(new IncrementalAlterConfigsRequestData.AlterableConfig().setName("retention.ms").setValue("1000")
            .setConfigOperation((byte) 0));
        IncrementalAlterConfigsRequestData request = new IncrementalAlterConfigsRequestData();
        request.resources().add(resource);
        wire.exchange(ApiKeys.INCREMENTAL_ALTER_CONFIGS, version, request).ok();
        resource.configs().add(new IncrementalAlterConfigsRequestData.AlterableConfig().setName("segment.ms").setValue("not a number")
            .setConfigOperation((byte) 0));
        wire.exchange(ApiKeys.INCREMENTAL_ALTER_CONFIGS, version, request).fails(Errors.INVALID_CONFIG);
    }

    private void describeLogDirs(Wire wire, short version) throws IOException {
        DescribeLogDirsRequestData request = new DescribeLogDirsRequestData();
        request.topics().add(new DescribeLogDirsRequestData.DescribableLogDirTopic().setTopic(Cases.TOPIC).setPartitions(List.of(0, 1)));
        DescribeLogDirsResponseData answer = wire.exchange(ApiKeys.DESCRIBE_LOG_DIRS, version, request).ok().as();
        DescribeLogDirsResponseData.DescribeLogDirsResult directory = answer.results().get(0);
        Cases.check(directory.topics().get(0).partitions().size() == 2, "both partitions lie there", answer);
        Cases.check(version < 4 || directory.totalBytes() > directory.usableBytes(), "the volume's size", answer);
        wire.exchange(ApiKeys.DESCRIBE_LOG_DIRS, version, new DescribeLogDirsRequestData().setTopics(null)).ok();
    }

    private void alterReplicaLogDirs(Wire wire, short version) throws IOException {
        AlterReplicaLogDirsRequestData.AlterReplicaLogDir directory = new AlterReplicaLogDirsRequestData.AlterReplicaLogDir().setPath("/no/such/directory");
        directory.topics().add(new AlterReplicaLogDirsRequestData.AlterReplicaLogDirTopic().setName(Cases.TOPIC).setPartitions(List.of(0)));
        AlterReplicaLogDirsRequestData request = new AlterReplicaLogDirsRequestData();
        request.dirs().add(directory);
        wire.exchange(ApiKeys.ALTER_REPLICA_LOG_DIRS, version, request).fails(Errors.LOG_DIR_NOT_FOUND);
    }

    private void describeAcls(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.DESCRIBE_ACLS, version, new DescribeAclsRequestData().setResourceTypeFilter((byte) 1).setPatternTypeFilter((byte) 1)
            .setOperation((byte) 1).setPermissionType((byte) 1)).only(Errors.SECURITY_DISABLED);
    }

    private void createAcls(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.CREATE_ACLS, version, new CreateAclsRequestData().setCreations(List.of(new CreateAclsRequestData.AclCreation()
            .setResourceType((byte) 2).setResourceName("acl-" + version).setResourcePatternType((byte) 3).setPrincipal("User:conformance")
            .setHost("*").setOperation((byte) 3).setPermissionType((byte) 3))))
            .only(Errors.SECURITY_DISABLED, Errors.INVALID_REQUEST); // kaas: the user must be a resource
    }

    private void deleteAcls(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.DELETE_ACLS, version, new DeleteAclsRequestData().setFilters(List.of(new DeleteAclsRequestData.DeleteAclsFilter()
            .setResourceTypeFilter((byte) 2).setResourceNameFilter("acl-" + version).setPatternTypeFilter((byte) 3)
            .setPrincipalFilter("User:conformance").setHostFilter("*").setOperation((byte) 3).setPermissionType((byte) 3))))
            .only(Errors.SECURITY_DISABLED);
    }

    private void electLeaders(Wire wire, short version) throws IOException {
        ElectLeadersRequestData request = new ElectLeadersRequestData().setTimeoutMs(Cases.TIMEOUT_MS);
        request.topicPartitions().add(new ElectLeadersRequestData.TopicPartitions().setTopic(Cases.TOPIC).setPartitions(List.of(0)));
        wire.exchange(ApiKeys.ELECT_LEADERS, version, request).fails(Errors.ELECTION_NOT_NEEDED);
    }

    private void alterReassignments(Wire wire, short version) throws IOException {
        AlterPartitionReassignmentsRequestData request = new AlterPartitionReassignmentsRequestData().setTimeoutMs(Cases.TIMEOUT_MS)
            .setTopics(List.of(new AlterPartitionReassignmentsRequestData.ReassignableTopic().setName(Cases.TOPIC).setPartitions(List.of(
                new AlterPartitionReassignmentsRequestData.ReassignablePartition().setPartitionIndex(0).setReplicas(null)))));
        wire.exchange(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, version, request).fails(Errors.NO_REASSIGNMENT_IN_PROGRESS);
    }

    private void listReassignments(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.LIST_PARTITION_REASSIGNMENTS, version,
            new ListPartitionReassignmentsRequestData().setTimeoutMs(Cases.TIMEOUT_MS).setTopics(null)).ok();
    }

    private void describeQuotas(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.DESCRIBE_CLIENT_QUOTAS, version, new DescribeClientQuotasRequestData().setStrict(false).setComponents(List.of(
            new DescribeClientQuotasRequestData.ComponentData().setEntityType("user").setMatchType((byte) 2).setMatch(null)))).ok();
    }

    private void alterQuotas(Wire wire, short version) throws IOException {
        AlterClientQuotasRequestData.OpData operation = new AlterClientQuotasRequestData.OpData().setKey("producer_byte_rate").setValue(1e9).setRemove(false);
        AlterClientQuotasRequestData request = new AlterClientQuotasRequestData().setEntries(List.of(new AlterClientQuotasRequestData.EntryData()
            .setEntity(List.of(new AlterClientQuotasRequestData.EntityData().setEntityType("user").setEntityName("conformance")))
            .setOps(List.of(operation))));
        // Without a listener that authenticates, kaas has no users whose quotas could be set.
        boolean users = wire.exchange(ApiKeys.ALTER_CLIENT_QUOTAS, version, request).only(Errors.UNSUPPORTED_VERSION).errors().isEmpty();
        operation.setKey("no_such_quota");
        wire.exchange(ApiKeys.ALTER_CLIENT_QUOTAS, version, request).fails(users ? Errors.INVALID_REQUEST : Errors.UNSUPPORTED_VERSION);
    }

    private void describeScram(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, version, new DescribeUserScramCredentialsRequestData().setUsers(List.of(
            new DescribeUserScramCredentialsRequestData.UserName().setName("no-such-user")))).fails(Errors.RESOURCE_NOT_FOUND);
        wire.exchange(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, version, new DescribeUserScramCredentialsRequestData().setUsers(null)).ok();
    }

    private void alterScram(Wire wire, short version) throws IOException {
        byte[] salt = new byte[16];
        Arrays.fill(salt, (byte) 7);
        wire.exchange(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, version, new AlterUserScramCredentialsRequestData().setUpsertions(List.of(
            new AlterUserScramCredentialsRequestData.ScramCredentialUpsertion().setName("conformance").setMechanism((byte) 2).setIterations(16)
                .setSalt(salt).setSaltedPassword(new byte[64])))).fails(Errors.UNACCEPTABLE_CREDENTIAL);
    }

    private void listConfigResources(Wire wire, short version) throws IOException {
        wire.exchange(ApiKeys.LIST_CONFIG_RESOURCES, version, new ListConfigResourcesRequestData()).ok();
    }
}
