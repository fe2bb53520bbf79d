package admin

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/meta"
	"kaas/meta/config"
)

// IncrementalAlterConfigs, key 44, v0 to v1 (KIP-339).
//
// Topics: the operations become one merge patch of spec.config, all of them or
// none. SET with null removes, as DELETE does; for all other resources it is
// INVALID_REQUEST. APPEND and SUBTRACT work on keys of type list only. Keys may be
// dotted or camelCase. BROKER: one patch of a KafkaBrokerConfig; bad values and keys
// that are read at start only are INVALID_REQUEST, unknown keys INVALID_CONFIG.
// BROKER_LOGGER: the log level.
//
//	v1     flexible
//
// Checks: Kafka's ControllerApis.incrementalAlterConfigs and
// ConfigurationControlManager.
func (a *Admin) incrementalAlterConfigsAPI() codec.API {
	return codec.API{
		Key: 44, Name: "IncrementalAlterConfigs", MinVersion: 0, MaxVersion: 1, Class: codec.Pool,
		Handle: a.incrementalAlterConfigs, Refuse: refuseIncrementalAlterConfigs,
		Note: "one merge patch of spec.config per topic or broker; the log level",
	}
}

func refuseIncrementalAlterConfigs(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrIncrementalAlterConfigsRequest(), func(request *kmsg.IncrementalAlterConfigsRequest, response *kmsg.IncrementalAlterConfigsResponse) {
		response.ThrottleMillis = throttleMs
		for i := range request.Resources {
			result := kmsg.NewIncrementalAlterConfigsResponseResource()
			result.ResourceType, result.ResourceName = request.Resources[i].ResourceType, request.Resources[i].ResourceName
			result.ErrorCode = errorCode
			response.Resources = append(response.Resources, result)
		}
	})
}

func (a *Admin) incrementalAlterConfigs(r *codec.Request) {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	type identity struct {
		kind kmsg.ConfigResourceType
		name string
	}
	times := make(map[identity]int, len(request.Resources))
	for i := range request.Resources {
		times[identity{request.Resources[i].ResourceType, request.Resources[i].ResourceName}]++
	}
	response := request.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for i := range request.Resources {
		resource := &request.Resources[i]
		var problem *failure
		if times[identity{resource.ResourceType, resource.ResourceName}] > 1 {
			problem = fail(kerr.InvalidRequest, "Each resource must appear at most once.")
		} else {
			problem = a.alterIncrementally(r, resource, request.ValidateOnly)
		}
		result := kmsg.NewIncrementalAlterConfigsResponseResource()
		result.ResourceType, result.ResourceName = resource.ResourceType, resource.ResourceName
		if problem != nil {
			result.ErrorCode, result.ErrorMessage = problem.code.Code, &problem.message
		}
		response.Resources = append(response.Resources, result)
	}
	r.Respond(response)
}

func (a *Admin) alterIncrementally(r *codec.Request, resource *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) *failure {
	seen := make(map[string]bool, len(resource.Configs))
	for i := range resource.Configs {
		key := meta.DottedConfigKey(resource.Configs[i].Name)
		if seen[key] {
			return fail(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[key] = true
	}
	switch resource.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return a.alterTopicConfig(r, resource.ResourceName, validateOnly, func(topic *meta.KafkaTopic) (configChange, error) {
			return a.changeByOperations(topic, resource.Configs)
		})
	case kmsg.ConfigResourceTypeBroker:
		return a.alterBroker(r, resource.ResourceName, validateOnly, func(values map[string]string) (map[string]string, error) {
			return values, a.operateOnBroker(values, resource.Configs)
		})
	case kmsg.ConfigResourceTypeBrokerLogger:
		levels := make(map[string]string, len(resource.Configs))
		for i := range resource.Configs {
			entry := &resource.Configs[i]
			if entry.Op != kmsg.IncrementalAlterConfigOpSet || entry.Value == nil {
				return fail(kerr.InvalidRequest, "The level of logger %s can only be set.", entry.Name)
			}
			levels[entry.Name] = *entry.Value
		}
		return a.alterLogger(r, resource.ResourceName, validateOnly, levels)
	}
	if kind := namedKindOf(resource.ResourceType); kind != nil {
		return a.alterNamed(r, kind, resource.ResourceName, validateOnly, func(values map[string]string) (map[string]string, error) {
			return values, a.operateOnNamed(kind, values, resource.Configs)
		})
	}
	return unknownResource(resource.ResourceType)
}

// changeByOperations turns the operations into values. APPEND and SUBTRACT start
// from the override, without one from what the broker has in force.
func (a *Admin) changeByOperations(topic *meta.KafkaTopic, operations []kmsg.IncrementalAlterConfigsRequestResourceConfig) (configChange, error) {
	change := make(configChange, len(operations))
	overrides, err := topic.ConfigOverrides()
	if err != nil {
		return nil, fail(kerr.InvalidConfig, "%s", err)
	}
	for i := range operations {
		operation := &operations[i]
		key := meta.DottedConfigKey(operation.Name)
		known := config.TopicKey(key)
		switch operation.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			change[key] = operation.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			change[key] = nil
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if known == nil {
				return nil, fail(kerr.InvalidConfig, "Unknown topic config name: %s", operation.Name)
			}
			if failure := checkListOperation(known, operation); failure != nil {
				return nil, failure
			}
			change[key] = a.listChange(key, overrides, operation)
		default:
			return nil, fail(kerr.InvalidRequest, "Unknown operation %d on config %s", int8(operation.Op), operation.Name)
		}
	}
	return change, nil
}

// checkListOperation refuses APPEND and SUBTRACT where they mean nothing.
func checkListOperation(known *config.Key, operation *kmsg.IncrementalAlterConfigsRequestResourceConfig) *failure {
	switch {
	case known.Type != config.List:
		return fail(kerr.InvalidConfig, "%s", notAList(operation.Op, known.Name))
	case operation.Value == nil:
		return fail(kerr.InvalidRequest, "Null value not supported for : %s", known.Name)
	}
	return nil
}

// notAList is Kafka's text; it says "to" of both.
func notAList(op kmsg.IncrementalAlterConfigOp, key string) string {
	word := "APPEND"
	if op == kmsg.IncrementalAlterConfigOpSubtract {
		word = "SUBTRACT"
	}
	return "Can't " + word + " to key " + key + " because its type is not LIST."
}

func (a *Admin) listChange(key string, overrides map[string]string, operation *kmsg.IncrementalAlterConfigsRequestResourceConfig) *string {
	current, ok := overrides[key]
	if !ok {
		current = valueIn(a.Config.DescribeTopic(nil), key)
	}
	return changedList(current, operation)
}

// valueIn is what is in force for a key, "" for null.
func valueIn(entries []config.Entry, key string) string {
	for _, entry := range entries {
		if entry.Key.Name == key && !entry.Null {
			return entry.Value
		}
	}
	return ""
}

// changedList is a list after APPEND or SUBTRACT.
func changedList(current string, operation *kmsg.IncrementalAlterConfigsRequestResourceConfig) *string {
	elements := listElements(current)
	for _, element := range listElements(*operation.Value) {
		at := slices.Index(elements, element)
		switch {
		case operation.Op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			elements = append(elements, element)
		case operation.Op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			elements = slices.Delete(elements, at, at+1)
		}
	}
	joined := strings.Join(elements, ",")
	return &joined
}

func listElements(text string) []string {
	var elements []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			elements = append(elements, element)
		}
	}
	return elements
}
