package coordinators

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/logstore"
	"kaas/txn"
)

// WriteTxnMarkers (key 27), v1 and v2. Kafka: KafkaApis.handleWriteTxnMarkersRequest.
//
//   - Cluster ClusterAction, or Alter: kafka-transactions aborts hanging transactions
//     with it. Coordinators of this broker need no request.
//   - The answer comes after the commit of all markers. A marker with an old epoch is
//     INVALID_PRODUCER_EPOCH, one of an old coordinator TRANSACTION_COORDINATOR_FENCED.
//   - v2: the version of the transaction (KIP-1228): a marker of version 2 with the
//     epoch of an open transaction is left over from the one before, and refused.
func (c *Coordinators) writeTxnMarkersAPI() codec.API {
	return codec.API{
		Key: 27, Name: "WriteTxnMarkers", MinVersion: 1, MaxVersion: 2, Class: codec.TwoPhase, Handle: c.writeTxnMarkers,
		Refuse: func(r *codec.Request, _ int16, _ int32) {
			request := kmsg.NewPtrWriteTxnMarkersRequest()
			if decodeGroupRequest(r, request) {
				response, _ := markersResponse(request, refusedCode)
				r.Respond(response)
			}
		},
		Note: "for brokers, and to abort hanging transactions",
	}
}

// markersResponse has the code for each partition, and the places of the codes.
func markersResponse(request *kmsg.WriteTxnMarkersRequest, code int16) (*kmsg.WriteTxnMarkersResponse, []*int16) {
	response := kmsg.NewPtrWriteTxnMarkersResponse()
	response.Markers = make([]kmsg.WriteTxnMarkersResponseMarker, len(request.Markers))
	var places []*int16
	for i := range request.Markers {
		asked, answer := &request.Markers[i], &response.Markers[i]
		answer.ProducerID = asked.ProducerID
		answer.Topics = make([]kmsg.WriteTxnMarkersResponseMarkerTopic, len(asked.Topics))
		for j := range asked.Topics {
			topic := &answer.Topics[j]
			topic.Topic = asked.Topics[j].Topic
			topic.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(asked.Topics[j].Partitions))
			for k, p := range asked.Topics[j].Partitions {
				topic.Partitions[k] = kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: code}
				places = append(places, &topic.Partitions[k].ErrorCode)
			}
		}
	}
	return response, places
}

func (c *Coordinators) writeTxnMarkers(r *codec.Request) {
	request := kmsg.NewPtrWriteTxnMarkersRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.visible(r, auth.OperationAlter, auth.ResourceCluster, auth.ClusterName) &&
		!c.allowed(r, auth.OperationClusterAction, auth.ResourceCluster, auth.ClusterName) {
		response, _ := markersResponse(request, kerr.ClusterAuthorizationFailed.Code)
		r.Respond(response)
		return
	}
	response, places := markersResponse(request, 0)
	all := newGather(len(places), func() { r.Respond(response) })
	next := 0
	for i := range request.Markers {
		asked := &request.Markers[i]
		mark := marker{producerID: asked.ProducerID, epoch: asked.ProducerEpoch, coordinatorEpoch: asked.CoordinatorEpoch, commit: asked.Committed,
			raised: asked.TransactionVersion >= int8(txn.Version2)}
		for j := range asked.Topics {
			for _, p := range asked.Topics[j].Partitions {
				place := places[next]
				next++
				c.writeMarker(asked.Topics[j].Topic, p, mark, func(err error) {
					code := markerCode(err)
					all.part(func() { *place = code })
				})
			}
		}
	}
}

// markerCode is what the sender of a marker is told.
func markerCode(err error) int16 {
	var code *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code.Code
	case errors.Is(err, logstore.ErrInvalidProducerEpoch):
		return kerr.InvalidProducerEpoch.Code
	case errors.Is(err, logstore.ErrCoordinatorFenced):
		return kerr.TransactionCoordinatorFenced.Code
	case errors.Is(err, coord.ErrNotCoordinator), errors.Is(err, coord.ErrLoading), errors.Is(err, coord.ErrOverloaded), errors.Is(err, coord.ErrLogFailed), errors.Is(err, logstore.ErrClosed):
		return kerr.NotLeaderForPartition.Code
	case errors.Is(err, logstore.ErrStorage):
		return kerr.KafkaStorageError.Code
	}
	return kerr.UnknownServerError.Code
}
