import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * One connection to a broker that speaks in Apache Kafka's own generated message classes and judges every answer as
 * bytes: the frame is consumed whole, the correlation id is ours, and writing the decoded answer again gives the same
 * bytes. The last holds exactly when the answer is in the one form that Kafka itself writes: a tagged field with its
 * default value, a tag section where the version has none, or a missing one, all change the bytes.
 */
final class Wire implements AutoCloseable {
    static final int READ_TIMEOUT_MS = 30_000;

    /** The broker closed the connection instead of answering. */
    static final class Closed extends IOException {
        Closed(Throwable cause) {
            super("the broker closed the connection", cause);
        }
    }

    /** An answer that a Kafka client would stumble over. */
    static final class Wrong extends RuntimeException {
        Wrong(String what) {
            super(what);
        }
    }

    /** A decoded answer and the error codes that stand anywhere in it. */
    record Reply(ApiKeys key, short version, ApiMessage message, Set<Errors> errors) {
        @SuppressWarnings("unchecked")
        <T extends ApiMessage> T as() {
            return (T) message;
        }

        /** Nothing in the answer may be an error. */
        Reply ok() {
            return only();
        }

        /** Each error in the answer is one of these; none at all is fine too. */
        Reply only(Errors... allowed) {
            for (Errors error : errors) {
                if (!Arrays.asList(allowed).contains(error)) {
                    throw new Wrong("error " + error + " in " + message);
                }
            }
            return this;
        }

        /** This error stands in the answer, and no other. */
        Reply fails(Errors wanted) {
            if (!errors.equals(Set.of(wanted))) {
                throw new Wrong("wanted the error " + wanted + ", got " + errors + " in " + message);
            }
            return this;
        }
    }

    private final Socket socket;
    private final DataInputStream input;
    private int correlationId = 1000;

    Wire(String host, int port) throws IOException {
        socket = new Socket();
        socket.connect(new InetSocketAddress(host, port), READ_TIMEOUT_MS);
        socket.setSoTimeout(READ_TIMEOUT_MS);
        socket.setTcpNoDelay(true);
        input = new DataInputStream(socket.getInputStream());
    }

    /** Errors by which a broker asks a client to come again: a coordinator that loads, a transaction that ends. */
    private static final Set<Errors> COME_AGAIN = Set.of(Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR, Errors.NOT_LEADER_OR_FOLLOWER, Errors.CONCURRENT_TRANSACTIONS);

    /** Sends a request in a version and decodes and checks the answer; repeats it as a client does. */
    Reply exchange(ApiKeys key, int version, ApiMessage request) throws IOException {
        long giveUp = System.nanoTime() + READ_TIMEOUT_MS * 1_000_000L;
        while (true) {
            send(key, (short) version, request);
            Reply reply = decode(key, (short) version, receive());
            if (Collections.disjoint(reply.errors(), COME_AGAIN) || System.nanoTime() > giveUp) {
                return reply;
            }
            LockSupport.parkNanos(20_000_000);
        }
    }

    /** Sends a request that is never answered (acks=0). */
    void send(ApiKeys key, short version, ApiMessage request) throws IOException {
        RequestHeaderData header = new RequestHeaderData()
            .setRequestApiKey(key.id)
            .setRequestApiVersion(version)
            .setCorrelationId(++correlationId)
            .setClientId("conformance");
        sendFrame(bytes(header, key.requestHeaderVersion(version)), bytes(request, version));
    }

    /** Sends a request whose body this program wrote by hand, below a header of version 1. */
    ByteBuffer exchangeRaw(ApiKeys key, int version, byte[] body) throws IOException {
        RequestHeaderData header = new RequestHeaderData()
            .setRequestApiKey(key.id)
            .setRequestApiVersion((short) version)
            .setCorrelationId(++correlationId)
            .setClientId("conformance");
        sendFrame(bytes(header, (short) 1), ByteBuffer.wrap(body));
        ByteBuffer answer = receive();
        int id = answer.getInt();
        if (id != correlationId) {
            throw new Wrong("correlation id " + id + ", not " + correlationId);
        }
        return answer;
    }

