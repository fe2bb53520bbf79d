package admin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/auth/scram"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
)

// anyACL is the filter that matches every ACL.
func anyACL() *kmsg.DescribeACLsRequest {
	request := kmsg.NewPtrDescribeACLsRequest()
	request.ResourceType, request.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	request.Operation, request.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return request
}

const enforce = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"

func (h *harness) mustCreateUser(kafkaName, authentication string) {
	h.t.Helper()
	user := &meta.KafkaUser{APIVersion: meta.APIVersion, Kind: meta.KindUser}
	user.Metadata.Name = meta.UserResourceName(kafkaName)
	if user.Metadata.Name != kafkaName {
		user.Spec.UserName = kafkaName
	}
	if authentication != "" {
		user.Spec.Authentication = map[string]any{"type": authentication}
	}
	stored, err := h.store.Create(h.t.Context(), user)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.admin.Users.Await(h.t.Context(), stored.(*meta.KafkaUser)); err != nil {
		h.t.Fatal(err)
	}
}

// acl is "principal type name pattern host operation permission".
func acl(text string) kmsg.CreateACLsRequestCreation {
	words := strings.Fields(strings.ReplaceAll(text, "''", "\x01"))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x01", "")
	}
	c := kmsg.NewCreateACLsRequestCreation()
	var errs [4]error
	c.Principal, c.ResourceName, c.Host = words[0], words[2], words[4]
	c.ResourceType, errs[0] = kmsg.ParseACLResourceType(words[1])
	c.ResourcePatternType, errs[1] = kmsg.ParseACLResourcePatternType(words[3])
	c.Operation, errs[2] = kmsg.ParseACLOperation(words[5])
	c.PermissionType, errs[3] = kmsg.ParseACLPermissionType(words[6])
	if err := errors.Join(errs[:]...); err != nil {
		panic(err)
	}
	return c
}

func (h *harness) createACLs(version int16, acls ...string) []int16 {
	h.t.Helper()
	request := kmsg.NewPtrCreateACLsRequest()
	for _, text := range acls {
		request.Creations = append(request.Creations, acl(text))
	}
	var codes []int16
	for _, result := range h.call(request, version).(*kmsg.CreateACLsResponse).Results {
		if (result.ErrorCode == 0) != (result.ErrorMessage == nil) {
			h.t.Errorf("%+v", result)
		}
		codes = append(codes, result.ErrorCode)
	}
	return codes
}

// acls lists what DescribeAcls answers, as acl takes it.
func (h *harness) describeACLs(version int16, request *kmsg.DescribeACLsRequest) []string {
	h.t.Helper()
	response := h.call(request, version).(*kmsg.DescribeACLsResponse)
	if response.ErrorCode != 0 {
		h.t.Fatalf("%+v", response)
	}
	var out []string
	for _, resource := range response.Resources {
		for _, entry := range resource.ACLs {
			out = append(out, fmt.Sprintf("%s %s %s %s %s %s %s", entry.Principal, resource.ResourceType, resource.ResourceName, resource.ResourcePatternType, entry.Host, entry.Operation, entry.PermissionType))
		}
	}
	return out
}

func equalCodes(got []int16, want ...int16) bool { return fmt.Sprint(got) == fmt.Sprint(want) }

