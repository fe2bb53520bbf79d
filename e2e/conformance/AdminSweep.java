import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Calls every method of Kafka's Java Admin client, in good and in bad ways, and prints one line for each call: what was
 * asked, and what came back with the values that differ from broker to broker named instead. Two brokers that do the
 * same print the same; the test beside compares them. The last line names the methods that were not called.
 *
 * <p>usage: AdminSweep BOOTSTRAP
 */
final class AdminSweep {
    private static final Uuid UNKNOWN_ID = new Uuid(0x6b616173_0000_0001L, 0x1L);
    private static final int WAIT_MS = 30_000;
    private static final Pattern OPERATIONS = Pattern.compile("authorizedOperations=\\[([A-Z_, ]+)\\]");

    private static final Pattern PARTITIONS = Pattern.compile("topicPartitions=([^)]+)");

    private final String bootstrap;
    private final Admin admin;
    private final Set<String> called = new TreeSet<>();
    /** What is printed in the place of a value that each broker has for itself. */
    private final Map<String, String> names = new TreeMap<>();
    private boolean changed; // since the last barrier

    private AdminSweep(String bootstrap) {
        this.bootstrap = bootstrap;
        Admin real = Admin.create(client("sweep"));
        admin = (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (self, method, arguments) -> {
            called.add(method.getName());
            try {
                return method.invoke(real, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        });
        names.put(bootstrap, "ADDRESS");
        names.put(bootstrap.split(":")[1], "PORT");
    }

    public static void main(String[] arguments) throws Exception {
        AdminSweep sweep = new AdminSweep(arguments[0]);
        sweep.topics();
        sweep.partitions();
        sweep.configs();
        sweep.records();
        sweep.places();
        sweep.security();
        new Groups(sweep).run();
        new Transactions(sweep).run();
        sweep.cluster();
        sweep.deletions();
        Set<String> left = new TreeSet<>();
        for (var method : Admin.class.getMethods()) {
            if (!java.lang.reflect.Modifier.isStatic(method.getModifiers()) && !sweep.called.contains(method.getName())) {
                left.add(method.getName());
            }
        }
        System.out.println("not called: " + left);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    Properties client(String id) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", id);
        properties.put("default.api.timeout.ms", WAIT_MS);
        properties.put("request.timeout.ms", WAIT_MS / 2);
        return properties;
    }

    Admin admin() {
        return admin;
    }

    /** Gives a broker's own value a name. */
    void name(String value, String name) {
        names.put(value, name);
    }

    /** Prints what a call gives: its value, or the class of its error. What it reads is as of all calls before. */
    void step(String what, Callable<?> call) {
        String outcome;
        try {
            boolean reads = what.startsWith("describe") || what.startsWith("list");
            if (reads && changed) {
                barrier();
            }
            changed = !reads;
            Object value = call.call();
            outcome = text(value instanceof KafkaFuture<?> future ? future.get() : value);
        } catch (ExecutionException e) {
            outcome = e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            outcome = e.getClass().getSimpleName();
        }
        outcome = OPERATIONS.matcher(outcome).replaceAll(found -> "authorizedOperations=" + new TreeSet<>(List.of(found.group(1).split(", "))));
        outcome = PARTITIONS.matcher(outcome).replaceAll(found -> "topicPartitions=" + new TreeSet<>(List.of(found.group(1).split(","))));
        System.out.println(what + ": " + named(outcome).replace('\n', ' '));
    }

    /**
     * Waits until the broker shows what was changed. Apache Kafka's answers come when the controller has written it; the broker
     * follows, in order, so that a change which it shows was made after all others.
     */
    private void barrier() throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "barrier");
        String key = "consumer.session.timeout.ms";
        String value = "46000";
        for (AlterConfigOp.OpType change : List.of(AlterConfigOp.OpType.SET, AlterConfigOp.OpType.DELETE)) {
            admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(new ConfigEntry(key, value), change)))).all().get();
            while (admin.describeConfigs(List.of(group)).all().get().get(group).get(key).value().equals(value) != (change == AlterConfigOp.OpType.SET)) {
                Thread.sleep(5);
            }
        }
    }

    private String named(String text) {
        for (Map.Entry<String, String> name : names.entrySet()) {
            text = text.replace(name.getKey(), name.getValue());
        }
        return text;
    }

    /** The outcome of each key of a result, an error too. */
    <K> Map<String, String> each(Map<K, ? extends KafkaFuture<?>> futures) throws Exception {
        return each(futures, v -> v);
    }

    <K, V> Map<String, String> each(Map<K, ? extends KafkaFuture<? extends V>> futures, Function<? super V, ?> show) throws Exception {
        Map<String, String> all = new TreeMap<>();
        for (Map.Entry<K, ? extends KafkaFuture<? extends V>> one : futures.entrySet()) {
            String outcome;
            try {
                V value = one.getValue().get();
                outcome = value == null ? "done" : text(show.apply(value));
            } catch (ExecutionException e) {
                outcome = e.getCause().getClass().getSimpleName();
            }
            all.put(named(text(one.getKey())), outcome);
        }
        return all;
    }

    /** A value's words, with maps and collections in order. */
    static String text(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<String, String> sorted = new TreeMap<>();
            map.forEach((k, v) -> sorted.put(text(k), text(v)));
            return sorted.toString();
        }
        if (value instanceof Collection<?> collection) {
            List<String> all = new ArrayList<>();
            collection.forEach(v -> all.add(text(v)));
            all.sort(null); // no answer of a broker has an order that counts
            return all.toString();
        }
        if (value instanceof ClientQuotaEntity entity) {
            return "ClientQuotaEntity" + new TreeMap<>(entity.entries());
        }
        return value instanceof Optional<?> optional ? "Optional[" + optional.map(AdminSweep::text).orElse("") + "]" : String.valueOf(value);
    }

    private void create(String what, CreateTopicsOptions options, NewTopic... topics) {
        step("createTopics " + what, () -> {
            CreateTopicsResult result = admin.createTopics(List.of(topics), options);
            Map<String, String> all = new TreeMap<>();
            for (Map.Entry<String, String> one : each(result.values()).entrySet()) {
                String outcome = one.getValue();
                if (outcome.equals("done")) {
                    String topic = one.getKey();
                    outcome = result.numPartitions(topic).get() + " partitions, " + result.replicationFactor(topic).get() + " replicas, cleanup.policy "
                        + result.config(topic).get().get("cleanup.policy").value() + " from " + result.config(topic).get().get("cleanup.policy").source();
                    name(result.topicId(topic).get().toString(), "ID-OF-" + topic);
                }
                all.put(one.getKey(), outcome);
            }
            return all;
        });
    }

    private void topics() throws Exception {
        CreateTopicsOptions now = new CreateTopicsOptions();
        create("two", now, new NewTopic("one", 1, (short) 1), new NewTopic("two", 2, (short) -1).configs(Map.of("cleanup.policy", "compact")));
        create("by defaults", now, new NewTopic("defaults", Optional.empty(), Optional.empty()));
        create("assigned", now, new NewTopic("assigned", Map.of(0, List.of(1), 1, List.of(1))));
        create("only validated", new CreateTopicsOptions().validateOnly(true), new NewTopic("validated", 3, (short) 1));
        create("in bad ways", now, new NewTopic("one", 1, (short) 1), new NewTopic("a/b", 1, (short) 1), new NewTopic(".", 1, (short) 1), new NewTopic("", 1, (short) 1),
            new NewTopic("l".repeat(250), 1, (short) 1), new NewTopic("zero", 0, (short) 1), new NewTopic("minus", -2, (short) 1),
            new NewTopic("norep", 1, (short) 0), new NewTopic("badvalue", 1, (short) 1).configs(Map.of("retention.ms", "soon")),
            new NewTopic("badkey", 1, (short) 1).configs(Map.of("no.such.key", "1")), new NewTopic("nobroker", Map.of(0, List.of(9))), new NewTopic("gap", Map.of(1, List.of(1))),
            new NewTopic("twice", Map.of(0, List.of(1, 1))), new NewTopic("empty", Map.of(0, List.of())));
        create("of three replicas", now, new NewTopic("three", 1, (short) 3));
        step("deleteTopics of three replicas", () -> each(admin.deleteTopics(List.of("three")).topicNameValues()));
        create("colliding", now, new NewTopic("a.b", 1, (short) 1));
        create("colliding again", now, new NewTopic("a_b", 1, (short) 1));
        step("listTopics", () -> admin.listTopics().names());
        step("listTopics, listings", () -> admin.listTopics().listings());
        step("describeTopics", () -> each(admin.describeTopics(List.of("one", "two", "missing", "a/b")).topicNameValues()));
        step("describeTopics, operations", () -> each(admin.describeTopics(List.of("one"), new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues()));
        Uuid id = admin.describeTopics(List.of("two")).allTopicNames().get().get("two").topicId();
        name(UNKNOWN_ID.toString(), "UNKNOWN-ID");
        step("describeTopics by id", () -> each(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id, UNKNOWN_ID))).topicIdValues()));
    }

    private void partitions() {
        step("createPartitions", () -> each(admin.createPartitions(Map.of("one", NewPartitions.increaseTo(3), "two", NewPartitions.increaseTo(1), "missing", NewPartitions.increaseTo(2),
            "assigned", NewPartitions.increaseTo(3, List.of(List.of(1))))).values()));
        step("createPartitions, only validated", () -> each(admin.createPartitions(Map.of("two", NewPartitions.increaseTo(5)), new CreatePartitionsOptions().validateOnly(true)).values()));
        step("createPartitions in bad ways", () -> each(admin.createPartitions(Map.of("one", NewPartitions.increaseTo(3), "two", NewPartitions.increaseTo(4, List.of(List.of(1))),
            "assigned", NewPartitions.increaseTo(4, List.of(List.of(7))), "defaults", NewPartitions.increaseTo(-1), "a.b", NewPartitions.increaseTo(2, List.of(List.of(1, 1))))).values()));
        step("describeTopics after", () -> {
            Map<String, Integer> counts = new TreeMap<>();
            admin.describeTopics(List.of("one", "two", "assigned")).allTopicNames().get().forEach((name, topic) -> counts.put(name, topic.partitions().size()));
            return counts;
        });
    }

    private static ConfigResource of(ConfigResource.Type type, String name) {
        return new ConfigResource(type, name);
    }

    /** The client waits for a broker that does not exist until its time is over. */
    private static int patience(ConfigResource resource) {
        return resource.type() == ConfigResource.Type.BROKER && resource.name().equals("9") ? 1_000 : WAIT_MS;
    }

    private void alter(String what, ConfigResource resource, String... operations) {
        List<AlterConfigOp> all = new ArrayList<>();
        for (String operation : operations) { // "+key=value": APPEND; "-key=value": SUBTRACT; "!key": DELETE; "key=value": SET
            AlterConfigOp.OpType type = switch (operation.charAt(0)) {
                case '+' -> AlterConfigOp.OpType.APPEND;
                case '-' -> AlterConfigOp.OpType.SUBTRACT;
                case '!' -> AlterConfigOp.OpType.DELETE;
                default -> AlterConfigOp.OpType.SET;
            };
            String[] parts = (type == AlterConfigOp.OpType.SET ? operation : operation.substring(1)).split("=", 2);
            all.add(new AlterConfigOp(new ConfigEntry(parts[0], parts.length > 1 ? parts[1] : null), type));
        }
        step("incrementalAlterConfigs " + what, () -> each(admin.incrementalAlterConfigs(Map.of(resource, all), new AlterConfigsOptions().timeoutMs(patience(resource))).values()));
    }

    /** Chosen entries of a resource's configs, with all but their documentation. */
    private void describe(String what, ConfigResource resource, String... keys) {
        step("describeConfigs " + what, () -> each(admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true).timeoutMs(patience(resource))).values(), config -> {
            Map<String, String> shown = new TreeMap<>();
            for (ConfigEntry entry : config.entries()) {
                if (List.of(keys).contains(entry.name())) {
                    shown.put(entry.name(), entry.value() + " " + entry.source() + " " + entry.type() + (entry.isReadOnly() ? " read-only" : "")
                        + (entry.isSensitive() ? " sensitive" : "") + " " + entry.synonyms());
                }
            }
            return shown;
        }));
    }

    private void configs() {
        ConfigResource topic = of(ConfigResource.Type.TOPIC, "one");
        ConfigResource broker = of(ConfigResource.Type.BROKER, "1");
        ConfigResource brokers = of(ConfigResource.Type.BROKER, "");
        alter("set and append", topic, "retention.ms=1000", "+cleanup.policy=compact");
        alter("subtract", topic, "-cleanup.policy=delete");
        alter("delete", topic, "!retention.ms");
        alter("a bad value", topic, "retention.ms=soon");
        alter("an unknown key", topic, "no.such.key=1");
        alter("append to what is no list", topic, "+retention.ms=5");
        alter("the same key twice", topic, "segment.ms=5000", "!segment.ms");
        alter("a missing topic", of(ConfigResource.Type.TOPIC, "missing"), "retention.ms=1000");
        alter("no topic name", of(ConfigResource.Type.TOPIC, ""), "retention.ms=1000");
        step("incrementalAlterConfigs, only validated", () -> each(admin.incrementalAlterConfigs(Map.of(topic, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "77"), AlterConfigOp.OpType.SET))), new AlterConfigsOptions().validateOnly(true)).values()));
        alter("a broker", broker, "log.retention.ms=7200000");
        alter("all brokers", brokers, "log.retention.ms=3600000");
        alter("a broker's read-only key", broker, "broker.rack=x");
        alter("another broker", of(ConfigResource.Type.BROKER, "9"), "log.retention.ms=1");
        alter("no broker", of(ConfigResource.Type.BROKER, "x"), "log.retention.ms=1");
        describe("of a topic", topic, "cleanup.policy", "retention.ms", "segment.bytes", "compression.type", "max.message.bytes", "message.timestamp.type", "preallocate");
        describe("of a missing topic", of(ConfigResource.Type.TOPIC, "missing"));
        describe("of a bad topic", of(ConfigResource.Type.TOPIC, "a/b"));
        describe("of a broker", broker, "log.retention.ms", "log.segment.bytes", "num.io.threads", "auto.create.topics.enable", "delete.topic.enable");
        describe("of all brokers", brokers, "log.retention.ms", "log.segment.bytes");
        describe("of another broker", of(ConfigResource.Type.BROKER, "9"), "node.id");
        ConfigResource group = of(ConfigResource.Type.GROUP, "settings");
        alter("a group", group, "consumer.session.timeout.ms=50000");
        alter("a group in a bad way", group, "consumer.session.timeout.ms=1");
        alter("a group's unknown key", group, "no.such.key=1");
        describe("of a group", group, "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms");
        ConfigResource metrics = of(ConfigResource.Type.CLIENT_METRICS, "watch");
        alter("client metrics", metrics, "interval.ms=10000", "metrics=org.apache.kafka.producer.");
        alter("client metrics in a bad way", metrics, "interval.ms=5");
        describe("of client metrics", metrics, "interval.ms", "metrics", "match");
        step("listConfigResources of groups and client metrics", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all());
        step("listConfigResources of brokers", () -> admin.listConfigResources(Set.of(ConfigResource.Type.BROKER), new ListConfigResourcesOptions()).all());
        step("listConfigResources of topics", () -> admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all());
        step("listClientMetricsResources", () -> admin.listClientMetricsResources().all());
        for (ConfigResource resource : List.of(broker, brokers)) {
            alter("back", resource, "!log.retention.ms");
        }
        alter("a group back", group, "!consumer.session.timeout.ms");
        alter("client metrics back", metrics, "!interval.ms", "!metrics");
        step("listConfigResources at the end", () -> {
            Collection<ConfigResource> left;
            long giveUp = System.nanoTime() + WAIT_MS * 1_000_000L;
            do { // what was deleted may be listed for a moment
                left = admin.listConfigResources(Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get();
            } while (!left.isEmpty() && System.nanoTime() < giveUp);
            return left;
        });
    }

    private void records() throws Exception {
        Properties properties = client("records");
        properties.put("key.serializer", ByteArraySerializer.class);
        properties.put("value.serializer", ByteArraySerializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>("two", 0, 1_700_000_000_000L + 1000 * i, new byte[] {(byte) i}, new byte[] {(byte) i})).get();
            }
        }
        TopicPartition full = new TopicPartition("two", 0);
        TopicPartition missing = new TopicPartition("two", 8);
        TopicPartition defaults = new TopicPartition("defaults", 0);
        Map<String, OffsetSpec> specs = Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(), "the largest time", OffsetSpec.maxTimestamp(),
            "a time", OffsetSpec.forTimestamp(1_700_000_003_500L), "a time to come", OffsetSpec.forTimestamp(1_800_000_000_000L), "earliest local", OffsetSpec.earliestLocal(),
            "latest tiered", OffsetSpec.latestTiered());
        for (String spec : new TreeSet<>(specs.keySet())) {
            step("listOffsets, " + spec, () -> {
                ListOffsetsResult result = admin.listOffsets(Map.of(full, specs.get(spec), defaults, specs.get(spec), missing, specs.get(spec)),
                    new ListOffsetsOptions(IsolationLevel.READ_COMMITTED).timeoutMs(3_000));
                return each(Map.of(full, result.partitionResult(full), defaults, result.partitionResult(defaults), missing, result.partitionResult(missing)));
            });
        }
        step("deleteRecords of a log that is compacted", () -> each(admin.deleteRecords(Map.of(full, RecordsToDelete.beforeOffset(3))).lowWatermarks(), DeletedRecords::lowWatermark));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>("defaults", 0, null, new byte[1])).get();
            producer.send(new ProducerRecord<>("defaults", 0, null, new byte[1])).get();
        }
        for (long offset : new long[] {1, 0, -1, 99, -7}) {
            step("deleteRecords before " + offset, () -> each(admin.deleteRecords(Map.of(defaults, RecordsToDelete.beforeOffset(offset)), new DeleteRecordsOptions().timeoutMs(5_000)).lowWatermarks(),
                DeletedRecords::lowWatermark));
        }
        step("deleteRecords of what is missing", () -> each(admin.deleteRecords(Map.of(missing, RecordsToDelete.beforeOffset(1)), new DeleteRecordsOptions().timeoutMs(3_000)).lowWatermarks(),
            DeletedRecords::lowWatermark));
    }

    private void places() throws Exception {
        Map<String, LogDirDescription> directories = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        for (String directory : directories.keySet()) {
            name(directory, "DIRECTORY");
        }
        step("describeLogDirs", () -> {
            Map<String, String> shown = new TreeMap<>();
            admin.describeLogDirs(List.of(1)).allDescriptions().get().forEach((id, all) -> all.forEach((path, directory) -> directory.replicaInfos().forEach((partition, replica) -> {
                if (Set.of("one", "two").contains(partition.topic())) {
                    shown.put(partition.toString(), path + " lag " + replica.offsetLag() + (replica.isFuture() ? " future" : "") + (replica.size() > 0 ? " full" : " empty")
                        + (directory.isCordoned() ? " cordoned" : "") + (directory.totalBytes().isPresent() && directory.usableBytes().isPresent() ? "" : " of unknown size"));
                }
            })));
            return shown;
        });
        TopicPartitionReplica here = new TopicPartitionReplica("two", 0, 1);
        TopicPartitionReplica missing = new TopicPartitionReplica("two", 9, 1);
        step("describeReplicaLogDirs", () -> each(admin.describeReplicaLogDirs(List.of(here, missing)).values()));
        step("alterReplicaLogDirs", () -> each(admin.alterReplicaLogDirs(Map.of(here, "/no/such/directory", missing, "/no/such/directory")).values()));
        step("alterReplicaLogDirs, a relative path", () -> each(admin.alterReplicaLogDirs(Map.of(here, "data")).values()));
        step("alterReplicaLogDirs, where it is", () -> each(admin.alterReplicaLogDirs(Map.of(here, directories.keySet().iterator().next())).values()));
        TopicPartition partition = new TopicPartition("two", 0);
        TopicPartition none = new TopicPartition("two", 9);
        for (ElectionType type : ElectionType.values()) {
            step("electLeaders, " + type, () -> {
                Map<String, String> shown = new TreeMap<>();
                admin.electLeaders(type, Set.of(partition, none)).partitions().get().forEach((p, error) -> shown.put(p.toString(), error.map(e -> e.getClass().getSimpleName()).orElse("elected")));
                return shown;
            });
        }
        step("alterPartitionReassignments", () -> each(admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(1))))).values()));
        step("alterPartitionReassignments in bad ways", () -> each(admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(1, 9))),
            none, Optional.of(new NewPartitionReassignment(List.of(1))), new TopicPartition("two", 1), Optional.of(new NewPartitionReassignment(List.of(1, 1))))).values()));
        step("alterPartitionReassignments, a cancel of nothing", () -> each(admin.alterPartitionReassignments(Map.of(partition, Optional.empty())).values()));
        step("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        step("listPartitionReassignments of one", () -> admin.listPartitionReassignments(Set.of(partition, none)).reassignments());
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern, String principal, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(principal, "*", operation, permission));
    }

    private void security() throws Exception {
        AclBinding read = acl(ResourceType.TOPIC, "one", PatternType.LITERAL, "User:alice", AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding write = acl(ResourceType.TOPIC, "tw", PatternType.PREFIXED, "User:alice", AclOperation.WRITE, AclPermissionType.DENY);
        AclBinding group = acl(ResourceType.GROUP, "*", PatternType.LITERAL, "User:alice", AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding bad = acl(ResourceType.CLUSTER, "other", PatternType.LITERAL, "User:alice", AclOperation.ALTER, AclPermissionType.ALLOW);
        AclBinding noType = acl(ResourceType.TOPIC, "one", PatternType.LITERAL, "alice", AclOperation.READ, AclPermissionType.ALLOW);
        step("createAcls", () -> each(admin.createAcls(List.of(read, write, group)).values()));
        step("createAcls again", () -> each(admin.createAcls(List.of(read)).values()));
        step("createAcls in bad ways", () -> each(admin.createAcls(List.of(bad, noType)).values()));
        step("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        for (PatternType pattern : List.of(PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY)) {
            step("describeAcls of topic two, " + pattern, () -> admin.describeAcls(new AclBindingFilter(new ResourcePatternFilter(ResourceType.TOPIC, "two", pattern), AccessControlEntryFilter.ANY)).values());
        }
        step("describeAcls of nobody", () -> admin.describeAcls(new AclBindingFilter(ResourcePatternFilter.ANY, new AccessControlEntryFilter("User:nobody", null, AclOperation.ANY, AclPermissionType.ANY))).values());
        step("deleteAcls", () -> {
            DeleteAclsResult result = admin.deleteAcls(List.of(write.toFilter(), new AclBindingFilter(new ResourcePatternFilter(ResourceType.GROUP, null, PatternType.ANY), AccessControlEntryFilter.ANY)));
            return each(result.values(), found -> found.values().stream().map(f -> String.valueOf(f.binding())).toList());
        });
        step("describeAcls at the end", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        ClientQuotaEntity alice = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        ClientQuotaEntity both = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice", ClientQuotaEntity.CLIENT_ID, "app"));
        ClientQuotaFilter ofAlice = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "alice")));
        quota("set", alice, false, Map.of("producer_byte_rate", 1000.0, "request_percentage", 50.0));
        quota("of a client", both, false, Map.of("consumer_byte_rate", 2000.0));
        quota("only validated", alice, true, Map.of("consumer_byte_rate", 5.0));
        quota("unknown", alice, false, Map.of("no_such_quota", 1.0));
        quota("negative", alice, false, Map.of("producer_byte_rate", -1.0));
        step("describeClientQuotas", () -> admin.describeClientQuotas(ofAlice).entities());
        step("describeClientQuotas, only", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "alice")))).entities());
        step("describeClientQuotas, all", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        step("describeClientQuotas, an unknown type", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("planet", "earth")))).entities());
        for (ClientQuotaEntity entity : List.of(alice, both)) {
            step("alterClientQuotas, remove", () -> each(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null),
                new ClientQuotaAlteration.Op("request_percentage", null), new ClientQuotaAlteration.Op("consumer_byte_rate", null))))).values()));
        }
        step("describeClientQuotas at the end", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192);
        step("alterUserScramCredentials", () -> each(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice", info, "secret"))).values()));
        step("alterUserScramCredentials, too few iterations", () -> each(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5), "secret"))).values()));
        step("alterUserScramCredentials, a deletion of nothing", () -> each(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256))).values()));
        step("alterUserScramCredentials, a user twice", () -> each(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice", info, "a"), new UserScramCredentialUpsertion("alice", info, "b"))).values()));
        step("describeUserScramCredentials", () -> {
            DescribeUserScramCredentialsResult result = admin.describeUserScramCredentials(List.of("alice", "nobody"));
            return each(Map.of("alice", result.description("alice"), "nobody", result.description("nobody")));
        });
        step("describeUserScramCredentials, all", () -> admin.describeUserScramCredentials().users());
        step("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens());
        step("createDelegationToken", () -> admin.createDelegationToken().delegationToken());
        step("renewDelegationToken", () -> admin.renewDelegationToken(new byte[3]).expiryTimestamp());
        step("expireDelegationToken", () -> admin.expireDelegationToken(new byte[3]).expiryTimestamp());
    }

    private void quota(String what, ClientQuotaEntity entity, boolean validate, Map<String, Double> values) {
        List<ClientQuotaAlteration.Op> operations = new ArrayList<>();
        new TreeMap<>(values).forEach((key, value) -> operations.add(new ClientQuotaAlteration.Op(key, value)));
        step("alterClientQuotas, " + what, () -> each(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, operations)), new AlterClientQuotasOptions().validateOnly(validate)).values()));
    }

    private void cluster() {
        step("describeCluster", () -> {
            DescribeClusterResult result = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            return result.nodes().get() + " controller " + result.controller().get() + " " + text(result.authorizedOperations().get()) + " cluster " + (result.clusterId().get().length() == 22);
        });
        step("describeFeatures", () -> new TreeSet<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures().keySet()));
        step("updateFeatures, only validated", () -> each(admin.updateFeatures(Map.of("no.such.feature", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)).values()));
        step("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        step("unregisterBroker", () -> admin.unregisterBroker(9).all());
        step("unregisterController", () -> admin.unregisterController(9).all());
        step("addRaftVoter", () -> admin.addRaftVoter(9, UNKNOWN_ID, Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 1)), new AddRaftVoterOptions().timeoutMs(2_000)).all());
        step("removeRaftVoter", () -> admin.removeRaftVoter(9, UNKNOWN_ID).all());
        step("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(2)) != null);
        step("metrics", () -> !admin.metrics().isEmpty());
    }

    private void deletions() {
        step("deleteTopics", () -> each(admin.deleteTopics(List.of("one", "missing", "a/b")).topicNameValues()));
        step("deleteTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of("two")).allTopicNames().get().get("two").topicId();
            return each(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id, UNKNOWN_ID))).topicIdValues());
        });
        step("listTopics at the end", () -> {
            Set<String> left;
            long giveUp = System.nanoTime() + WAIT_MS * 1_000_000L;
            do { // what was deleted may be listed for a moment
                left = admin.listTopics().names().get();
            } while (left.contains("two") && System.nanoTime() < giveUp);
            return left;
        });
    }

    /** Groups of both protocols with a live member each, and one that is only offsets. */
    private static final class Groups {
        private final AdminSweep sweep;
        private final Admin admin;

        Groups(AdminSweep sweep) {
            this.sweep = sweep;
            this.admin = sweep.admin;
        }

        private KafkaConsumer<byte[], byte[]> member(String group, String protocol) {
            Properties properties = sweep.client(group + "-client");
            properties.put("key.deserializer", ByteArrayDeserializer.class);
            properties.put("value.deserializer", ByteArrayDeserializer.class);
            properties.put("group.id", group);
            properties.put("group.protocol", protocol);
            properties.put("group.instance.id", group + "-instance");
            properties.put("client.rack", "rack");
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", false);
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
            consumer.subscribe(List.of("two"));
            long giveUp = System.nanoTime() + WAIT_MS * 1_000_000L;
            while (consumer.assignment().size() < 2 && System.nanoTime() < giveUp) {
                consumer.poll(Duration.ofMillis(100));
            }
            consumer.commitSync(Map.of(new TopicPartition("two", 0), new OffsetAndMetadata(5, "noted")));
            sweep.name(consumer.groupMetadata().memberId(), "MEMBER-OF-" + group);
            return consumer;
        }

        void run() throws Exception {
            TopicPartition zero = new TopicPartition("two", 0);
            TopicPartition one = new TopicPartition("two", 1);
            sweep.step("alterConsumerGroupOffsets of no group", () -> {
                AlterConsumerGroupOffsetsResult result = admin.alterConsumerGroupOffsets("simple", Map.of(zero, new OffsetAndMetadata(4, Optional.of(0), "m"), one, new OffsetAndMetadata(1),
                    new TopicPartition("missing", 0), new OffsetAndMetadata(1)));
                return sweep.each(Map.of(zero, result.partitionResult(zero), new TopicPartition("missing", 0), result.partitionResult(new TopicPartition("missing", 0))));
            });
            List<String> groups = List.of("classic", "consumer", "simple", "missing");
            try (KafkaConsumer<byte[], byte[]> classic = member("classic", "classic"); KafkaConsumer<byte[], byte[]> consumer = member("consumer", "consumer")) {
                sweep.step("listGroups", () -> admin.listGroups().all());
                sweep.step("listGroups, consumer", () -> admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all());
                sweep.step("listGroups, stable", () -> admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))).all());
                sweep.step("listGroups, without a protocol", () -> admin.listGroups(new ListGroupsOptions().withProtocolTypes(Set.of(""))).all());
                sweep.step("listGroups for consumers", () -> admin.listGroups(ListGroupsOptions.forConsumerGroups()).all());
                sweep.step("listConsumerGroups", () -> admin.listConsumerGroups().all());
                sweep.step("describeConsumerGroups", () -> sweep.each(admin.describeConsumerGroups(groups, new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups()));
                sweep.step("describeClassicGroups", () -> sweep.each(admin.describeClassicGroups(groups).describedGroups()));
                sweep.step("alterConsumerGroupOffsets of a live group", () -> admin.alterConsumerGroupOffsets("classic", Map.of(zero, new OffsetAndMetadata(1))).all());
                sweep.step("alterConsumerGroupOffsets of a live consumer group", () -> admin.alterConsumerGroupOffsets("consumer", Map.of(zero, new OffsetAndMetadata(1))).all());
                sweep.step("deleteConsumerGroups, live", () -> sweep.each(admin.deleteConsumerGroups(groups.subList(0, 2)).deletedGroups()));
                for (String group : groups) {
                    sweep.step("deleteConsumerGroupOffsets of " + group, () -> {
                        DeleteConsumerGroupOffsetsResult result = admin.deleteConsumerGroupOffsets(group, Set.of(one));
                        return sweep.each(Map.of(one, result.partitionResult(one)));
                    });
                }
                sweep.step("removeMembersFromConsumerGroup, by a wrong name", () -> {
                    MemberToRemove wrong = new MemberToRemove("nobody");
                    RemoveMembersFromConsumerGroupResult result = admin.removeMembersFromConsumerGroup("classic", new RemoveMembersFromConsumerGroupOptions(Set.of(wrong)));
                    return sweep.each(Map.of("nobody", result.memberResult(wrong)));
                });
                sweep.step("removeMembersFromConsumerGroup by name", () -> admin.removeMembersFromConsumerGroup("classic",
                    new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("classic-instance")))).all());
                sweep.step("removeMembersFromConsumerGroup, all", () -> admin.removeMembersFromConsumerGroup("consumer", new RemoveMembersFromConsumerGroupOptions()).all());
                sweep.step("describeConsumerGroups after", () -> sweep.each(admin.describeConsumerGroups(groups).describedGroups(), g -> g.members().size() + " members, " + g.groupState()));
            }
            sweep.step("listConsumerGroupOffsets", () -> {
                ListConsumerGroupOffsetsResult result = admin.listConsumerGroupOffsets(Map.of("classic", new ListConsumerGroupOffsetsSpec(), "consumer", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(zero, one)),
                    "simple", new ListConsumerGroupOffsetsSpec(), "missing", new ListConsumerGroupOffsetsSpec()));
                Map<String, KafkaFuture<Map<TopicPartition, OffsetAndMetadata>>> all = new TreeMap<>();
                for (String group : groups) {
                    all.put(group, result.partitionsToOffsetAndMetadata(group));
                }
                return sweep.each(all);
            });
            sweep.step("deleteConsumerGroups", () -> sweep.each(admin.deleteConsumerGroups(groups).deletedGroups()));
            sweep.step("listGroups at the end", () -> admin.listGroups().all());
            sweep.step("describeShareGroups", () -> sweep.each(admin.describeShareGroups(List.of("missing")).describedGroups()));
            sweep.step("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("missing", new ListShareGroupOffsetsSpec())).all());
            sweep.step("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("missing", Map.of(zero, 1L)).all());
            sweep.step("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("missing", Set.of("two")).all());
            sweep.step("deleteShareGroups", () -> sweep.each(admin.deleteShareGroups(List.of("missing")).deletedGroups()));
            sweep.step("describeStreamsGroups", () -> sweep.each(admin.describeStreamsGroups(List.of("missing")).describedGroups()));
            sweep.step("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(Map.of("missing", new ListStreamsGroupOffsetsSpec())).all());
            sweep.step("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("missing-streams", Map.of(zero, new OffsetAndMetadata(1))).all());
            sweep.step("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("missing-streams", Set.of(zero)).all());
            sweep.step("deleteStreamsGroups", () -> sweep.each(admin.deleteStreamsGroups(List.of("missing")).deletedGroups()));
        }
    }

    /** A transaction that is open and one that is complete. */
    private static final class Transactions {
        private final AdminSweep sweep;
        private final Admin admin;

        Transactions(AdminSweep sweep) {
            this.sweep = sweep;
            this.admin = sweep.admin;
        }

        private KafkaProducer<byte[], byte[]> begin(String id) throws Exception {
            Properties properties = sweep.client(id);
            properties.put("key.serializer", ByteArraySerializer.class);
            properties.put("value.serializer", ByteArraySerializer.class);
            properties.put("transactional.id", id);
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
            producer.initTransactions();
            producer.close();
            producer = new KafkaProducer<>(properties); // of an epoch that has one before it
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("assigned", 0, null, new byte[1])).get();
            return producer;
        }

        private static String show(TransactionDescription t) {
            return t.state() + " epoch " + t.producerEpoch() + " timeout " + t.transactionTimeoutMs() + " partitions " + text(t.topicPartitions()) + " since " + t.transactionStartTimeMs().isPresent()
                + " coordinator " + t.coordinatorId();
        }

        private static String show(ProducerState p) {
            return "epoch " + p.producerEpoch() + " sequence " + p.lastSequence() + " coordinator epoch " + p.coordinatorEpoch() + " open at " + p.currentTransactionStartOffset();
        }

        private static List<String> show(Collection<TransactionListing> all) {
            return all.stream().map(t -> t.transactionalId() + " " + t.state()).sorted().toList();
        }

        void run() throws Exception {
            TopicPartition partition = new TopicPartition("assigned", 0);
            TopicPartition none = new TopicPartition("assigned", 9);
            KafkaProducer<byte[], byte[]> open = begin("open");
            KafkaProducer<byte[], byte[]> complete = begin("complete");
            complete.commitTransaction();
            long giveUp = System.nanoTime() + WAIT_MS * 1_000_000L;
            while (admin.describeTransactions(List.of("complete")).description("complete").get().state() != TransactionState.COMPLETE_COMMIT && System.nanoTime() < giveUp) {
                Thread.sleep(20); // the answer to a commit does not wait for its end
            }
            sweep.step("listTransactions", () -> show(admin.listTransactions().all().get()));
            sweep.step("listTransactions, ongoing", () -> show(admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))).all().get()));
            sweep.step("listTransactions by name", () -> show(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("c.*")).all().get()));
            sweep.step("listTransactions, a bad pattern", () -> show(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("c(")).all().get()));
            sweep.step("listTransactions, long ones", () -> show(admin.listTransactions(new ListTransactionsOptions().filterOnDuration(3_600_000)).all().get()));
            sweep.step("describeTransactions", () -> {
                DescribeTransactionsResult result = admin.describeTransactions(List.of("open", "complete", "missing"));
                return sweep.each(Map.of("open", result.description("open"), "complete", result.description("complete"), "missing", result.description("missing")), Transactions::show);
            });
            sweep.step("describeProducers", () -> {
                DescribeProducersResult result = admin.describeProducers(List.of(partition, none), new DescribeProducersOptions().brokerId(1));
                return sweep.each(Map.of(partition, result.partitionResult(partition), none, result.partitionResult(none)), s -> s.activeProducers().stream().map(Transactions::show).sorted().toList());
            });
            ProducerState hanging = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().stream()
                .filter(p -> p.currentTransactionStartOffset().isPresent()).findFirst().orElseThrow();
            sweep.step("abortTransaction, a wrong epoch", () -> admin.abortTransaction(new AbortTransactionSpec(partition, hanging.producerId(), (short) (hanging.producerEpoch() - 1), 0)).all());
            sweep.step("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(partition, hanging.producerId(), (short) hanging.producerEpoch(), 0)).all());
            sweep.step("abortTransaction of nothing", () -> admin.abortTransaction(new AbortTransactionSpec(partition, 999_999, (short) 0, 0)).all());
            sweep.step("describeProducers after", () -> admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().stream().map(Transactions::show).sorted().toList());
            sweep.step("forceTerminateTransaction", () -> admin.forceTerminateTransaction("open").result());
            sweep.step("forceTerminateTransaction of nothing", () -> admin.forceTerminateTransaction("missing").result());
            sweep.step("fenceProducers", () -> sweep.each(admin.fenceProducers(List.of("complete", "never")).fencedProducers()));
            sweep.step("fenced", () -> {
                complete.beginTransaction();
                complete.send(new ProducerRecord<>("assigned", 0, null, new byte[1])).get();
                return "not fenced";
            });
            sweep.step("describeTransactions at the end", () -> {
                DescribeTransactionsResult result = admin.describeTransactions(List.of("complete", "never"));
                return sweep.each(Map.of("complete", result.description("complete"), "never", result.description("never")), Transactions::show);
            });
            open.close(Duration.ZERO);
            complete.close(Duration.ZERO);
        }
    }
}
