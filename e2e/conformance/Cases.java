import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.MetadataRequestData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * The conversations, one for each key, and what they share: the topic that all of them use and the versions to speak
 * in when the version is not what is looked at.
 */
final class Cases {
    /** Below it Produce is advertised and refused. */
    static final short PRODUCE_FLOOR = 3;

    static final int TIMEOUT_MS = 10_000;
    static final String TOPIC = "conformance";
    static final String MISSING = "conformance-missing";
    static final Uuid UNKNOWN_ID = new Uuid(0x6b616173_0000_0001L, 0x1L);

    interface Case {
        void run(Wire wire, short version) throws IOException;
    }

    private final String host;
    private final int port;
    private final Map<Short, ApiVersion> advertised;
    private final Map<ApiKeys, Case> cases = new EnumMap<>(ApiKeys.class);
    private int serial;

    /** The id that the broker gave to TOPIC. */
    Uuid topicId = Uuid.ZERO_UUID;

    Cases(String host, int port, Map<Short, ApiVersion> advertised) {
        this.host = host;
        this.port = port;
        this.advertised = advertised;
        new DataCases(this).register(cases);
        new GroupCases(this).register(cases);
        new TransactionCases(this).register(cases);
        new AdminCases(this).register(cases);
    }

    Case of(ApiKeys key) {
        return cases.get(key);
    }

    boolean serves(ApiKeys key) {
        return advertised.containsKey(key.id);
    }

    /** The highest version that both sides know. */
    short best(ApiKeys key) {
        ApiVersion range = advertised.get(key.id);
        if (range == null) {
            throw new Wire.Wrong(key + " is needed for this case and not advertised");
        }
        return (short) Math.min(range.maxVersion(), key.messageType.highestSupportedVersion(false));
    }

    /** The highest version up to a limit, for requests that change their meaning. */
    short best(ApiKeys key, int most) {
        return (short) Math.min(best(key), most);
    }

    /** A name that no other conversation uses. */
    String fresh(String prefix) {
        return prefix + "-" + ++serial;
    }

    Wire connect() throws IOException {
        return new Wire(host, port);
    }

    void prepare() throws IOException {
        try (Wire wire = connect()) {
            topicId = createTopic(wire, TOPIC, 2);
            // Asking for a coordinator is what makes a broker create the topic that it works on.
            findCoordinator(wire, (byte) 0);
            if (serves(ApiKeys.END_TXN)) {
                findCoordinator(wire, (byte) 1);
            }
            for (int i = 0; i < 3; i++) {
                DataCases.produce(this, wire, best(ApiKeys.PRODUCE), TOPIC, topicId, 0, DataCases.plainRecords(100 * i)).ok();
            }
        }
    }

    private void findCoordinator(Wire wire, byte type) throws IOException {
        FindCoordinatorRequestData request = new FindCoordinatorRequestData().setKeyType(type);
        short version = best(ApiKeys.FIND_COORDINATOR);
        if (version < 4) {
            request.setKey(TOPIC);
        } else {
            request.setCoordinatorKeys(List.of(TOPIC));
        }
        wire.exchange(ApiKeys.FIND_COORDINATOR, version, request).ok();
    }

