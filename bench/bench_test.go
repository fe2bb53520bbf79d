package bench

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMain lets the test binary be the raw loop's process, as `kaas bench`
// lets the broker's binary be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "bench" {
		command := Command()
		command.SetArgs(os.Args[2:])
		if err := command.Execute(); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRawLoop moves some megabytes through the raw loop, both ways of
// sending, with the driver's own checks of offsets and acknowledgements.
func TestRawLoop(t *testing.T) {
	t.Parallel()
	for _, how := range []string{rawSendfile, rawMapped, rawSync} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, err := startRaw(how)(options{DataParent: t.TempDir()}, costOfAByte(1))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}()
			for range 2 { // the second goes on where the first has ended
				moved, err := s.driver.run(8 << 20)
				if err != nil {
					t.Fatalf("%v\n%s", err, s.output)
				}
				if moved.Bytes < 8<<20 || moved.Produces*int64(s.driver.batch) != moved.Bytes || moved.Fetches == 0 {
					t.Errorf("moved %+v", moved)
				}
			}
			used, err := s.cpu()
			if err != nil || used.total <= 0 {
				t.Errorf("the loop has used %v, %v", used, err)
			}
		})
	}
}

// TestFetchChecks feeds the driver answers that it must not take.
func TestFetchChecks(t *testing.T) {
	t.Parallel()
	answer := func(partition int32, code int16, bases ...int64) []byte {
		response := kmsg.NewPtrFetchResponse()
		response.SetVersion(fetchVersion)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = "bench"
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode = partition, code
		for _, base := range bases {
			batch, _ := makeBatch(rand.New(rand.NewPCG(1, 1)), 2000, 900)
			binary.BigEndian.PutUint64(batch, uint64(base))
			p.RecordBatches = append(p.RecordBatches, batch...)
		}
		topic.Partitions = append(topic.Partitions, p)
		response.Topics = append(response.Topics, topic)
		return response.AppendTo(make([]byte, 8))
	}
	fresh := func() *driver {
		return newDriver(load{Topic: "bench", Partitions: 2, BatchBytes: 2000, ValueBytes: 900}, "")
	}
	d := fresh()
	if err := d.checkFetch(answer(1, 0, 0, 2)); err != nil || d.next[1] != 4 {
		t.Errorf("two batches of two records: %v, next offset %d", err, d.next[1])
	}
	for name, wrong := range map[string][]byte{
		"an error":         answer(0, 6),
		"a gap":            answer(0, 0, 0, 4),
		"a batch twice":    answer(0, 0, 0, 0),
		"another begin":    answer(1, 0, 2),
		"another position": answer(0, 0, 2, 0),
	} {
		if err := fresh().checkFetch(wrong); err == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
}

// TestFramesDecode holds the hand-written frames against franz-go's decoders.
func TestFramesDecode(t *testing.T) {
	t.Parallel()
	batch, records := makeBatch(rand.New(rand.NewPCG(3, 4)), 64<<10, 1<<10)
	if len(batch) > 64<<10 || records != 63 || crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
		t.Errorf("a batch of %d bytes with %d records", len(batch), records)
	}
	var decoded kmsg.RecordBatch
	if err := decoded.ReadFrom(batch); err != nil || decoded.NumRecords != 63 || decoded.LastOffsetDelta != 62 {
		t.Errorf("batch: %v", err)
	}
	fetch, offsetAt := fetchFrame("topic", []int32{3, 5}, 1<<20)
	binary.BigEndian.PutUint64(fetch[offsetAt[1]:], 42)
	for _, f := range []struct {
		frame   []byte
		request kmsg.Request
	}{
		{produceFrame("topic", 7, -1, batch), kmsg.NewPtrProduceRequest()},
		{fetch, kmsg.NewPtrFetchRequest()},
		{createTopicFrame("topic", 3, [][2]string{{"a", "b"}}), kmsg.NewPtrCreateTopicsRequest()},
		{metadataFrame("topic", true), kmsg.NewPtrMetadataRequest()},
	} {
		if got := int(binary.BigEndian.Uint32(f.frame)); got != len(f.frame)-4 {
			t.Errorf("%T: the length says %d of %d", f.request, got, len(f.frame)-4)
		}
		f.request.SetVersion(int16(binary.BigEndian.Uint16(f.frame[6:])))
		body := f.frame[14+len(clientID):]
		if err := f.request.ReadFrom(body); err != nil {
			t.Errorf("%T: %v", f.request, err)
		}
		if again := f.request.AppendTo(nil); string(again) != string(body) {
			t.Errorf("%T is not the bytes that franz-go writes", f.request)
		}
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := newRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Figures = []figure{newFigure("s", "kaas", "CPU", "s/GB", "", []float64{3, 1, 2, 10})}
	for range 2 {
		if _, err := r.save(filepath.Join(dir, "results")); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "results", time.Now().UTC().Format("2006-01-02")+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var back row
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &back) != nil || back.Figures[0].Median != 2.5 || back.Host.Cores < 1 {
		t.Errorf("saved:\n%s", text)
	}
	if !strings.Contains(r.table(), "CPU") {
		t.Error(r.table())
	}
}
