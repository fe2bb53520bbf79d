package logstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kaas/codec/batch"
)

func rejectedBatch(t *testing.T, codec batch.Compression, records ...batch.Record) []byte {
	t.Helper()
	b := batch.Builder{Compression: codec}
	for _, r := range records {
		b.Append(r.TimestampMs, r.Key, r.Value)
	}
	out, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTimestampsOutOfBoundsNameTheirRecords(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) { o.InMemory = true })
	c := DefaultConfig()
	c.TimestampBeforeMaxMs = 10_000
	p, err := h.s.Ensure("t", topicID, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	records := rejectedBatch(t, batch.Gzip, batch.Record{TimestampMs: now - 60_000}, batch.Record{TimestampMs: now}, batch.Record{TimestampMs: now + 7_200_000})
	_, err = p.Append(records, AppendOptions{})
	var rejected *RejectedError
	if !errors.Is(err, ErrInvalidTimestamp) || !errors.As(err, &rejected) {
		t.Fatal(err)
	}
	if len(rejected.Records) != 2 || rejected.Records[0].BatchIndex != 0 || rejected.Records[1].BatchIndex != 2 ||
		rejected.Message != "One or more records have been rejected due to invalid timestamp" {
		t.Fatalf("%+v", rejected)
	}
	if p.LogEndOffset() != 0 {
		t.Fatal("the end moved")
	}
}

func TestCompactedTopicsWantKeys(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) { o.InMemory = true })
	c := DefaultConfig()
	c.CleanupCompact = true
	p, err := h.s.Ensure("t", topicID, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	keyed, keyless := batch.Record{TimestampMs: now, Key: []byte{}}, batch.Record{TimestampMs: now}
	for _, codec := range []batch.Compression{batch.None, batch.Zstd} {
		_, err = p.Append(rejectedBatch(t, codec, keyed, keyless), AppendOptions{})
		var rejected *RejectedError
		if !errors.Is(err, ErrInvalidRecord) || !errors.As(err, &rejected) {
			t.Fatal(err)
		}
		if len(rejected.Records) != 1 || rejected.Records[0].BatchIndex != 1 || !strings.Contains(rejected.Message, "due to 1 record errors") {
			t.Fatalf("%+v", rejected)
		}
		if _, err := p.Append(rejectedBatch(t, codec, keyed), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if p.LogEndOffset() != 2 {
		t.Fatalf("end offset %d", p.LogEndOffset())
	}
}
