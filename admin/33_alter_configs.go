package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/meta"
)

// AlterConfigs, key 33, v0 to v2 (KIP-133).
//
// A topic's overrides become exactly those given, by one merge patch that also
// removes the others. Several entries for one resource: the first counts, the
// others are ignored. BROKER: the same for what is set while it runs; bad values
// and keys that are read at start only are INVALID_REQUEST. BROKER_LOGGER: INVALID_REQUEST, as
// in Kafka, which has it in IncrementalAlterConfigs only.
//
//	v2     flexible
func (a *Admin) alterConfigsAPI() codec.API {
	return codec.API{
		Key: 33, Name: "AlterConfigs", MinVersion: 0, MaxVersion: 2, Class: codec.Pool,
		Handle: a.alterConfigs, Refuse: refuseAlterConfigs,
		Note: "replaces all overrides of a topic, all dynamic values of a broker",
	}
}

func refuseAlterConfigs(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrAlterConfigsRequest(), func(request *kmsg.AlterConfigsRequest, response *kmsg.AlterConfigsResponse) {
		response.ThrottleMillis = throttleMs
		for i := range request.Resources {
			result := kmsg.NewAlterConfigsResponseResource()
			result.ResourceType, result.ResourceName = request.Resources[i].ResourceType, request.Resources[i].ResourceName
			result.ErrorCode = errorCode
			response.Resources = append(response.Resources, result)
		}
	})
}

func (a *Admin) alterConfigs(r *codec.Request) {
	request := kmsg.NewPtrAlterConfigsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	type identity struct {
		kind kmsg.ConfigResourceType
		name string
	}
	seen := make(map[identity]bool, len(request.Resources))
	response := request.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i := range request.Resources {
		resource := &request.Resources[i]
		id := identity{resource.ResourceType, resource.ResourceName}
		if seen[id] {
			continue
		}
		seen[id] = true
		result := kmsg.NewAlterConfigsResponseResource()
		result.ResourceType, result.ResourceName = resource.ResourceType, resource.ResourceName
		if problem := a.alterWhole(r, resource, request.ValidateOnly); problem != nil {
			result.ErrorCode, result.ErrorMessage = problem.code.Code, &problem.message
		}
		response.Resources = append(response.Resources, result)
	}
	r.Respond(response)
}

func (a *Admin) alterWhole(r *codec.Request, resource *kmsg.AlterConfigsRequestResource, validateOnly bool) *failure {
	values := make(map[string]string, len(resource.Configs))
	for i := range resource.Configs {
		entry := &resource.Configs[i]
		key := meta.DottedConfigKey(entry.Name)
		if _, twice := values[key]; twice {
			return fail(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		if entry.Value == nil {
			return fail(kerr.InvalidRequest, "Null value not supported for : %s", entry.Name)
		}
		values[key] = *entry.Value
	}
	switch resource.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return a.alterTopicConfig(r, resource.ResourceName, validateOnly, func(topic *meta.KafkaTopic) (configChange, error) {
			change := make(configChange, len(values)+len(topic.Spec.Config))
			for key := range topic.Spec.Config {
				change[meta.DottedConfigKey(key)] = nil
			}
			for key, value := range values {
				change[key] = &value
			}
			return change, nil
		})
	case kmsg.ConfigResourceTypeBroker:
		return a.alterBroker(r, resource.ResourceName, validateOnly, func(map[string]string) (map[string]string, error) { return values, nil })
	case kmsg.ConfigResourceTypeBrokerLogger:
		return fail(kerr.InvalidRequest, "Log levels are changed by IncrementalAlterConfigs.")
	}
	if kind := namedKindOf(resource.ResourceType); kind != nil {
		return a.alterNamed(r, kind, resource.ResourceName, validateOnly, func(map[string]string) (map[string]string, error) { return values, nil })
	}
	return unknownResource(resource.ResourceType)
}
