package broker

import (
	"errors"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
)

// ApiVersions (key 18), v0 to v5.
//
//   - The response header is v0 in every version, since the client can't know yet
//     what the broker speaks (KIP-511).
//   - A version above v5 is answered with UNSUPPORTED_VERSION in a v0 body that
//     lists ApiVersions alone, as Kafka does; the connection stays and the client
//     asks again.
//   - v3: the client's software name and version, INVALID_REQUEST unless both match
//     Kafka's pattern (KIP-511); supported and finalized features (KIP-584).
//   - v4: supported features whose lowest level is 0 are listed; v3 leaves them out,
//     its clients can't read them (KAFKA-17011).
//   - v5: the cluster id and node id that the client believes to talk to (KIP-1242):
//     INVALID_REQUEST when one of them is missing, REBOOTSTRAP_REQUIRED when they
//     are another broker's.
//   - Produce is listed from v0 though it is served from v3: librdkafka chooses its
//     codecs by the advertised range (KIP-896).
//
// The bodies are the registry's (codec.Advertise).

const apiVersionsKey = 18

// features of this broker. Kafka 4.4 has besides, all with lowest level 0:
// kraft.version (1), share.version (2), streams.version (1) and
// eligible.leader.replicas.version (1), which name what kaas has not.
var features = []codec.Feature{
	{Name: "group.version", MinLevel: 0, MaxLevel: 1, FinalizedLevel: 1},
	{Name: "metadata.version", MinLevel: 7, MaxLevel: 33, FinalizedLevel: 33}, // 3.3-IV3 to 4.4-IV2
	{Name: "transaction.version", MinLevel: 0, MaxLevel: 2, FinalizedLevel: 2},
}

// softwarePattern is ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN.
var softwarePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// servedAPIs is the registry with the answers of ApiVersions.
type servedAPIs struct {
	*codec.Registry
	*codec.Advertisement
}

func (b *Broker) apiVersionsAPI() codec.API {
	return codec.API{
		Key: apiVersionsKey, Name: "ApiVersions", MinVersion: 0, MaxVersion: 5, Class: codec.Inline,
		EstimateBytes: codec.SmallEstimate,
		Handle:        b.apiVersions,
	}
}

func (b *Broker) apiVersions(r *codec.Request) {
	served := b.registry.Load()
	body := served.Unsupported
	if int(r.Version) < len(served.Bodies) {
		body = served.Bodies[r.Version]
		if r.Version >= 3 {
			err := b.identify(r)
			var refused *kerr.Error
			if errors.As(err, &refused) {
				response := kmsg.NewPtrApiVersionsResponse()
				response.ErrorCode = refused.Code
				r.Respond(response)
				return
			}
			if err != nil {
				r.Fail(err)
				return
			}
		}
	}
	reply := r.NewReply(len(body))
	reply.B = append(reply.B, body...)
	r.Sink.Bytes(reply)
	r.Sink.Done()
	r.Finish()
}

// identify notes who the client is, and checks whom it believes to talk to. A
// *kerr.Error is the client's answer, any other error closes the connection.
func (b *Broker) identify(r *codec.Request) error {
	request := kmsg.NewPtrApiVersionsRequest()
	if err := r.Decode(request); err != nil {
		return err
	}
	if !softwarePattern.MatchString(request.ClientSoftwareName) || !softwarePattern.MatchString(request.ClientSoftwareVersion) {
		return kerr.InvalidRequest
	}
	if (request.ClusterID == nil) != (request.NodeID == -1) {
		return kerr.InvalidRequest
	}
	if image := b.Images.Load(); request.ClusterID != nil && (*request.ClusterID != image.ClusterID || request.NodeID != image.NodeID) {
		return kerr.RebootstrapRequired
	}
	r.Session.ClientSoftwareName = request.ClientSoftwareName
	r.Session.ClientSoftwareVersion = request.ClientSoftwareVersion
	return nil
}
