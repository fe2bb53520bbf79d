package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta"
)

func findCoordinator(version int16, keyType int8, keys ...string) *kmsg.FindCoordinatorRequest {
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.Version, request.CoordinatorType = version, keyType
	if version < 4 {
		request.CoordinatorKey = keys[0]
	} else {
		request.CoordinatorKeys = keys
	}
	return request
}

// TestFindCoordinator is what Kafka 4.4 answered to the same requests, with the
// internal topics there.
func TestFindCoordinator(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf(meta.ConsumerOffsetsTopic, 1, 50), topicOf(meta.TransactionStateTopic, 2, 50))
	for version := int16(0); version <= 6; version++ {
		for _, keyType := range []int8{0, 1, 2, 9, -1} {
			if version == 0 && keyType != 0 {
				continue
			}
			want := "0 1 192.0.2.1:9092"
			if keyType < 0 || keyType > 1 {
				want = "42 -1 :-1"
			}
			response := call[*kmsg.FindCoordinatorResponse](t, b, testSession(), findCoordinator(version, keyType, "g"))
			got, message := "", response.ErrorMessage
			if version < 4 {
				got = fmt.Sprintf("%d %d %s:%d", response.ErrorCode, response.NodeID, response.Host, response.Port)
			} else {
				c := response.Coordinators[0]
				got, message = fmt.Sprintf("%d %d %s:%d", c.ErrorCode, c.NodeID, c.Host, c.Port), c.ErrorMessage
				if c.Key != "g" {
					t.Errorf("v%d: key %q", version, c.Key)
				}
			}
			if got != want {
				t.Errorf("v%d, type %d: %s, want %s", version, keyType, got, want)
			}
			wantMessage := ""
			switch {
			case want[0] == '0' && version < 4:
				wantMessage = "NONE"
			case want[0] == '4' && (version < 4 || keyType != 2):
				wantMessage = kerr.InvalidRequest.Description
			}
			if version > 0 && (message == nil || *message != wantMessage) {
				t.Errorf("v%d, type %d: message %v, want %q", version, keyType, message, wantMessage)
			}
		}
	}
}

func TestFindCoordinatorBatch(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf(meta.ConsumerOffsetsTopic, 1, 50))
	b.Authorizer = deny{"DESCRIBE GROUP secret": true}
	response := call[*kmsg.FindCoordinatorResponse](t, b, testSession(), findCoordinator(4, 0, "a", "secret", ""))
	var got []int16
	for _, c := range response.Coordinators {
		got = append(got, c.ErrorCode)
	}
	if want := []int16{0, kerr.GroupAuthorizationFailed.Code, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if response := call[*kmsg.FindCoordinatorResponse](t, b, testSession(), findCoordinator(6, 0)); len(response.Coordinators) != 0 {
		t.Errorf("no keys: %+v", response)
	}
}

func TestFindCoordinatorCreatesTheInternalTopic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keyType int8
		pool    Pool
		err     error
		code    int16
		made    string
	}{
		{0, goPool{}, nil, 0, "__consumer_offsets 50 map[cleanup.policy:compact compression.type:producer segment.bytes:104857600]"},
		{1, goPool{}, nil, 0, "__transaction_state 50 map[cleanup.policy:compact compression.type:producer segment.bytes:104857600]"},
		{0, fullPool{}, nil, kerr.CoordinatorNotAvailable.Code, ""},
		{0, goPool{}, meta.ErrUnavailable, kerr.CoordinatorNotAvailable.Code, "__consumer_offsets 50 map[cleanup.policy:compact compression.type:producer segment.bytes:104857600]"},
		{2, goPool{}, nil, kerr.InvalidRequest.Code, ""},
	} {
		b := newImageBroker(t)
		creator := &imageCreator{broker: b, err: c.err, made: make(chan string, 10)}
		b.TopicCreator, b.Pool = creator, c.pool
		response := call[*kmsg.FindCoordinatorResponse](t, b, testSession(), findCoordinator(4, c.keyType, "g"))
		if got := response.Coordinators[0].ErrorCode; got != c.code {
			t.Errorf("%+v: error %d", c, got)
		}
		close(creator.made)
		if made := <-creator.made; made != c.made {
			t.Errorf("%+v: made %q", c, made)
		}
	}
	// Who may not describe the group does not bring the topic into being.
	b := newImageBroker(t)
	creator := &imageCreator{broker: b, made: make(chan string, 1)}
	b.TopicCreator, b.Authorizer = creator, deny{"DESCRIBE GROUP g": true}
	response := call[*kmsg.FindCoordinatorResponse](t, b, testSession(), findCoordinator(1, 0, "g"))
	if response.ErrorCode != kerr.GroupAuthorizationFailed.Code || len(creator.made) != 0 {
		t.Errorf("%+v, made %d", response, len(creator.made))
	}
}
