package auth

import "testing"

func TestNumbersAreKafkas(t *testing.T) {
	t.Parallel()
	if OperationDescribe != 8 || OperationIdempotentWrite != 12 || ResourceGroup != 3 || ResourceTransactionalID != 5 {
		t.Fatal("numbers travel on the wire and must stay Kafka's")
	}
	if got := OperationAlterConfigs.String(); got != "ALTER_CONFIGS" {
		t.Errorf("AlterConfigs prints %q", got)
	}
	if got := ResourceTransactionalID.String(); got != "TRANSACTIONAL_ID" {
		t.Errorf("TransactionalID prints %q", got)
	}
	if Operation(99).String() != "UNKNOWN" || ResourceType(-1).String() != "UNKNOWN" {
		t.Error("numbers that nobody knows must print UNKNOWN")
	}
}

type onlyOn struct {
	op   Operation
	name string
}

func (o onlyOn) Authorize(_, _ string, op Operation, _ ResourceType, name string) bool {
	return op == o.op && name == o.name
}

func TestAuthorizedOperations(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		a        Authorizer
		resource ResourceType
		resName  string
		want     int32
	}{
		{"nothing", onlyOn{OperationRead, "other"}, ResourceGroup, "g", 0},
		{"one", onlyOn{OperationRead, "g"}, ResourceGroup, "g", 1 << 3},
		{"not grantable on the type", onlyOn{OperationWrite, "g"}, ResourceGroup, "g", 0},
		// The values that Apache Kafka 4.x reports without an authorizer.
		{"topic", AllowAll{}, ResourceTopic, "t", 3576},
		{"cluster", AllowAll{}, ResourceCluster, ClusterName, 8096},
		{"group", AllowAll{}, ResourceGroup, "g", 3400},
		{"no such type", AllowAll{}, ResourceAny, "x", 0},
	} {
		if got := AuthorizedOperations(tc.a, "User:a", "127.0.0.1", tc.resource, tc.resName); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}
