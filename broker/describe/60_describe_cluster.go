package describe

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// DescribeCluster (key 60), v0 to v2. Kafka: AuthHelper.computeDescribeClusterResponse.
//
//   - v1: the endpoint type that is wanted (KIP-919). A broker describes brokers:
//     controllers are MISMATCHED_ENDPOINT_TYPE, any other number
//     UNSUPPORTED_ENDPOINT_TYPE.
//   - v2: fenced brokers too, when asked for (KIP-1073); kaas has none.
//   - Authorised operations of the cluster, when asked for: 0 without Describe on it.

// Endpoint types (Kafka: EndpointType).
const (
	endpointBroker     = int8(1)
	endpointController = int8(2)
)

func (h *Handlers) describeClusterAPI() codec.API {
	return codec.API{
		Key: 60, Name: "DescribeCluster", MinVersion: 0, MaxVersion: 2, Class: codec.Inline,
		EstimateBytes: codec.SmallEstimate,
		Handle:        h.describeCluster,
	}
}

func (h *Handlers) describeCluster(r *codec.Request) {
	request := kmsg.NewPtrDescribeClusterRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := kmsg.NewPtrDescribeClusterResponse()
	switch request.EndpointType {
	case endpointBroker:
		h.fillDescribeCluster(r, request, response)
	case endpointController:
		response.ErrorCode = kerr.MismatchedEndpointType.Code
		response.ErrorMessage = kmsg.StringPtr("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
	default:
		response.ErrorCode = kerr.UnsupportedEndpointType.Code
		response.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("Unsupported endpoint type %d", request.EndpointType))
	}
	r.Respond(response)
}

func (h *Handlers) fillDescribeCluster(r *codec.Request, request *kmsg.DescribeClusterRequest, response *kmsg.DescribeClusterResponse) {
	image := h.Images.Load()
	response.ClusterID, response.ControllerID = image.ClusterID, image.ControllerID
	for i := range image.Brokers {
		endpoint, ok := Endpoint(r.Session, image, &image.Brokers[i])
		if !ok {
			continue
		}
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port = image.Brokers[i].ID, endpoint.Host, endpoint.Port
		if image.Brokers[i].Rack != "" {
			broker.Rack = &image.Brokers[i].Rack
		}
		response.Brokers = append(response.Brokers, broker)
	}
	if request.IncludeClusterAuthorizedOperations {
		response.ClusterAuthorizedOperations = 0
		if h.visible(r, auth.OperationDescribe, auth.ResourceCluster, auth.ClusterName) {
			response.ClusterAuthorizedOperations = h.authorizedOperations(r, auth.ResourceCluster, auth.ClusterName)
		}
	}
}
