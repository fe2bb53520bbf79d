package admin

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
	"kaas/meta/config"
)

// DescribeConfigs, key 32, v0 to v4.
//
// Topics: all keys with what is in force, overrides as DYNAMIC_TOPIC_CONFIG with
// the chain of what they hide. Brokers: what this one runs with; the empty name is
// what is set for all of them while they run. BROKER_LOGGER:
// the level of its log. Groups and client metrics: what is set for them and, of
// groups, what is in force else.
//
//	v0     no source, but is_default
//	v1     source and synonyms
//	v3     types and documentation
//	v4     flexible
//
// Shapes: Kafka's ConfigHelper.describeConfigs. An empty list of keys means all,
// as null does.
func (a *Admin) describeConfigsAPI() codec.API {
	return codec.API{
		Key: 32, Name: "DescribeConfigs", MinVersion: 0, MaxVersion: 4, Class: codec.Pool,
		Handle: a.describeConfigs, Refuse: refuseDescribeConfigs,
		EstimateBytes: func(_ codec.Header, bodyBytes int) int {
			// The shortest resource is 8 bytes and may ask for every key with its documentation.
			return 4096 + bodyBytes/8*describedTopicBytes
		},
		Note: "topics, this broker, its log level, groups, client metrics",
	}
}

// describedTopicBytes bounds one topic's description in memory and on the wire.
const describedTopicBytes = 32 << 10

func refuseDescribeConfigs(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrDescribeConfigsRequest(), func(request *kmsg.DescribeConfigsRequest, response *kmsg.DescribeConfigsResponse) {
		response.ThrottleMillis = throttleMs
		for i := range request.Resources {
			response.Resources = append(response.Resources, describedResource(&request.Resources[i], &failure{code: kerr.TypedErrorForCode(errorCode)}))
		}
	})
}

func (a *Admin) describeConfigs(r *codec.Request) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for i := range request.Resources {
		resource := &request.Resources[i]
		entries, failure := a.describeResource(r, resource)
		result := describedResource(resource, failure)
		for _, entry := range entries {
			if len(resource.ConfigNames) > 0 && !slices.Contains(resource.ConfigNames, entry.Key.Name) {
				continue
			}
			result.Configs = append(result.Configs, describedConfig(&entry, request))
		}
		if failure == nil && resource.ResourceType == kmsg.ConfigResourceTypeBrokerLogger {
			result.Configs = a.describedLogger(resource, result.Configs)
		}
		response.Resources = append(response.Resources, result)
	}
	r.Respond(response)
}

func describedResource(resource *kmsg.DescribeConfigsRequestResource, failure *failure) kmsg.DescribeConfigsResponseResource {
	result := kmsg.NewDescribeConfigsResponseResource()
	result.ResourceType, result.ResourceName = resource.ResourceType, resource.ResourceName
	result.ErrorMessage = kmsg.StringPtr("") // Kafka's answer for success
	if failure != nil {
		result.ErrorCode, result.ErrorMessage = failure.code.Code, &failure.message
	}
	return result
}

func (a *Admin) describeResource(r *codec.Request, resource *kmsg.DescribeConfigsRequestResource) ([]config.Entry, *failure) {
	name := resource.ResourceName
	switch resource.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if !a.allowed(r, auth.OperationDescribeConfigs, auth.ResourceTopic, name) {
			return nil, fail(kerr.TopicAuthorizationFailed, "Topic authorization failed.")
		}
		if err := meta.ValidateTopicName(name); err != nil {
			return nil, fail(kerr.InvalidTopicException, "%s", err)
		}
		topic := a.Images.Load().Topic(name)
		if topic == nil {
			return nil, &failure{code: kerr.UnknownTopicOrPartition}
		}
		return a.Config.DescribeTopic(topic.Config), nil
	case kmsg.ConfigResourceTypeBroker:
		if !a.allowedCluster(r, auth.OperationDescribeConfigs) {
			return nil, fail(kerr.ClusterAuthorizationFailed, "Cluster authorization failed.")
		}
		if failure := a.checkBrokerName(name, "Broker", "Unexpected broker id, expected %d or empty string, but received %s"); failure != nil {
			return nil, failure
		}
		if name == "" {
			return a.Config.DescribeCluster(), nil
		}
		return a.Config.Describe(), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if !a.allowedCluster(r, auth.OperationDescribeConfigs) {
			return nil, fail(kerr.ClusterAuthorizationFailed, "Cluster authorization failed.")
		}
		return nil, a.checkLogger(name)
	}
	if kind := namedKindOf(resource.ResourceType); kind != nil {
		return a.describeNamed(r, kind, name)
	}
	return nil, unknownResource(resource.ResourceType)
}

func describedConfig(entry *config.Entry, request *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	described := kmsg.NewDescribeConfigsResponseResourceConfig()
	described.Name, described.ReadOnly, described.IsSensitive = entry.Key.Name, entry.ReadOnly, entry.Key.Sensitive()
	described.Source, described.IsDefault = kmsg.ConfigSource(entry.Source), entry.Source == config.SourceDefault
	described.ConfigType = kmsg.ConfigType(entry.Key.Type.TypeCode())
	if !entry.Null && !described.IsSensitive {
		described.Value = kmsg.StringPtr(entry.Value)
	}
	if request.IncludeSynonyms {
		for _, value := range entry.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Source = value.Name, kmsg.ConfigSource(value.Source)
			if !described.IsSensitive {
				synonym.Value = kmsg.StringPtr(value.Value)
			}
			described.ConfigSynonyms = append(described.ConfigSynonyms, synonym)
		}
	}
	if request.IncludeDocumentation && entry.Key.Doc != "" {
		described.Documentation = kmsg.StringPtr(entry.Key.Doc)
	}
	return described
}

func (a *Admin) describedLogger(resource *kmsg.DescribeConfigsRequestResource, configs []kmsg.DescribeConfigsResponseResourceConfig) []kmsg.DescribeConfigsResponseResourceConfig {
	if len(resource.ConfigNames) > 0 && !slices.Contains(resource.ConfigNames, rootLogger) {
		return configs
	}
	described := kmsg.NewDescribeConfigsResponseResourceConfig()
	described.Name, described.Value = rootLogger, kmsg.StringPtr(levelName(a.LogLevel.Level()))
	described.Source = kmsg.ConfigSourceDynamicBrokerLoggerConfig
	return append(configs, described)
}
