package admin

import (
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// ListConfigResources, key 74, v0 to v1 (KIP-714, KIP-1142).
//
// Names of what has a configuration: all topics, this broker (as BROKER and
// BROKER_LOGGER), and the groups and client metrics that have one set.
//
//	v0     client metrics only; the request has no types
//	v1     types; none of them means all
//
// Checks: Kafka's KafkaApis.handleListConfigResources.
func (a *Admin) listConfigResourcesAPI() codec.API {
	return codec.API{
		Key: 74, Name: "ListConfigResources", MinVersion: 0, MaxVersion: 1, Class: codec.Pool,
		Handle: a.listConfigResources, Refuse: refuseListConfigResources,
		EstimateBytes: func(codec.Header, int) int { return 4096 + len(a.Images.Load().Topics())*64 },
		Note:          "topics, this broker, and groups and client metrics with a configuration",
	}
}

func refuseListConfigResources(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrListConfigResourcesRequest(), func(request *kmsg.ListConfigResourcesRequest, response *kmsg.ListConfigResourcesResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) listConfigResources(r *codec.Request) {
	request := kmsg.NewPtrListConfigResourcesRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if !a.allowedCluster(r, auth.OperationDescribeConfigs) {
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		r.Respond(response)
		return
	}
	supported := []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics,
		kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic} // in Kafka's order
	wants := make(map[kmsg.ConfigResourceType]bool)
	for _, wanted := range request.ResourceTypes {
		kind := kmsg.ConfigResourceType(wanted)
		if !slices.Contains(supported, kind) {
			response.ErrorCode = kerr.UnsupportedVersion.Code
			r.Respond(response)
			return
		}
		wants[kind] = true
	}
	if r.Version == 0 {
		wants = map[kmsg.ConfigResourceType]bool{kmsg.ConfigResourceTypeClientMetrics: true}
	}
	for _, kind := range supported {
		if len(wants) > 0 && !wants[kind] {
			continue
		}
		for _, name := range a.configResources(kind) {
			resource := kmsg.NewListConfigResourcesResponseConfigResource()
			resource.Name, resource.Type = name, int8(kind)
			response.ConfigResources = append(response.ConfigResources, resource)
		}
	}
	r.Respond(response)
}

// configResources are the names of one type, sorted.
func (a *Admin) configResources(kind kmsg.ConfigResourceType) []string {
	image := a.Images.Load()
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		names := make([]string, 0, len(image.Topics()))
		for _, topic := range image.Topics() {
			names = append(names, topic.Name)
		}
		return names
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		names := make([]string, 0, len(image.Brokers))
		for _, broker := range image.Brokers {
			names = append(names, strconv.Itoa(int(broker.ID)))
		}
		return names
	}
	return slices.Sorted(maps.Keys(namedKindOf(kind).inForce(image)))
}
