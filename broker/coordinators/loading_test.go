package coordinators

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/codec/batch"
	"kaas/coord"
	"kaas/internal/bufpool"
	"kaas/internal/vfs"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
)

// slowLog is a log whose load takes as long as the test.
type slowLog struct{ coord.Log }

func (slowLog) Replay(ctx context.Context, _ func(batch.View) error) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// answerSink gives a reply, without its length and correlation id.
type answerSink struct{ answer chan []byte }

func (s answerSink) Bytes(b *bufpool.Buf) {
	s.answer <- append([]byte{}, b.B[8:]...)
	b.Release()
}
func (s answerSink) Done()           {}
func (s answerSink) Drop()           { s.answer <- nil }
func (s answerSink) CloseConn(error) { s.answer <- nil }

// askKey hands a request to its handler.
func askKey(t *testing.T, c *Coordinators, request kmsg.Request) kmsg.Response {
	t.Helper()
	for _, api := range c.APIs() {
		if api.Key != request.Key() {
			continue
		}
		body := request.AppendTo(nil)
		frame := bufpool.Get(len(body))
		copy(frame.B, body)
		sink := answerSink{make(chan []byte, 2)}
		session := &codec.Session{Listener: "PLAINTEXT", RemoteHost: "192.0.2.7", Principal: codec.AnonymousPrincipal}
		api.Handle(codec.NewRequest(&api, codec.Header{Key: api.Key, Version: request.GetVersion()}, frame.B, frame, session, sink, time.Time{}, nil))
		var answer []byte
		select {
		case answer = <-sink.answer:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s v%d is not answered", api.Name, request.GetVersion())
		}
		if request.IsFlexible() {
			answer = answer[1:]
		}
		response := request.ResponseKind()
		if err := response.ReadFrom(answer); err != nil {
			t.Fatalf("%s v%d: %v in %x", api.Name, request.GetVersion(), err, answer)
		}
		return response
	}
	t.Fatalf("key %d is not served", request.Key())
	return nil
}

