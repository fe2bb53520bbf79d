import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consumes, transforms and produces in transactions that also carry the consumer's offsets: what an application without
 * Streams writes. For each group protocol two workers share the partitions of INPUT and copy them to INPUT's name with
 * "-classic" or "-consumer" behind it; that is also the name of the group.
 *
 * <p>usage: CopyLoop BOOTSTRAP INPUT; it runs until it is killed.
 */
final class CopyLoop implements Runnable {
    private final String bootstrap;
    private final String input;
    private final String protocol;
    private final String id;

    private CopyLoop(String bootstrap, String input, String protocol, int number) {
        this.bootstrap = bootstrap;
        this.input = input;
        this.protocol = protocol;
        this.id = protocol + "-worker-" + number;
    }

    public static void main(String[] arguments) throws InterruptedException {
        for (String protocol : List.of("classic", "consumer")) {
            for (int number = 0; number < 2; number++) {
                new Thread(new CopyLoop(arguments[0], arguments[1], protocol, number)).start();
            }
        }
        Thread.currentThread().join();
    }

    @Override
    public void run() {
        while (true) {
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consumerProperties());
                 KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producerProperties())) {
                producer.initTransactions();
                consumer.subscribe(List.of(input));
                while (true) {
                    copy(consumer, producer);
                }
            } catch (KafkaException e) {
                // Fenced, or an end of a transaction of which nobody can tell how it came out: both start anew.
                System.err.println(id + " starts anew after " + e);
            }
        }
    }

    private void copy(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        if (records.isEmpty()) {
            return;
        }
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(input + "-" + protocol, record.partition(), null, record.value()));
                next.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
            producer.commitTransaction();
        } catch (KafkaException e) {
            System.err.println(id + " aborts after " + e);
            producer.abortTransaction(); // throws where only a new producer helps
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
            for (TopicPartition partition : consumer.assignment()) {
                OffsetAndMetadata at = committed.get(partition);
                if (at == null) {
                    consumer.seekToBeginning(List.of(partition));
                } else {
                    consumer.seek(partition, at);
                }
            }
        }
    }

    private Properties shared() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", id);
        properties.put("reconnect.backoff.max.ms", 200);
        properties.put("retry.backoff.max.ms", 200);
        return properties;
    }

    private Properties consumerProperties() {
        Properties properties = shared();
        properties.put("key.deserializer", ByteArrayDeserializer.class);
        properties.put("value.deserializer", ByteArrayDeserializer.class);
        properties.put("group.id", input + "-" + protocol);
        properties.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            properties.put("session.timeout.ms", 6_000);
            properties.put("heartbeat.interval.ms", 500);
        }
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", false);
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", 20);
        return properties;
    }

    private Properties producerProperties() {
        Properties properties = shared();
        properties.put("key.serializer", ByteArraySerializer.class);
        properties.put("value.serializer", ByteArraySerializer.class);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", 5_000);
        return properties;
    }
}
