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
// Tagged fields of an empty list are left out: clients of old versions of Kafka
// and librdkafka fail on tagged fields that they do not expect.

const apiVersionsKey = 18

// feature is a level-numbered feature of KIP-584 as Kafka 4.4 names it.
type feature struct {
	name               string
	minLevel, maxLevel int16
	finalizedLevel     int16 // 0: not finalized, so not in the finalized list
}

// features of this broker. Kafka 4.4 has besides, all with lowest level 0:
// kraft.version (1), share.version (2), streams.version (1) and
// eligible.leader.replicas.version (1), which name what kaas has not.
// transaction.version and group.version stay at level 0 until transactions and
// the consumer protocol of KIP-848 are served: clients switch to them by these.
var features = []feature{
	{name: "group.version", minLevel: 0, maxLevel: 0, finalizedLevel: 0},
	{name: "metadata.version", minLevel: 7, maxLevel: 33, finalizedLevel: 33}, // 3.3-IV3 to 4.4-IV2
	{name: "transaction.version", minLevel: 0, maxLevel: 0, finalizedLevel: 0},
}

// finalizedFeaturesEpoch numbers the finalized levels above. They don't change
// while a broker runs, so one number does.
const finalizedFeaturesEpoch = 1

// softwarePattern is ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN.
var softwarePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// servedAPIs is the registry with the answers of ApiVersions encoded once: they
// are the same for every client.
type servedAPIs struct {
	*codec.Registry
	// versions[v] is the body of version v.
	versions [][]byte
	// unsupported is the v0 body for versions that are not known.
	unsupported []byte
}

func newServedAPIs(r *codec.Registry) *servedAPIs {
	served := &servedAPIs{Registry: r}
	api := r.Lookup(apiVersionsKey)
	if api == nil {
		return served
	}
	for version := int16(0); version <= api.MaxVersion; version++ {
		response := apiVersionsResponse(r.All(), version)
		served.versions = append(served.versions, response.AppendTo(nil))
	}
	response := apiVersionsResponse([]codec.API{*api}, 0)
	response.ErrorCode = kerr.UnsupportedVersion.Code
	served.unsupported = response.AppendTo(nil)
	return served
}

func apiVersionsResponse(apis []codec.API, version int16) *kmsg.ApiVersionsResponse {
	response := kmsg.NewPtrApiVersionsResponse()
	response.SetVersion(version)
	for i := range apis {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = apis[i].Key, apis[i].MinVersion, apis[i].MaxVersion
		response.ApiKeys = append(response.ApiKeys, key)
	}
	if version < 3 {
		return response
	}
	for _, f := range features {
		if f.minLevel > 0 || version >= 4 {
			supported := kmsg.NewApiVersionsResponseSupportedFeature()
			supported.Name, supported.MinVersion, supported.MaxVersion = f.name, f.minLevel, f.maxLevel
			response.SupportedFeatures = append(response.SupportedFeatures, supported)
		}
		if f.finalizedLevel > 0 {
			finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
			finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = f.name, f.finalizedLevel, f.finalizedLevel
			response.FinalizedFeatures = append(response.FinalizedFeatures, finalized)
		}
	}
	if len(response.FinalizedFeatures) > 0 {
		response.FinalizedFeaturesEpoch = finalizedFeaturesEpoch
	}
	return response
}

func (b *Broker) apiVersionsAPI() codec.API {
	return codec.API{
		Key: apiVersionsKey, Name: "ApiVersions", MinVersion: 0, MaxVersion: 5, Class: codec.Inline,
		EstimateBytes: smallEstimate,
		Handle:        b.apiVersions,
	}
}

// smallEstimate is for requests with no list in them: decoding takes about the
// frame again.
func smallEstimate(_ codec.Header, bodyBytes int) int { return 1024 + 2*bodyBytes }

func (b *Broker) apiVersions(r *codec.Request) {
	served := b.registry.Load()
	body := served.unsupported
	if int(r.Version) < len(served.versions) {
		body = served.versions[r.Version]
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