// What each key answers while its shard is loading, as Kafka's GroupCoordinatorService
// and TransactionStateManager do: COORDINATOR_LOAD_IN_PROGRESS (14), except where a
// client would do the wrong thing with it.
func TestAnswersWhileLoading(t *testing.T) {
	t.Parallel()
	store, err := logstore.Open(context.Background(), logstore.Options{Dirs: []string{"/data"}, FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	for _, name := range []string{"t", meta.ConsumerOffsetsTopic, meta.TransactionStateTopic} {
		if _, err := store.Ensure(name, [16]byte{1}, 0, logstore.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
	}
	broker, _, err := config.LoadBroker(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	topics := &servedTopics{store: store}
	topics.served.Store(true)
	c := New(Options{Config: broker, Authorizer: auth.AllowAll{}, Topics: topics, Images: &meta.Images{}, Logger: slog.New(slog.DiscardHandler), Clock: time.Now})
	defer c.Close()
	c.groups.Load(0, slowLog{})
	c.transactions.Load(0, slowLog{})
	one := "t"
	id := "x"
	for _, tc := range []struct {
		key  int16
		fill func(r kmsg.Request)
		code func(r kmsg.Response) []int16
		want func(version int16) int16 // nil: 14
	}{
		{key: 8, fill: func(r kmsg.Request) {
			r.(*kmsg.OffsetCommitRequest).Topics = []kmsg.OffsetCommitRequestTopic{{Topic: one, Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 1)}}
		}, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode}
		}, want: func(version int16) int16 {
			if version >= 10 {
				return 100 // this test's topics have no ids
			}
			return 14
		}},
		{key: 9, fill: func(r kmsg.Request) {
			q := r.(*kmsg.OffsetFetchRequest)
			q.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: one, Partitions: []int32{0}}}
			q.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}
		}, code: func(r kmsg.Response) []int16 {
			a := r.(*kmsg.OffsetFetchResponse)
			switch {
			case a.Version >= 8:
				return []int16{a.Groups[0].ErrorCode}
			case a.Version >= 2:
				return []int16{a.ErrorCode}
			}
			return []int16{a.Topics[0].Partitions[0].ErrorCode}
		}},
		{key: 11, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.JoinGroupResponse).ErrorCode} }},
		// A member that beats would only beat again; its session begins after the load.
		{key: 12, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.HeartbeatResponse).ErrorCode} }, want: func(int16) int16 { return 0 }},
		{key: 13, fill: func(r kmsg.Request) {
			r.(*kmsg.LeaveGroupRequest).Members = make([]kmsg.LeaveGroupRequestMember, 1)
		}, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.LeaveGroupResponse).ErrorCode} }},
		// A member that syncs has to join again: what was not recorded of its rebalance is gone.
		{key: 14, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.SyncGroupResponse).ErrorCode} }, want: func(int16) int16 { return 27 }},
		{key: 15, fill: func(r kmsg.Request) { r.(*kmsg.DescribeGroupsRequest).Groups = []string{"g", "h"} }, code: func(r kmsg.Response) []int16 {
			a := r.(*kmsg.DescribeGroupsResponse)
			return []int16{a.Groups[0].ErrorCode, a.Groups[1].ErrorCode}
		}},
		{key: 16, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.ListGroupsResponse).ErrorCode} }},
		{key: 22, fill: func(r kmsg.Request) {
			q := r.(*kmsg.InitProducerIDRequest)
			q.TransactionalID, q.TransactionTimeoutMillis, q.ProducerID, q.ProducerEpoch = &id, 1000, -1, -1
		}, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.InitProducerIDResponse).ErrorCode} }},
		{key: 24, fill: func(r kmsg.Request) {
			q := r.(*kmsg.AddPartitionsToTxnRequest)
			q.TransactionalID, q.Topics = id, []kmsg.AddPartitionsToTxnRequestTopic{{Topic: one, Partitions: []int32{0}}}
			q.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: id, Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: one, Partitions: []int32{0}}}}}
		}, code: func(r kmsg.Response) []int16 {
			a := r.(*kmsg.AddPartitionsToTxnResponse)
			if a.Version >= 4 {
				return []int16{a.Transactions[0].Topics[0].Partitions[0].ErrorCode}
			}
			return []int16{a.Topics[0].Partitions[0].ErrorCode}
		}},
		{key: 25, fill: func(r kmsg.Request) { r.(*kmsg.AddOffsetsToTxnRequest).TransactionalID = id }, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode}
		}},
		{key: 26, fill: func(r kmsg.Request) { r.(*kmsg.EndTxnRequest).TransactionalID = id }, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.EndTxnResponse).ErrorCode}
		}},
		{key: 28, fill: func(r kmsg.Request) {
			q := r.(*kmsg.TxnOffsetCommitRequest)
			q.TransactionalID, q.Group, q.Generation = id, "g", -1
			q.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: one, Partitions: make([]kmsg.TxnOffsetCommitRequestTopicPartition, 1)}}
		}, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode}
		}, want: func(version int16) int16 {
			switch {
			case version < 2:
				return 15 // producers of that time break on 14 (KAFKA-7296)
			case version >= 6:
				return 100
			}
			return 14
		}},
		{key: 42, fill: func(r kmsg.Request) { r.(*kmsg.DeleteGroupsRequest).Groups = []string{"g", "h"} }, code: func(r kmsg.Response) []int16 {
			a := r.(*kmsg.DeleteGroupsResponse)
			return []int16{a.Groups[0].ErrorCode, a.Groups[1].ErrorCode}
		}},
		{key: 47, fill: func(r kmsg.Request) { r.(*kmsg.OffsetDeleteRequest).Group = "g" }, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.OffsetDeleteResponse).ErrorCode}
		}},
		{key: 65, fill: func(r kmsg.Request) { r.(*kmsg.DescribeTransactionsRequest).TransactionalIDs = []string{id} }, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].ErrorCode}
		}},
		{key: 66, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.ListTransactionsResponse).ErrorCode} }},
		{key: 68, code: func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode} }},
		{key: 69, fill: func(r kmsg.Request) { r.(*kmsg.ConsumerGroupDescribeRequest).Groups = []string{"g"} }, code: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode}
		}},
	} {
		for _, api := range c.APIs() {
			if api.Key != tc.key {
				continue
			}
			for version := api.MinVersion; version <= api.MaxVersion; version++ {
				request := kmsg.RequestForKey(tc.key)
				request.SetVersion(version)
				if tc.fill != nil {
					tc.fill(request)
				}
				want := int16(14)
				if tc.want != nil {
					want = tc.want(version)
				}
				for _, code := range tc.code(askKey(t, c, request)) {
					if code != want {
						t.Errorf("%s v%d: error %d, want %d", api.Name, version, code, want)
					}
				}
			}
		}
	}
}
