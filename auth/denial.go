package auth

// Denial is a question that the authorizer answered with no, and that a request
// depended on: the request, or the part of it that names the resource, is refused.
// What is merely left out of a list is none (Kafka's Action.logIfDenied).
type Denial struct {
	Request         string // Kafka's name of its API
	Principal, Host string
	Operation       Operation
	Resource        ResourceType
	Name            string
}

// DenialListener is an Authorizer that is told of denials. Any goroutine calls it,
// event loops among them.
type DenialListener interface {
	Denied(Denial)
}

// Denied tells an authorizer that listens, and returns false: it stands behind the
// || of a question, so that an allowance costs nothing.
func Denied(a Authorizer, request, principal, host string, op Operation, resource ResourceType, name string) bool {
	if listener, ok := a.(DenialListener); ok {
		listener.Denied(Denial{request, principal, host, op, resource, name})
	}
	return false
}

// Audited is a StandardAuthorizer whose denials somebody wants to know of.
type Audited struct {
	*StandardAuthorizer
	Tell func(Denial)
}

// Denied implements DenialListener.
func (a Audited) Denied(d Denial) { a.Tell(d) }

// kafkaTypeNames are the names in Kafka's audit lines (ResourceType.TOPIC is Topic).
var kafkaTypeNames = map[ResourceType]string{
	ResourceTopic: "Topic", ResourceGroup: "Group", ResourceCluster: "Cluster", ResourceTransactionalID: "TransactionalId",
}

// Pattern is the resource as Kafka's audit line has it: Topic:LITERAL:orders.
func (d Denial) Pattern() string {
	return kafkaTypeNames[d.Resource] + ":" + PatternLiteral.String() + ":" + d.Name
}
