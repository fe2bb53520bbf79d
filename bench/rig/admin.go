package rig

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopics is one request for so many topics of one partition.
func CreateTopics(c *Caller, prefix string, from, count int) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.SetVersion(5)
	request.TimeoutMillis = 120_000
	for i := range count {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("%s-%d", prefix, from+i), 1, 1
		request.Topics = append(request.Topics, topic)
	}
	answer, err := c.Ask(request, 2*time.Minute)
	if err != nil {
		return err
	}
	for _, topic := range answer.(*kmsg.CreateTopicsResponse).Topics {
		if topic.ErrorCode != 0 {
			return fmt.Errorf("create %s: error %d", topic.Topic, topic.ErrorCode)
		}
	}
	return nil
}

// DescribeConfigs asks for all settings of so many topics in one request.
func DescribeConfigs(c *Caller, prefix string, count int) error {
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.SetVersion(3)
	for i := range count {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, fmt.Sprintf("%s-%d", prefix, i)
		request.Resources = append(request.Resources, resource)
	}
	answer, err := c.Ask(request, time.Minute)
	if err != nil {
		return err
	}
	resources := answer.(*kmsg.DescribeConfigsResponse).Resources
	for _, r := range resources {
		if r.ErrorCode != 0 || len(r.Configs) == 0 {
			return fmt.Errorf("configuration of %s: error %d, %d keys", r.ResourceName, r.ErrorCode, len(r.Configs))
		}
	}
	if len(resources) != count {
		return fmt.Errorf("%d of %d topics were described", len(resources), count)
	}
	return nil
}

// VisibleACLs counts what DescribeAcls shows of a topic, or of all.
func VisibleACLs(c *Caller, topic string, operation kmsg.ACLOperation) (count int, err error) {
	request := kmsg.NewPtrDescribeACLsRequest()
	request.SetVersion(1)
	request.ResourceType, request.ResourcePatternType, request.Operation, request.PermissionType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeAny, operation, kmsg.ACLPermissionTypeAny
	if topic != "" {
		request.ResourceName = kmsg.StringPtr(topic)
	}
	answer, err := c.Ask(request, time.Minute)
	if err != nil {
		return 0, err
	}
	response := answer.(*kmsg.DescribeACLsResponse)
	if response.ErrorCode != 0 {
		return 0, fmt.Errorf("DescribeAcls: error %d", response.ErrorCode)
	}
	for _, r := range response.Resources {
		count += len(r.ACLs)
	}
	return count, nil
}

// AwaitACLs asks until there are so many.
func AwaitACLs(c *Caller, topic string, operation kmsg.ACLOperation, want int) (time.Duration, error) {
	for began := time.Now(); ; {
		n, err := VisibleACLs(c, topic, operation)
		if err != nil || n == want {
			return time.Since(began), err
		}
		if time.Since(began) > 90*time.Second {
			return 0, fmt.Errorf("%d ACLs are visible after 90 s, %d are due", n, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
