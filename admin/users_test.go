package admin

import "github.com/twmb/franz-go/pkg/kmsg"

// anyACL is the filter that matches every ACL.
func anyACL() *kmsg.DescribeACLsRequest {
	request := kmsg.NewPtrDescribeACLsRequest()
	request.ResourceType, request.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	request.Operation, request.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return request
}
