import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;

/** Shows that Wire refuses the mistakes it is there for: each has been shipped by some broker. */
final class SelfTest {
    private static final int ID = 7;

    private SelfTest() { }

    public static void main(String[] arguments) {
        byte[] old = frame(0, new HeartbeatResponseData(), 0);
        byte[] flexible = frame(1, new HeartbeatResponseData(), 4);
        byte[] versions = frame(0, new ApiVersionsResponseData(), 3);
        accepts("an old answer", ApiKeys.HEARTBEAT, 0, old);
        accepts("a flexible answer", ApiKeys.HEARTBEAT, 4, flexible);
        accepts("ApiVersions with a header of version 0", ApiKeys.API_VERSIONS, 3, versions);
        refuses("a tag byte in a header that has none", ApiKeys.HEARTBEAT, 0, insert(old, 4, 0));
        refuses("a tag byte behind a body that has none", ApiKeys.HEARTBEAT, 0, insert(old, old.length, 0));
        refuses("a flexible header for ApiVersions", ApiKeys.API_VERSIONS, 3, insert(versions, 4, 0));
        refuses("a missing tag section", ApiKeys.HEARTBEAT, 4, Arrays.copyOf(flexible, flexible.length - 1));
        refuses("an unknown tagged field", ApiKeys.HEARTBEAT, 4, insert(Arrays.copyOf(flexible, flexible.length - 1), flexible.length - 1, 1, 9, 1, 0));
        // Tag 1 of ApiVersions, FinalizedFeaturesEpoch, with its default -1: it decodes, and Kafka does not write it.
        refuses("a tagged field at its default value", ApiKeys.API_VERSIONS, 3,
            insert(Arrays.copyOf(versions, versions.length - 1), versions.length - 1, 1, 1, 8, 255, 255, 255, 255, 255, 255, 255, 255));
        refuses("another correlation id", ApiKeys.HEARTBEAT, 0, insert(Arrays.copyOfRange(old, 1, old.length), 0, 1));
    }

    private static byte[] frame(int headerVersion, org.apache.kafka.common.protocol.ApiMessage message, int version) {
        ByteBuffer header = Wire.bytes(new ResponseHeaderData().setCorrelationId(ID), (short) headerVersion);
        ByteBuffer body = Wire.bytes(message, (short) version);
        return ByteBuffer.allocate(header.remaining() + body.remaining()).put(header).put(body).array();
    }

    private static byte[] insert(byte[] into, int at, int... values) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(into, 0, at);
        for (int value : values) {
            out.write(value);
        }
        out.write(into, at, into.length - at);
        return out.toByteArray();
    }

    private static void accepts(String what, ApiKeys key, int version, byte[] frame) {
        Wire.decode(key, (short) version, ByteBuffer.wrap(frame), ID);
        System.out.println("accepted: " + what);
    }

    private static void refuses(String what, ApiKeys key, int version, byte[] frame) {
        try {
            Wire.decode(key, (short) version, ByteBuffer.wrap(frame), ID);
        } catch (Wire.Wrong expected) {
            System.out.println("refused: " + what);
            return;
        }
        System.err.println("not noticed: " + what);
        System.exit(1);
    }
}