    /** Creates a topic and waits until Metadata shows leaders for all of it. */
    Uuid createTopic(Wire wire, String name, int partitions) throws IOException {
        CreateTopicsRequestData request = new CreateTopicsRequestData().setTimeoutMs(TIMEOUT_MS);
        request.topics().add(new CreateTopicsRequestData.CreatableTopic().setName(name).setNumPartitions(partitions)
            .setReplicationFactor((short) 1));
        wire.exchange(ApiKeys.CREATE_TOPICS, best(ApiKeys.CREATE_TOPICS), request).ok();
        long giveUp = System.nanoTime() + TIMEOUT_MS * 1_000_000L;
        while (true) {
            Wire.Reply reply = wire.exchange(ApiKeys.METADATA, best(ApiKeys.METADATA), new MetadataRequestData()
                .setAllowAutoTopicCreation(false)
                .setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName(name))));
            MetadataResponseData answer = reply.as();
            if (reply.errors().isEmpty()) {
                return answer.topics().iterator().next().topicId();
            }
            if (System.nanoTime() > giveUp) {
                throw new Wire.Wrong("topic " + name + " is created and not served: " + answer);
            }
            LockSupport.parkNanos(10_000_000);
        }
    }

    static void check(boolean right, String what, Object seen) {
        if (!right) {
            throw new Wire.Wrong(what + ", not so in " + seen);
        }
    }

    /**
     * Versions that Apache Kafka dropped with 4.0 and kaas serves: its classes do not write them, so they are written
     * here by hand. None of them is flexible.
     */
    void beforeKafka4(Wire wire, ApiKeys key, short version) throws IOException {
        switch (key) {
            case CREATE_TOPICS -> createTopicsBefore4(wire, version);
            case DELETE_TOPICS -> deleteTopicsBefore4(wire, version);
            case DESCRIBE_CONFIGS -> describeConfigsBefore4(wire, version);
            case DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS -> aclsBefore4(wire, key, version);
            default -> throw new Wire.Wrong("a version that Kafka 4.4 has not, without a case here");
        }
    }

    private void createTopicsBefore4(Wire wire, short version) throws IOException {
        String name = fresh("old-create");
        for (boolean again : new boolean[] {false, true}) {
            Old request = new Old().int32(1).string(name).int32(2).int16(1).int32(0).int32(1).string("retention.ms").string("1000")
                .int32(TIMEOUT_MS);
            if (version >= 1) {
                request.int8(0);
            }
            ByteBuffer answer = wire.exchangeRaw(ApiKeys.CREATE_TOPICS, version, request.bytes());
            check(answer.getInt() == 1, "one topic is answered", answer);
            check(Old.string(answer).equals(name), "the topic asked for is answered", answer);
            short error = answer.getShort();
            check(error == (again ? Errors.TOPIC_ALREADY_EXISTS.code() : 0), "created once", error);
            if (version >= 1) {
                String message = Old.string(answer);
                check((message != null) == again, "an error has a message", message);
            }
            check(!answer.hasRemaining(), "nothing is left over", answer);
        }
    }

    private void deleteTopicsBefore4(Wire wire, short version) throws IOException {
        String name = fresh("old-delete");
        createTopic(wire, name, 1);
        for (boolean again : new boolean[] {false, true}) {
            ByteBuffer answer = wire.exchangeRaw(ApiKeys.DELETE_TOPICS, version, new Old().int32(1).string(name).int32(TIMEOUT_MS).bytes());
            check(answer.getInt() == 1 && Old.string(answer).equals(name), "the topic asked for is answered", answer);
            short error = answer.getShort();
            check(error == (again ? Errors.UNKNOWN_TOPIC_OR_PARTITION.code() : 0), "deleted once", error);
            check(!answer.hasRemaining(), "nothing is left over", answer);
        }
    }

    private void describeConfigsBefore4(Wire wire, short version) throws IOException {
        ByteBuffer answer = wire.exchangeRaw(ApiKeys.DESCRIBE_CONFIGS, version,
            new Old().int32(1).int8(2).string(TOPIC).int32(1).string("retention.ms").bytes());
        answer.getInt(); // throttle time
        check(answer.getInt() == 1, "one resource is answered", answer);
        String message = answer.getShort() == 0 ? Old.string(answer) : "an error";
        check(message == null || message.isEmpty(), "no error", message);
        check(answer.get() == 2 && Old.string(answer).equals(TOPIC), "the resource asked for", answer);
        check(answer.getInt() == 1 && Old.string(answer).equals("retention.ms"), "the key asked for", answer);
        check(Old.string(answer).equals("604800000"), "a week", answer);
        check(answer.get() == 0 && answer.get() == 1 && answer.get() == 0, "writable, default, not sensitive", answer);
        check(!answer.hasRemaining(), "nothing is left over", answer);
    }

    private void aclsBefore4(Wire wire, ApiKeys key, short version) throws IOException {
        Old request = new Old();
        if (key != ApiKeys.DESCRIBE_ACLS) {
            request.int32(1);
        }
        // topic, name, principal, any host, read, allow
        request.int8(2).string("old-acl").string("User:old").string("*").int8(3).int8(3);
        ByteBuffer answer = wire.exchangeRaw(key, version, request.bytes());
        answer.getInt(); // throttle time
        if (key != ApiKeys.DESCRIBE_ACLS) {
            check(answer.getInt() == 1, "one result", answer);
        }
        answer.getShort(); // depends on the authorizer
        Old.string(answer);
        if (key != ApiKeys.CREATE_ACLS) {
            int found = answer.getInt();
            check(found >= 0 && (found > 0 || !answer.hasRemaining()), "an empty list ends the answer", answer);
        } else {
            check(!answer.hasRemaining(), "nothing is left over", answer);
        }
    }

    /** Kafka's old, non-flexible types. */
    static final class Old {
        private final ByteBuffer buffer = ByteBuffer.allocate(4096);

        Old int8(int value) {
            buffer.put((byte) value);
            return this;
        }

        Old int16(int value) {
            buffer.putShort((short) value);
            return this;
        }

        Old int32(int value) {
            buffer.putInt(value);
            return this;
        }

        Old string(String value) {
            byte[] utf8 = value.getBytes(StandardCharsets.UTF_8);
            buffer.putShort((short) utf8.length).put(utf8);
            return this;
        }

        byte[] bytes() {
            byte[] written = new byte[buffer.position()];
            buffer.flip().get(written);
            return written;
        }

        static String string(ByteBuffer from) {
            short length = from.getShort();
            if (length < 0) {
                return null;
            }
            byte[] utf8 = new byte[length];
            from.get(utf8);
            return new String(utf8, StandardCharsets.UTF_8);
        }
    }
}
