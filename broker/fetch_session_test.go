package broker

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/limits"
	"kaas/meta/config"
)

// sessionClient plays the client's side of one session.
type sessionClient struct {
	t       testing.TB
	b       *Broker
	version int16
	id      int32
	epoch   int32
}

func (c *sessionClient) fetch(offsets map[int32]int64, change ...func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
	c.t.Helper()
	request := fetchOf(c.t, c.b, fetchSpec{version: c.version, topic: "t", partitions: offsets, session: c.id, epoch: c.epoch, minBytes: 1})
	for _, f := range change {
		f(request)
	}
	got := receive[*kmsg.FetchResponse](c.t, request, send(c.t, c.b, testConnection(), request))
	if got.ErrorCode == 0 {
		c.id = got.SessionID
		c.epoch = nextSessionEpoch(c.epoch)
	}
	return got
}

// cached counts what the broker's cache holds.
func cached(b *Broker) (sessions, partitions int) {
	c := &b.data.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID), c.partitions
}

func partitionsOf(r *kmsg.FetchResponse) map[int32]kmsg.FetchResponseTopicPartition {
	all := make(map[int32]kmsg.FetchResponseTopicPartition)
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			all[p.Partition] = p
		}
	}
	return all
}

func TestIncrementalSessionAnswersOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{7, 11, 12, 13, 18} {
		b := newDataBroker(t, testTopics{"t": 4})
		put(t, b, "t", 0, "a")
		c := &sessionClient{t: t, b: b, version: version}
		if got := partitionsOf(c.fetch(map[int32]int64{0: 0, 1: 0, 2: 0})); len(got) != 3 || len(got[0].RecordBatches) == 0 {
			t.Fatalf("v%d: %+v", version, got)
		}
		if c.id == 0 {
			t.Fatalf("v%d: no session", version)
		}
		// The client moved on; nothing new.
		if got := partitionsOf(c.fetch(map[int32]int64{0: 1})); len(got) != 0 {
			t.Fatalf("v%d: %+v", version, got)
		}
		put(t, b, "t", 1, "b")
		if got := partitionsOf(c.fetch(nil)); len(got) != 1 || len(got[1].RecordBatches) == 0 {
			t.Fatalf("v%d: %+v", version, got)
		}
		// A partition joins, one is forgotten.
		put(t, b, "t", 2, "c")
		put(t, b, "t", 3, "d")
		got := partitionsOf(c.fetch(map[int32]int64{1: 1, 3: 0}, func(r *kmsg.FetchRequest) {
			forgotten := kmsg.NewFetchRequestForgottenTopic()
			forgotten.Topic, forgotten.TopicID, forgotten.Partitions = "t", topicIDOf(t, b, "t"), []int32{2, 99}
			r.ForgottenTopics = append(r.ForgottenTopics, forgotten)
		}))
		if len(got) != 1 || len(got[3].RecordBatches) == 0 {
			t.Fatalf("v%d: %+v", version, got)
		}
		if _, n := cached(b); n != 3 {
			t.Fatalf("v%d: the cache counts %d partitions", version, n)
		}
		// Closing it with the final epoch.
		last := &sessionClient{t: t, b: b, version: version, id: c.id, epoch: fetchSessionFinal}
		if got := last.fetch(map[int32]int64{0: 0}); got.SessionID != 0 || len(got.Topics) != 1 {
			t.Fatalf("v%d: %+v", version, got)
		}
		if got := c.fetch(nil); got.ErrorCode != kerr.FetchSessionIDNotFound.Code {
			t.Fatalf("v%d: error %d after the session was closed", version, got.ErrorCode)
		}
		if sessions, n := cached(b); n != 0 || sessions != 0 {
			t.Fatalf("v%d: the cache still counts %d partitions", version, n)
		}
	}
}

