package codec

import "github.com/twmb/franz-go/pkg/kmsg"

// unsupportedVersion is Kafka's error UNSUPPORTED_VERSION, the one error that
// this room answers itself.
const unsupportedVersion = 35

// Feature is a level-numbered feature of KIP-584.
type Feature struct {
	Name               string
	MinLevel, MaxLevel int16
	FinalizedLevel     int16 // 0: not finalized, so not in the finalized list
}

// finalizedFeaturesEpoch numbers the finalized levels. They don't change while a
// broker runs, so one number does.
const finalizedFeaturesEpoch = 1

// Advertisement is what ApiVersions answers, encoded once: it is the same for
// every client. Immutable.
//
// Tagged fields at their default (an empty list, no epoch) are left out: clients
// of old versions of Kafka and librdkafka fail on tagged fields that they do not
// expect.
type Advertisement struct {
	// Bodies[v] is the body of version v, without a header.
	Bodies [][]byte
	// Unsupported is the v0 body for versions that are not known: UNSUPPORTED_VERSION
	// and the range of ApiVersions alone (KIP-511).
	Unsupported []byte
}

// Advertise encodes the registry. ApiVersions must be in it.
func (r *Registry) Advertise(features []Feature) *Advertisement {
	api := r.Lookup(apiVersionsKey)
	if api == nil {
		panic("BUG: a registry without ApiVersions is advertised")
	}
	a := &Advertisement{}
	for version := int16(0); version <= api.MaxVersion; version++ {
		a.Bodies = append(a.Bodies, apiVersionsResponse(r.All(), features, version).AppendTo(nil))
	}
	unsupported := apiVersionsResponse([]API{*api}, nil, 0)
	unsupported.ErrorCode = unsupportedVersion
	a.Unsupported = unsupported.AppendTo(nil)
	return a
}

func apiVersionsResponse(apis []API, features []Feature, version int16) *kmsg.ApiVersionsResponse {
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
		// v3 leaves out what begins at level 0: its clients can't read it (KAFKA-17011).
		if f.MinLevel > 0 || version >= 4 {
			supported := kmsg.NewApiVersionsResponseSupportedFeature()
			supported.Name, supported.MinVersion, supported.MaxVersion = f.Name, f.MinLevel, f.MaxLevel
			response.SupportedFeatures = append(response.SupportedFeatures, supported)
		}
		if f.FinalizedLevel > 0 {
			finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
			finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = f.Name, f.FinalizedLevel, f.FinalizedLevel
			response.FinalizedFeatures = append(response.FinalizedFeatures, finalized)
		}
	}
	if len(response.FinalizedFeatures) > 0 {
		response.FinalizedFeaturesEpoch = finalizedFeaturesEpoch
	}
	return response
}