func TestACLRequestsRefuse(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{enforce}})
	h.mustCreateUser("alice", "")
	for version := int16(1); version <= 3; version++ {
		got := h.createACLs(version,
			"User:nobody TOPIC t LITERAL * READ ALLOW", "Group:alice TOPIC t LITERAL * READ ALLOW", "alice TOPIC t LITERAL * READ ALLOW", "User: TOPIC t LITERAL * READ ALLOW",
			"User:alice TOPIC '' LITERAL * READ ALLOW", "User:alice CLUSTER mine LITERAL * READ ALLOW", "User:alice ANY t LITERAL * READ ALLOW",
			"User:alice USER t LITERAL * READ ALLOW", "User:alice DELEGATION_TOKEN t LITERAL * READ ALLOW", "User:alice TOPIC t MATCH * READ ALLOW",
			"User:alice TOPIC t ANY * READ ALLOW", "User:alice TOPIC t LITERAL * ANY ALLOW", "User:alice TOPIC t LITERAL * READ ANY", "User:alice TOPIC t LITERAL '' READ ALLOW",
			"User:alice TOPIC t LITERAL * READ ALLOW")
		for i, code := range got[:len(got)-1] {
			if code != kerr.InvalidRequest.Code {
				t.Errorf("v%d, %d: %d", version, i, code)
			}
		}
		if got[len(got)-1] != 0 {
			t.Errorf("v%d: the good one of a bad batch: %d", version, got[len(got)-1])
		}
	}
	for i, change := range []func(*kmsg.DescribeACLsRequest){
		func(r *kmsg.DescribeACLsRequest) { r.ResourceType = kmsg.ACLResourceTypeUser },
		func(r *kmsg.DescribeACLsRequest) { r.ResourceType = kmsg.ACLResourceTypeUnknown },
		func(r *kmsg.DescribeACLsRequest) { r.ResourcePatternType = kmsg.ACLResourcePatternTypeUnknown },
		func(r *kmsg.DescribeACLsRequest) { r.Operation = 77 },
		func(r *kmsg.DescribeACLsRequest) { r.PermissionType = kmsg.ACLPermissionTypeUnknown },
	} {
		request := anyACL()
		change(request)
		if got := h.call(request, 3).(*kmsg.DescribeACLsResponse); got.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("%d: %+v", i, got)
		}
		remove := kmsg.NewPtrDeleteACLsRequest()
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = request.ResourceType, request.ResourcePatternType, request.Operation, request.PermissionType
		remove.Filters = append(remove.Filters, f)
		if got := h.call(remove, 3).(*kmsg.DeleteACLsResponse); got.Results[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if got := h.describeACLs(3, anyACL()); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestACLRequestsDenied(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{enforce}, authorizer: denier(func(auth.Operation, auth.ResourceType, string) bool { return true })})
	h.mustCreateUser("alice", "")
	if got := h.call(anyACL(), 3).(*kmsg.DescribeACLsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := h.createACLs(3, "User:alice TOPIC t LITERAL * READ ALLOW", "x TOPIC t LITERAL * READ ALLOW"); !equalCodes(got, 31, 31) {
		t.Error(got)
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Filters = []kmsg.DeleteACLsRequestFilter{kmsg.NewDeleteACLsRequestFilter()}
	if got := h.call(remove, 3).(*kmsg.DeleteACLsResponse).Results; len(got) != 1 || got[0].ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := h.call(kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), 0).(*kmsg.DescribeUserSCRAMCredentialsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := h.alterScram(nil, upsertion("alice", 4096)); got["alice"] != 31 {
		t.Error(got)
	}
}

func TestCreateDescribeDeleteACLs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{enforce}})
	h.mustCreateUser("alice", "")
	h.mustCreateUser("CN=bob,OU=x", "")
	all := []string{
		"User:CN=bob,OU=x GROUP g PREFIXED 10.0.0.1 READ DENY",
		"User:alice TOPIC t LITERAL * READ ALLOW", "User:alice TOPIC t LITERAL * WRITE ALLOW",
		"User:alice TOPIC t PREFIXED * WRITE ALLOW",
		"User:alice CLUSTER kafka-cluster LITERAL * ALTER ALLOW", "User:alice TRANSACTIONAL_ID x LITERAL * WRITE ALLOW",
	}
	if got := h.createACLs(3, all...); !equalCodes(got, 0, 0, 0, 0, 0, 0) {
		t.Fatal(got)
	}
	before, err := h.store.Get(t.Context(), meta.KindUser, "alice")
	if err != nil {
		t.Fatal(err)
	}
	for version := int16(0); version <= 3; version++ { // again: nothing changes
		if got := h.createACLs(version, all[1], all[1], all[2]); !equalCodes(got, 0, 0, 0) {
			t.Error(got)
		}
	}
	after, err := h.store.Get(t.Context(), meta.KindUser, "alice")
	if err != nil || after.Meta().ResourceVersion != before.Meta().ResourceVersion {
		t.Error("ACLs that exist were written again", err)
	}
	if acls := string(after.(*meta.KafkaUser).Spec.Authorization); strings.Count(acls, `"resource"`) != 4 {
		t.Errorf("operations on one resource are not one entry: %s", acls)
	}
	if got := h.describeACLs(3, anyACL()); fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("got  %q\nwant %q", got, all)
	}
	old := anyACL()
	if got := h.describeACLs(0, old); len(got) != 4 { // no prefixed ones
		t.Errorf("v0: %q", got)
	}
	name, principal := "team", "User:alice"
	match := anyACL()
	match.ResourceName, match.ResourcePatternType, match.Principal, match.ResourceType = &name, kmsg.ACLResourcePatternTypeMatch, &principal, kmsg.ACLResourceTypeTopic
	if got := h.describeACLs(2, match); len(got) != 1 || got[0] != all[3] {
		t.Errorf("MATCH: %q", got)
	}

	remove := kmsg.NewPtrDeleteACLsRequest()
	write := kmsg.NewDeleteACLsRequestFilter()
	write.ResourceType, write.ResourcePatternType, write.Operation, write.PermissionType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeAny
	nothing := write
	nothing.Operation = kmsg.ACLOperationDelete
	onlyPrefixed := write
	onlyPrefixed.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
	remove.Filters = []kmsg.DeleteACLsRequestFilter{write, nothing, onlyPrefixed}
	results := h.call(remove, 3).(*kmsg.DeleteACLsResponse).Results
	if len(results) != 3 || len(results[0].MatchingACLs) != 2 || len(results[1].MatchingACLs) != 0 || len(results[2].MatchingACLs) != 1 || results[2].MatchingACLs[0].ResourceName != "t" {
		t.Errorf("%+v", results)
	}
	if got := h.describeACLs(3, anyACL()); fmt.Sprint(got) != fmt.Sprint([]string{all[0], all[1], all[4], all[5]}) {
		t.Errorf("left: %q", got)
	}
	if got := h.describeACLs(3, anyACL()); len(got) != 4 {
		t.Error(got)
	}
	everything := kmsg.NewDeleteACLsRequestFilter()
	everything.ResourceType, everything.ResourcePatternType, everything.Operation, everything.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	remove.Filters = []kmsg.DeleteACLsRequestFilter{everything}
	if results := h.call(remove, 1).(*kmsg.DeleteACLsResponse).Results; len(results[0].MatchingACLs) != 4 {
		t.Errorf("%+v", results)
	}
	if got := h.describeACLs(3, anyACL()); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestConcurrentACLChanges: many clients change one user; conflicts are tried again