func TestSessionRepeatsErrorsUntilTheyEnd(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := &sessionClient{t: t, b: b, version: 12}
	c.fetch(map[int32]int64{0: 50})
	for range 3 {
		if got := partitionsOf(c.fetch(nil)); got[0].ErrorCode != kerr.OffsetOutOfRange.Code {
			t.Fatalf("%+v", got)
		}
	}
	// The end of the error is told, too, even without records.
	if got := partitionsOf(c.fetch(map[int32]int64{0: 0})); len(got) != 1 || got[0].ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if got := partitionsOf(c.fetch(nil)); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestSessionErrors(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := &sessionClient{t: t, b: b, version: 12}
	c.fetch(map[int32]int64{0: 0})
	for name, tc := range map[string]struct {
		client sessionClient
		code   *kerr.Error
	}{
		"unknown id":      {sessionClient{version: 12, id: c.id ^ 1, epoch: 1}, kerr.FetchSessionIDNotFound},
		"old epoch":       {sessionClient{version: 12, id: c.id, epoch: 5}, kerr.InvalidFetchSessionEpoch},
		"with topic ids":  {sessionClient{version: 13, id: c.id, epoch: 1}, kerr.FetchSessionTopicIDError},
		"no id, an epoch": {sessionClient{version: 12, id: 0, epoch: 3}, kerr.FetchSessionIDNotFound},
	} {
		tc.client.t, tc.client.b = t, b
		if got := tc.client.fetch(nil); got.ErrorCode != tc.code.Code || len(got.Topics) != 0 || got.SessionID != 0 {
			t.Errorf("%s: %+v, want error %d", name, got, tc.code.Code)
		}
	}
	// It goes on all the same.
	if got := c.fetch(nil); got.ErrorCode != 0 {
		t.Fatalf("error %d", got.ErrorCode)
	}
}

// Two requests of one session at once: the one that was overtaken is answered 71.
func TestSessionOvertaken(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := &sessionClient{t: t, b: b, version: 12}
	c.fetch(map[int32]int64{0: 0})
	request := fetchOf(t, b, fetchSpec{version: 12, session: c.id, epoch: 1, minBytes: 1, maxWait: 600_000})
	parked := send(t, b, testConnection(), request)
	c.epoch = 2
	c.fetch(nil)
	put(t, b, "t", 0, "x")
	if got := receive[*kmsg.FetchResponse](t, request, parked); got.ErrorCode != kerr.InvalidFetchSessionEpoch.Code {
		t.Fatalf("%+v", got)
	}
}

func TestSessionOfARecreatedTopic(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "old")
	byName, byID := &sessionClient{t: t, b: b, version: 12}, &sessionClient{t: t, b: b, version: 13}
	byName.fetch(map[int32]int64{0: 0})
	byID.fetch(map[int32]int64{0: 0})
	if err := b.DropTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if got := partitionsOf(byName.fetch(nil)); got[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", got)
	}
	if got := partitionsOf(byID.fetch(nil)); got[0].ErrorCode != kerr.UnknownTopicID.Code {
		t.Fatalf("%+v", got)
	}
	if err := b.TopicCreator.EnsureTopic(t.Context(), "t", 1, nil); err != nil {
		t.Fatal(err)
	}
	put(t, b, "t", 0, "new")
	got := partitionsOf(byName.fetch(nil))
	if values, _ := valuesOf(t, got[0].RecordBatches); len(values) != 1 || values[0] != "new" {
		t.Fatalf("%+v", got)
	}
	if got := partitionsOf(byID.fetch(nil)); got[0].ErrorCode != kerr.UnknownTopicID.Code {
		t.Fatalf("the old id finds the new topic: %+v", got)
	}
}

// Partitions with records go to the end, so a small max_bytes serves all in turn.
func TestSessionServesPartitionsInTurn(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 3})
	for range 3 {
		for p := range int32(3) {
			put(t, b, "t", p, "0123456789")
		}
	}
	c := &sessionClient{t: t, b: b, version: 12}
	small := func(r *kmsg.FetchRequest) { r.MaxBytes = 1 }
	c.fetch(map[int32]int64{0: 0, 1: 0, 2: 0}, small)
	served := make(map[int32]int)
	for range 6 {
		for index, p := range partitionsOf(c.fetch(nil, small)) {
			if len(p.RecordBatches) > 0 {
				served[index]++
			}
		}
	}
	for p := range int32(3) {
		if served[p] != 2 {
			t.Fatalf("served %v", served)
		}
	}
}