    private void sendFrame(ByteBuffer header, ByteBuffer body) throws IOException {
        ByteBuffer frame = ByteBuffer.allocate(4 + header.remaining() + body.remaining());
        frame.putInt(frame.capacity() - 4).put(header).put(body);
        socket.getOutputStream().write(frame.array());
    }

    ByteBuffer receive() throws IOException {
        try {
            byte[] frame = new byte[input.readInt()];
            input.readFully(frame);
            return ByteBuffer.wrap(frame);
        } catch (EOFException | SocketException e) {
            throw new Closed(e);
        }
    }

    private Reply decode(ApiKeys key, short version, ByteBuffer frame) {
        return decode(key, version, frame, correlationId);
    }

    /** Judges the bytes of an answer; throws Wrong. */
    static Reply decode(ApiKeys key, short version, ByteBuffer frame, int correlationId) {
        byte[] whole = frame.array();
        ApiMessage message = key.messageType.newResponse();
        ResponseHeaderData header = new ResponseHeaderData();
        short headerVersion = key.responseHeaderVersion(version);
        try {
            ByteBufferAccessor reader = new ByteBufferAccessor(frame);
            header.read(reader, headerVersion);
            message.read(reader, version);
        } catch (RuntimeException e) {
            throw new Wrong("the answer does not decode: " + e + "; bytes " + hex(whole));
        }
        if (header.correlationId() != correlationId) {
            throw new Wrong("correlation id " + header.correlationId() + ", not " + correlationId);
        }
        if (frame.hasRemaining()) {
            throw new Wrong(frame.remaining() + " bytes are left over behind the answer; bytes " + hex(whole));
        }
        if (!header.unknownTaggedFields().isEmpty() || !message.unknownTaggedFields().isEmpty()) {
            throw new Wrong("tagged fields that Kafka does not know: " + hex(whole));
        }
        ByteBuffer headerAgain = bytes(header, headerVersion);
        ByteBuffer messageAgain = bytes(message, version);
        byte[] again = ByteBuffer.allocate(headerAgain.remaining() + messageAgain.remaining())
            .put(headerAgain).put(messageAgain).array();
        if (!Arrays.equals(whole, again)) {
            int at = Arrays.mismatch(whole, again);
            throw new Wrong("Kafka writes the same answer in other bytes, from byte " + at + " on:\n  came  " + hex(whole)
                + "\n  Kafka " + hex(again) + "\n  which is " + message);
        }
        Set<Errors> errors = new TreeSet<>();
        collectErrors(json(message, version), errors);
        return new Reply(key, version, message, errors);
    }

    static ByteBuffer bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor writer = new ByteBufferAccessor(ByteBuffer.allocate(message.size(cache, version)));
        message.write(writer, cache, version);
        writer.flip();
        return writer.buffer();
    }

    /** Kafka generates a converter to JSON for every message, which names each field: an easy way to find all error codes. */
    private static JsonNode json(ApiMessage message, short version) {
        try {
            Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
            for (Method method : converter.getMethods()) {
                if (method.getName().equals("write") && method.getParameterCount() == 3) {
                    return (JsonNode) method.invoke(null, message, version, false);
                }
            }
            throw new IllegalStateException("no write method in " + converter);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void collectErrors(JsonNode node, Set<Errors> into) {
        if (node.has("errorCode") && node.get("errorCode").asInt() != 0) {
            into.add(Errors.forCode((short) node.get("errorCode").asInt()));
        }
        node.forEach(child -> collectErrors(child, into));
    }

    static String hex(byte[] bytes) {
        int most = 600;
        String text = HexFormat.of().formatHex(bytes, 0, Math.min(bytes.length, most));
        return bytes.length > most ? text + "… (" + bytes.length + " bytes)" : text;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