// and no change is lost.
func TestConcurrentACLChanges(t *testing.T) {
	t.Parallel()
	store := &awayStore{}
	h := newHarness(t, harnessOptions{overrides: []string{enforce}, wrap: func(s meta.ResourceStore) meta.ResourceStore { store.ResourceStore = s; return store }})
	h.mustCreateUser("alice", "")
	store.conflicts.Store(3)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if got := h.createACLs(3, fmt.Sprintf("User:alice TOPIC t%d LITERAL * READ ALLOW", i)); got[0] != 0 {
				t.Error(got)
			}
		}()
	}
	wait.Wait()
	if got := h.describeACLs(3, anyACL()); len(got) != 8 {
		t.Errorf("%q", got)
	}
	store.conflicts.Store(1000)
	if got := h.createACLs(3, "User:alice TOPIC more LITERAL * READ ALLOW"); !equalCodes(got, -1) {
		t.Error(got)
	}
	store.conflicts.Store(0)
	store.isAway.Store(true)
	if got := h.createACLs(3, "User:alice TOPIC more LITERAL * READ ALLOW"); !equalCodes(got, -1) {
		t.Error(got)
	}
}

func upsertion(user string, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = user, mechanismSHA512, iterations, []byte("salt"), bytes.Repeat([]byte{1}, scram.KeyBytes)
	return u
}

func (h *harness) alterScram(deletions []string, upsertions ...kmsg.AlterUserSCRAMCredentialsRequestUpsertion) map[string]int16 {
	h.t.Helper()
	request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, user := range deletions {
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name, d.Mechanism = user, mechanismSHA512
		request.Deletions = append(request.Deletions, d)
	}
	request.Upsertions = upsertions
	codes := map[string]int16{}
	for _, result := range h.call(request, 0).(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		if _, twice := codes[result.User]; twice {
			h.t.Errorf("%s is answered twice", result.User)
		}
		codes[result.User] = result.ErrorCode
	}
	return codes
}

