import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.message.ApiVersionsRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.protocol.ApiKeys;

/**
 * Asks a broker which versions it serves and then uses every one of them.
 *
 * <p>usage: Conformance HOST PORT [--reference]
 *
 * <p>For each advertised key and version, Cases has a conversation that a real client would have; Wire judges the bytes
 * of every answer, Cases judges what it says. A key without a case fails: what is advertised is tested. With --reference
 * (Apache Kafka itself, which serves more) such keys are only named. One line on stdout for each key; exit code 1 and
 * the reasons on stderr when anything is wrong.
 */
public final class Conformance {
    private final String host;
    private final int port;
    private final boolean reference;
    private final List<String> failures = new ArrayList<>();
    private int exchanges;

    private Conformance(String host, int port, boolean reference) {
        this.host = host;
        this.port = port;
        this.reference = reference;
    }

    public static void main(String[] arguments) throws Exception {
        Conformance run = new Conformance(arguments[0], Integer.parseInt(arguments[1]),
            arguments.length > 2 && arguments[2].equals("--reference"));
        run.everything();
        for (String failure : run.failures) {
            System.err.println("FAILED " + failure);
        }
        System.out.println(run.exchanges + " versions were used, " + run.failures.size() + " failed");
        System.exit(run.failures.isEmpty() && run.exchanges > 0 ? 0 : 1);
    }

    private void everything() throws Exception {
        Map<Short, ApiVersionsResponseData.ApiVersion> advertised = advertised();
        Cases cases = new Cases(host, port, advertised);
        cases.prepare();
        for (ApiVersionsResponseData.ApiVersion range : advertised.values()) {
            if (!ApiKeys.hasId(range.apiKey())) {
                failures.add("key " + range.apiKey() + " is advertised and no key of Kafka 4.4");
                continue;
            }
            ApiKeys key = ApiKeys.forId(range.apiKey());
            Cases.Case conversation = cases.of(key);
            if (conversation == null) {
                if (!reference) {
                    failures.add(key + " is advertised and has no case here");
                }
                System.out.println(key.name + ": no case");
                continue;
            }
            int failedBefore = failures.size();
            for (short version = range.minVersion(); version <= range.maxVersion(); version++) {
                one(cases, conversation, key, version);
            }
            if (range.minVersion() > 0 && !reference) {
                mustClose(key, (short) (range.minVersion() - 1));
            }
            mustClose(key, (short) (range.maxVersion() + 1));
            System.out.printf("%s: %d to %d %s%n", key.name, range.minVersion(), range.maxVersion(),
                failures.size() == failedBefore ? "ok" : "FAILED");
        }
    }

    private void one(Cases cases, Cases.Case conversation, ApiKeys key, short version) {
        exchanges++;
        try (Wire wire = new Wire(host, port)) {
            if (key == ApiKeys.PRODUCE && version < Cases.PRODUCE_FLOOR) {
                // Advertised for the sake of old librdkafka only (KAFKA-18659): the broker closes the connection.
                refusedByClosing(wire, key, version);
            } else if (version < key.messageType.lowestSupportedVersion()) {
                cases.beforeKafka4(wire, key, version);
            } else if (version > key.messageType.highestSupportedVersion(true)) {
                throw new Wire.Wrong("Kafka 4.4 has no version " + version);
            } else {
                conversation.run(wire, version);
            }
        } catch (Exception e) {
            String where = "";
            for (StackTraceElement element : e.getStackTrace()) {
                if (element.getClassName().startsWith("Cases")) {
                    where = " (Cases.java:" + element.getLineNumber() + ")";
                    break;
                }
            }
            failures.add(key.name + " v" + version + ": " + (e instanceof Wire.Wrong ? e.getMessage() : e.toString()) + where);
        }
    }

    /** A version outside of the advertised range ends the connection; ApiVersions has its own rule and case. */
    private void mustClose(ApiKeys key, short version) {
        if (key == ApiKeys.API_VERSIONS) {
            return;
        }
        try (Wire wire = new Wire(host, port)) {
            refusedByClosing(wire, key, version);
        } catch (Exception e) {
            failures.add(key.name + " v" + version + ", which is not advertised: " + e.getMessage());
        }
    }

    private static void refusedByClosing(Wire wire, ApiKeys key, short version) throws IOException {
        try {
            wire.exchangeRaw(key, version, new byte[64]);
        } catch (Wire.Closed expected) {
            return;
        }
        throw new Wire.Wrong("was answered; the connection should have been closed");
    }

    private Map<Short, ApiVersionsResponseData.ApiVersion> advertised() throws IOException {
        try (Wire wire = new Wire(host, port)) {
            ApiVersionsResponseData answer = wire.exchange(ApiKeys.API_VERSIONS, 3, new ApiVersionsRequestData()
                .setClientSoftwareName("kaas-conformance").setClientSoftwareVersion("1")).ok().as();
            Map<Short, ApiVersionsResponseData.ApiVersion> ranges = new TreeMap<>();
            for (ApiVersionsResponseData.ApiVersion range : answer.apiKeys()) {
                if (ranges.put(range.apiKey(), range) != null) {
                    failures.add("key " + range.apiKey() + " is advertised twice");
                }
            }
            return ranges;
        }
    }
}
