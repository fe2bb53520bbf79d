package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeCluster(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	const omitted = -2147483648
	for version := int16(0); version <= 2; version++ {
		for _, c := range []struct {
			endpoint   int8
			operations bool
			deny       deny
			code       int16
			message    string
			want       int32
		}{
			{1, false, nil, 0, "", omitted},
			{1, true, nil, 0, "", 8096}, // what Kafka 4.4 answers without an authorizer
			{1, true, deny{"DESCRIBE CLUSTER kafka-cluster": true}, 0, "", 0},
			{2, true, nil, kerr.MismatchedEndpointType.Code, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER", omitted},
			{7, false, nil, kerr.UnsupportedEndpointType.Code, "Unsupported endpoint type 7", omitted},
		} {
			if version == 0 && c.endpoint != 1 {
				continue
			}
			if b.Authorizer = c.deny; c.deny == nil {
				b.Authorizer = deny{}
			}
			request := kmsg.NewPtrDescribeClusterRequest()
			request.Version, request.EndpointType, request.IncludeClusterAuthorizedOperations = version, c.endpoint, c.operations
			response := call[*kmsg.DescribeClusterResponse](t, b, testSession(), request)
			message := ""
			if response.ErrorMessage != nil {
				message = *response.ErrorMessage
			}
			if response.ErrorCode != c.code || message != c.message || response.ClusterAuthorizedOperations != c.want {
				t.Errorf("v%d %+v: %+v (%s)", version, c, response, message)
			}
			if c.code == 0 && (response.ClusterID != "cluster-0" || response.ControllerID != 1 || len(response.Brokers) != 1 || response.Brokers[0].Host != "192.0.2.1") {
				t.Errorf("v%d: %+v", version, response)
			}
			if c.code != 0 && (response.ClusterID != "" || response.ControllerID != -1 || len(response.Brokers) != 0) {
				t.Errorf("v%d: %+v", version, response)
			}
		}
	}
}