func TestScramCredentials(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	for user, authentication := range map[string]string{"alice": auth.TypeScramSHA512, "CN=bob,OU=x": "", "tls": auth.TypeTLS, "carol": ""} {
		h.mustCreateUser(user, authentication)
	}
	bad := func(change func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion)) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		u := upsertion("alice", 4096)
		change(&u)
		return u
	}
	for i, tc := range []struct {
		upsertion kmsg.AlterUserSCRAMCredentialsRequestUpsertion
		want      *kerr.Error
	}{
		{upsertion("nobody", 4096), kerr.ResourceNotFound},
		{upsertion("tls", 4096), kerr.InvalidRequest},
		{upsertion("", 4096), kerr.UnacceptableCredential},
		{upsertion("alice", 4095), kerr.UnacceptableCredential},
		{upsertion("alice", 16385), kerr.UnacceptableCredential},
		{upsertion("alice", -1), kerr.UnacceptableCredential},
		{bad(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Salt = nil }), kerr.UnacceptableCredential},
		{bad(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.SaltedPassword = nil }), kerr.UnacceptableCredential},
		{bad(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.SaltedPassword = []byte{1} }), kerr.UnacceptableCredential},
		{bad(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Mechanism = mechanismSHA256 }), kerr.UnsupportedSaslMechanism},
		{bad(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Mechanism = 0 }), kerr.UnsupportedSaslMechanism},
	} {
		if got := h.alterScram(nil, tc.upsertion, upsertion("carol", 4096)); got[tc.upsertion.Name] != tc.want.Code || got["carol"] != 0 {
			t.Errorf("%d: %v", i, got)
		}
		if h.admin.Users.Credential(tc.upsertion.Name) != nil {
			t.Errorf("%d: a refused credential is in force", i)
		}
	}
	if got := h.alterScram([]string{"alice"}, upsertion("carol", 4096)); got["alice"] != kerr.UnsupportedVersion.Code || got["carol"] != 0 {
		t.Error(got)
	}
	if got := h.alterScram([]string{"alice"}, upsertion("alice", 4096)); len(got) != 1 || got["alice"] == 0 {
		t.Error(got)
	}
	if got := h.alterScram(nil, upsertion("alice", 4096), upsertion("alice", 8192)); len(got) != 1 || got["alice"] != kerr.DuplicateResource.Code || h.admin.Users.Credential("alice") != nil {
		t.Error(got)
	}
	if got := h.alterScram(nil, upsertion("alice", 4096), upsertion("CN=bob,OU=x", 8192)); got["alice"] != 0 || got["CN=bob,OU=x"] != 0 {
		t.Error(got)
	}
	// The resource holds keys, not the salted password, and is what is in force.
	user, err := h.store.Get(t.Context(), meta.KindUser, "alice")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := auth.ParseUser(user.(*meta.KafkaUser))
	if err != nil || !bytes.Equal(parsed.Credential.StoredKey, h.admin.Users.Credential("alice").StoredKey) || bytes.Equal(parsed.Credential.StoredKey, upsertion("alice", 1).SaltedPassword) {
		t.Errorf("%+v, %v", parsed, err)
	}
	describe := func(users ...string) map[string]string {
		request := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, name := range users {
			u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
			u.Name = name
			request.Users = append(request.Users, u)
		}
		out := map[string]string{}
		for _, result := range h.call(request, 0).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results {
			out[result.User] = fmt.Sprint(result.ErrorCode, result.CredentialInfos)
		}
		return out
	}
	if got := describe(); len(got) != 3 || !strings.HasPrefix(got["alice"], "0 [{2 4096") || !strings.HasPrefix(got["CN=bob,OU=x"], "0 [{2 8192") {
		t.Errorf("%v", got)
	}
	if got := describe("alice", "tls", "carol", "carol"); !strings.HasPrefix(got["alice"], "0 [{2 4096") || got["tls"] != "91 []" || got["carol"] != "92 []" || len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// The message of a user without a resource is one that helps.
func TestUserWithoutAResource(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{enforce}})
	h.admin.ResourcesDir = "/data/resources"
	for user, manifest := range map[string]string{
		"carol":   "{apiVersion: kaas.io/v1alpha1, kind: KafkaUser, metadata: {name: carol}, spec: {}}",
		`CN=x"y"`: "{apiVersion: kaas.io/v1alpha1, kind: KafkaUser, metadata: {name: " + meta.UserResourceName(`CN=x"y"`) + `}, spec: {userName: "CN=x\"y\""}}`,
	} {
		request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		request.Upsertions = append(request.Upsertions, upsertion(user, 4096))
		got := h.call(request, 0).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0]
		want := "no KafkaUser for principal User:" + user + ": admin requests change users and do not make them. Create that resource first, for example as a file below /data/resources: " + manifest
		if got.ErrorCode != kerr.ResourceNotFound.Code || text(got.ErrorMessage) != want {
			t.Errorf("%d %s", got.ErrorCode, text(got.ErrorMessage))
		}
	}
}

