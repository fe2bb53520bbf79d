package admin

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
)

// CreateAcls, key 30, v0 to v3.
//
// All bindings of one principal become one update of its KafkaUser, which must
// exist. An ACL that is there is a success and no change. The answer comes when
// the ACLs are in force. In dev mode: success, and nothing is kept.
//
//	v0     literal patterns
//	v1     pattern types (KIP-290)
//	v2     flexible
//	v3     user resource type, refused: no KafkaUser can express it
func (a *Admin) createACLsAPI() codec.API {
	return codec.API{
		Key: 30, Name: "CreateAcls", MinVersion: 0, MaxVersion: 3, Class: codec.Pool,
		Handle: a.createACLs, Refuse: refuseCreateACLs,
		Note: "into spec.authorization.acls of an existing KafkaUser",
	}
}

func refuseCreateACLs(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrCreateACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	respondCreateACLs(r, request, throttleMs, func(int) *failure { return &failure{code: kerr.TypedErrorForCode(errorCode)} })
}

func respondCreateACLs(r *codec.Request, request *kmsg.CreateACLsRequest, throttleMs int32, problemOf func(i int) *failure) {
	response := request.ResponseKind().(*kmsg.CreateACLsResponse)
	response.ThrottleMillis = throttleMs
	for i := range request.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		if problem := problemOf(i); problem != nil {
			result.ErrorCode = problem.code.Code
			if problem.message != "" {
				result.ErrorMessage = &problem.message
			}
		}
		response.Results = append(response.Results, result)
	}
	r.Respond(response)
}

func (a *Admin) createACLs(r *codec.Request) {
	request := kmsg.NewPtrCreateACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if problem := a.aclsDenied(r, auth.OperationAlter); problem != nil {
		respondCreateACLs(r, request, 0, func(int) *failure { return problem })
		return
	}
	problems := make([]*failure, len(request.Creations))
	byUser := map[string][]int{}
	var users []string
	bindings := make([]auth.Binding, len(request.Creations))
	for i := range request.Creations {
		if bindings[i], problems[i] = bindingOf(r.Version, &request.Creations[i]); problems[i] != nil {
			continue
		}
		user := userOf(bindings[i].Principal)
		if byUser[user] == nil {
			users = append(users, user)
		}
		byUser[user] = append(byUser[user], i)
	}
	if excess := a.excessOfBindings(bindings, problems); excess != nil {
		respondCreateACLs(r, request, 0, func(int) *failure { return excess })
		return
	}
	if a.DropTopic == nil {
		var changed []*meta.KafkaUser
		for _, user := range users {
			var of []auth.Binding
			for _, i := range byUser[user] {
				of = append(of, bindings[i])
			}
			stored, err := a.changeUser(user, func(resource *meta.KafkaUser) (bool, error) { return addBindings(resource, of) })
			if err == nil {
				changed = append(changed, stored)
			}
			for _, i := range byUser[user] {
				problems[i] = a.userFailure(user, err, kerr.InvalidRequest)
			}
		}
		a.awaitUsers(changed)
	}
	respondCreateACLs(r, request, 0, func(i int) *failure { return problems[i] })
}

// excessOfBindings refuses a request with more new bindings than Kafka takes in one.
func (a *Admin) excessOfBindings(bindings []auth.Binding, problems []*failure) *failure {
	if len(bindings) <= limits.ACLsPerRequest {
		return nil
	}
	created := make(map[auth.Binding]bool, len(bindings))
	for i := range bindings {
		if problems[i] == nil {
			created[bindings[i]] = true
		}
	}
	for _, account := range a.Users.Accounts() {
		for _, b := range account.Bindings() {
			delete(created, b)
		}
	}
	if len(created) <= limits.ACLsPerRequest {
		return nil
	}
	return fail(kerr.PolicyViolation, "Unable to perform excessively large batch operation: %d new ACLs, at most %d.", len(created), limits.ACLsPerRequest)
}

// addBindings refuses a spec that is broken: what it would mean is unknown.
func addBindings(resource *meta.KafkaUser, bindings []auth.Binding) (bool, error) {
	changed, err := auth.AddBindings(resource, bindings)
	if errors.Is(err, auth.ErrTooManyACLs) {
		return false, fail(kerr.InvalidRequest, "KafkaUser %s: %s", resource.Metadata.Name, err)
	}
	if err != nil {
		return false, fail(kerr.InvalidRequest, "KafkaUser %s is not in force: %s", resource.Metadata.Name, err)
	}
	return changed, nil
}
