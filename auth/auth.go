package auth

// Operation is what a principal wants to do with a resource. The numbers are
// those of Kafka's AclOperation and travel on the wire.
type Operation int8

// Operations of Kafka 4.x.
const (
	OperationUnknown         Operation = 0
	OperationAny             Operation = 1
	OperationAll             Operation = 2
	OperationRead            Operation = 3
	OperationWrite           Operation = 4
	OperationCreate          Operation = 5
	OperationDelete          Operation = 6
	OperationAlter           Operation = 7
	OperationDescribe        Operation = 8
	OperationClusterAction   Operation = 9
	OperationDescribeConfigs Operation = 10
	OperationAlterConfigs    Operation = 11
	OperationIdempotentWrite Operation = 12
	OperationCreateTokens    Operation = 13
	OperationDescribeTokens  Operation = 14
	OperationTwoPhaseCommit  Operation = 15
)

// String returns Kafka's name of the operation, as its tools print it.
func (o Operation) String() string {
	names := [...]string{
		"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
		"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
	}
	if o < 0 || int(o) >= len(names) {
		return names[0]
	}
	return names[o]
}

// ResourceType is the kind of thing that an operation is done to. The numbers
// are those of Kafka's ResourceType and travel on the wire.
type ResourceType int8

// Resource types of Kafka 4.x.
const (
	ResourceUnknown         ResourceType = 0
	ResourceAny             ResourceType = 1
	ResourceTopic           ResourceType = 2
	ResourceGroup           ResourceType = 3
	ResourceCluster         ResourceType = 4
	ResourceTransactionalID ResourceType = 5
	ResourceDelegationToken ResourceType = 6
	ResourceUser            ResourceType = 7
)

// String returns Kafka's name of the resource type, as its tools print it.
func (r ResourceType) String() string {
	names := [...]string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
	if r < 0 || int(r) >= len(names) {
		return names[0]
	}
	return names[r]
}

// ClusterName is the only name that a resource of type [ResourceCluster] has.
const ClusterName = "kafka-cluster"

// Authorizer decides whether a principal ("User:alice") that connects from
// host (an address without port) may do an operation on one named resource.
// Implementations imply DESCRIBE by READ, WRITE, DELETE and ALTER, and
// DESCRIBE_CONFIGS by ALTER_CONFIGS, as Kafka's StandardAuthorizer does; a
// handler asks for the one operation that Kafka's handler names.
type Authorizer interface {
	Authorize(principal, host string, op Operation, resource ResourceType, name string) bool
}

// ByResourceType is an Authorizer that can say whether a principal may do an
// operation on at least one resource of a type (KIP-679), existing or not.
type ByResourceType interface {
	AuthorizeByResourceType(principal, host string, op Operation, resource ResourceType) bool
}

// AllowAll lets everybody do everything: Kafka without authorizer.class.name.
type AllowAll struct{}

// Authorize returns true.
func (AllowAll) Authorize(string, string, Operation, ResourceType, string) bool { return true }

// AuthorizeByResourceType returns true.
func (AllowAll) AuthorizeByResourceType(string, string, Operation, ResourceType) bool { return true }

// AuthorizedOperationsOmitted stands in a reply whose request did not ask for
// the authorised operations.
const AuthorizedOperationsOmitted int32 = -2147483648

// AuthorizedOperations returns the bit field of what the principal may do with
// the resource: bit n is set when the operation with number n is allowed. Only
// the operations that Kafka's AclEntry.supportedOperations lists for the type
// can be set.
func AuthorizedOperations(a Authorizer, principal, host string, resource ResourceType, name string) int32 {
	var bits int32
	for _, op := range SupportedOperations(resource) {
		if a.Authorize(principal, host, op, resource, name) {
			bits |= 1 << op
		}
	}
	return bits
}

// SupportedOperations lists what can be granted on a resource type (Kafka's
// AclEntry.supportedOperations). The slice is shared and must not be changed.
func SupportedOperations(resource ResourceType) []Operation {
	switch resource {
	case ResourceTopic:
		return topicOperations
	case ResourceGroup:
		return groupOperations
	case ResourceCluster:
		return clusterOperations
	case ResourceTransactionalID:
		return transactionalIDOperations
	case ResourceDelegationToken:
		return delegationTokenOperations
	case ResourceUser:
		return userOperations
	default:
		return nil
	}
}

// Immutable after package initialisation.
var (
	topicOperations = []Operation{
		OperationRead, OperationWrite, OperationCreate, OperationDescribe, OperationDelete, OperationAlter,
		OperationDescribeConfigs, OperationAlterConfigs,
	}
	groupOperations = []Operation{
		OperationRead, OperationDescribe, OperationDelete, OperationDescribeConfigs, OperationAlterConfigs,
	}
	clusterOperations = []Operation{
		OperationCreate, OperationClusterAction, OperationDescribeConfigs, OperationAlterConfigs,
		OperationIdempotentWrite, OperationAlter, OperationDescribe,
	}
	transactionalIDOperations = []Operation{OperationDescribe, OperationWrite, OperationTwoPhaseCommit}
	delegationTokenOperations = []Operation{OperationDescribe}
	userOperations            = []Operation{OperationCreateTokens, OperationDescribeTokens}
)