func TestUsersInDevMode(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{dev: true})
	if got := h.createACLs(3, "User:alice TOPIC t LITERAL * READ ALLOW"); !equalCodes(got, 0) || len(h.describeACLs(3, anyACL())) != 0 {
		t.Error(got)
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = 1, 1, 1, 1
	remove.Filters = append(remove.Filters, f)
	if got := h.call(remove, 3).(*kmsg.DeleteACLsResponse).Results; len(got) != 1 || got[0].ErrorCode != 0 || len(got[0].MatchingACLs) != 0 {
		t.Errorf("%+v", got)
	}
	if got := h.alterScram(nil, upsertion("alice", 4096)); got["alice"] != kerr.ClusterAuthorizationFailed.Code {
		t.Error(got)
	}
}

// The memory of an answer that may hold every ACL is asked for before it is taken.
func TestAnswersOfAllACLsAreEstimated(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{enforce}})
	h.mustCreateUser("alice", "")
	request := kmsg.NewPtrCreateACLsRequest()
	for i := range 2000 {
		request.Creations = append(request.Creations, acl(fmt.Sprintf("User:alice TOPIC topic-%d LITERAL * READ ALLOW", i)))
	}
	h.call(request, 3)
	all := anyACL()
	s := h.submit(all, 3)
	reply := len(<-s.reply)
	for _, key := range []int16{29, 31} {
		api := h.apis[key]
		if got := api.Estimate(codec.Header{Key: key, Version: 3}, 20); got < 4*reply || got > 40*reply {
			t.Errorf("key %d: %d bytes for an answer of %d", key, got, reply)
		}
	}
	for _, key := range []int16{48, 50} {
		api := h.apis[key]
		if one, none := api.Estimate(codec.Header{Key: key}, 20), codec.DefaultEstimate(20); one <= none {
			t.Errorf("key %d: %d bytes with a user, %d without", key, one, none)
		}
	}
}

// One request makes at most 10,000 ACLs, as in Kafka, and a user has at most as many
// entries; both are refused before any of it is written.
func TestTooManyACLs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{enforce}})
	h.mustCreateUser("alice", "")
	h.mustCreateUser("bob", "")
	of := func(user string, from, n int) *kmsg.CreateACLsRequest {
		request := kmsg.NewPtrCreateACLsRequest()
		for i := range n {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Principal, c.Host, c.Operation, c.PermissionType = 2, fmt.Sprint("t", from+i), 3, "User:"+user, "*", 3, 3
			request.Creations = append(request.Creations, c)
		}
		return request
	}
	before := h.resourcesText()
	for _, n := range []int{limits.ACLsPerRequest + 1, 100_000} {
		for i, result := range h.call(of("alice", 0, n), 3).(*kmsg.CreateACLsResponse).Results {
			if result.ErrorCode != 44 || text(result.ErrorMessage) != fmt.Sprintf("Unable to perform excessively large batch operation: %d new ACLs, at most 10000.", n) {
				t.Fatalf("%d of %d: %d %s", i, n, result.ErrorCode, text(result.ErrorMessage))
			}
		}
	}
	if got := h.resourcesText(); got != before {
		t.Error("something was written")
	}
	if got := h.createACLs(3, "User:bob TOPIC t LITERAL * READ ALLOW"); !equalCodes(got, 0) {
		t.Fatal(got)
	}
	before = h.resourcesText()
	over := h.call(of("bob", 0, limits.ACLsPerUser), 3).(*kmsg.CreateACLsResponse).Results[0]
	if over.ErrorCode != 42 || text(over.ErrorMessage) != "KafkaUser bob: too many ACLs: they would be 10001 entries, at most 10000: use prefixed patterns or the wildcard" {
		t.Errorf("%d %s", over.ErrorCode, text(over.ErrorMessage))
	}
	if got := h.resourcesText(); got != before {
		t.Error("something was written")
	}
	// What is there does not count, however often it is named.
	again := of("bob", 0, limits.ACLsPerRequest+1)
	for i := range again.Creations {
		again.Creations[i].ResourceName = "t"
	}
	if got := h.call(again, 3).(*kmsg.CreateACLsResponse).Results[0]; got.ErrorCode != 0 {
		t.Errorf("%d %s", got.ErrorCode, text(got.ErrorMessage))
	}
}