func TestEmptyingASessionEndsIt(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := &sessionClient{t: t, b: b, version: 12}
	c.fetch(map[int32]int64{0: 0})
	got := c.fetch(nil, func(r *kmsg.FetchRequest) {
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		forgotten.Topic, forgotten.Partitions = "t", []int32{0}
		r.ForgottenTopics = append(r.ForgottenTopics, forgotten)
		r.MaxWaitMillis = 600_000
	})
	if sessions, _ := cached(b); got.ErrorCode != 0 || got.SessionID != 0 || sessions != 0 {
		t.Fatalf("%+v", got)
	}
}

// +checklocksignore: one goroutine.
func TestSessionCacheEviction(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	cache := &fetchSessions{}
	cache.init(2, func() time.Time { return now })
	create := func(partitions int) *fetchSession {
		o := &fetchOperation{version: 12}
		for i := range partitions {
			o.partitions = append(o.partitions, fetchPartition{topicName: []byte("t"), index: int32(i)})
		}
		return cache.create(o)
	}
	small, large := create(1), create(5)
	if small == nil || large == nil || create(9) != nil {
		t.Fatal("a full cache of young sessions must refuse")
	}
	now = now.Add(limits.FetchSessionEvictAfter + time.Second)
	cache.use(small.id)
	cache.use(large.id)
	// Both are old and in use: only one that is not smaller than the smallest replaces it.
	if got := create(1); got == nil || cache.byID[small.id] != nil || cache.byID[large.id] == nil {
		t.Fatal("the smallest session should have been replaced")
	}
	if create(4) != nil {
		t.Fatal("a young session was replaced, or a larger one by a smaller")
	}
	// What nobody used for two minutes goes first, whatever its size.
	now = now.Add(limits.FetchSessionEvictAfter + time.Second)
	for id := range cache.byID {
		if id != large.id {
			cache.use(id)
		}
	}
	if create(1) == nil || cache.byID[large.id] != nil {
		t.Fatal("the stale session should have been replaced")
	}
	if len(cache.byID) != 2 || cache.partitions != 2 {
		t.Fatalf("%d sessions with %d partitions", len(cache.byID), cache.partitions)
	}
}

func TestNoSlotsMeansNoSessions(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1}, func(c *config.Broker) { c.MaxIncrementalFetchSessionCacheSlots = 0 })
	c := &sessionClient{t: t, b: b, version: 12}
	if got := c.fetch(map[int32]int64{0: 0}); got.SessionID != 0 || len(got.Topics) != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestSessionEpochs(t *testing.T) {
	t.Parallel()
	for epoch, want := range map[int32]int32{-1: -1, 0: 1, 1: 2, math.MaxInt32: 1} {
		if got := nextSessionEpoch(epoch); got != want {
			t.Errorf("after %d comes %d, want %d", epoch, got, want)
		}
	}
}

func TestSessionFetchDoesNotAllocate(t *testing.T) {
	skipUnderRace(t)
	for _, version := range []int16{12, 17} {
		b := newDataBroker(t, testTopics{"t": 3})
		put(t, b, "t", 0, "a")
		c := &sessionClient{t: t, b: b, version: version}
		c.fetch(map[int32]int64{0: 0, 1: 0, 2: 0})
		s := b.data.sessions.use(c.id)
		once := repeated(t, b, fetchOf(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0, 2: 0}, session: c.id, epoch: 1}))
		rewound := func() {
			s.mu.Lock()
			s.epoch = 1
			s.mu.Unlock()
			once()
		}
		for range 50 {
			rewound()
		}
		if allocations := testing.AllocsPerRun(200, rewound); allocations > 0 {
			t.Errorf("v%d: %v allocations a request", version, allocations)
		}
	}
}
