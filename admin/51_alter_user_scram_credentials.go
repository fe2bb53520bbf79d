package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/auth/scram"
	"kaas/codec"
	"kaas/meta"
)

// AlterUserScramCredentials, key 51, v0.
//
// The salted password of the request becomes the keys of RFC 5802, and these go
// into spec.authentication.scram of the KafkaUser, which must exist. The answer
// comes when logins use them. Deletions are refused: a credential goes with its
// KafkaUser. One result for each user (Kafka's ScramControlManager).
func (a *Admin) alterUserScramCredentialsAPI() codec.API {
	return codec.API{
		Key: 51, Name: "AlterUserScramCredentials", MinVersion: 0, MaxVersion: 0, Class: codec.Pool,
		Handle: a.alterUserScramCredentials, Refuse: refuseAlterUserScramCredentials,
		Note: "SCRAM-SHA-512 of an existing KafkaUser; no deletions",
	}
}

// scramUsers lists the users of a request, each once.
func scramUsers(request *kmsg.AlterUserSCRAMCredentialsRequest) []string {
	var users []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			users = append(users, name)
		}
	}
	for i := range request.Deletions {
		add(request.Deletions[i].Name)
	}
	for i := range request.Upsertions {
		add(request.Upsertions[i].Name)
	}
	return users
}

func respondAlterScram(r *codec.Request, request *kmsg.AlterUserSCRAMCredentialsRequest, throttleMs int32, problemOf func(user string) *failure) {
	response := request.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	response.ThrottleMillis = throttleMs
	for _, user := range scramUsers(request) {
		result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		result.User = user
		if problem := problemOf(user); problem != nil {
			result.ErrorCode, result.ErrorMessage = problem.code.Code, &problem.message
		}
		response.Results = append(response.Results, result)
	}
	r.Respond(response)
}

func refuseAlterUserScramCredentials(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	respondAlterScram(r, request, throttleMs, func(string) *failure { return &failure{code: kerr.TypedErrorForCode(errorCode)} })
}

func (a *Admin) alterUserScramCredentials(r *codec.Request) {
	request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if !a.allowedCluster(r, auth.OperationAlter) {
		denied := fail(kerr.ClusterAuthorizationFailed, clusterDenied)
		respondAlterScram(r, request, 0, func(string) *failure { return denied })
		return
	}
	problems := scramProblems(request)
	var changed []*meta.KafkaUser
	for i := range request.Upsertions {
		upsertion := &request.Upsertions[i]
		if problems[upsertion.Name] != nil {
			continue
		}
		stored, err := a.setCredential(upsertion)
		if problem := a.userFailure(upsertion.Name, err, kerr.ResourceNotFound); problem != nil {
			problems[upsertion.Name] = problem
			continue
		}
		changed = append(changed, stored)
	}
	a.awaitUsers(changed)
	respondAlterScram(r, request, 0, func(user string) *failure { return problems[user] })
}

// scramProblems checks a request without a look at the users. The first problem of
// a user counts, and nothing of that user is done.
func scramProblems(request *kmsg.AlterUserSCRAMCredentialsRequest) map[string]*failure {
	problems := map[string]*failure{}
	note := func(user string, problem *failure) {
		if problems[user] == nil && problem != nil {
			problems[user] = problem
		}
	}
	type credential struct {
		user      string
		mechanism int8
	}
	seen := map[credential]bool{}
	once := func(user string, mechanism int8) {
		if seen[credential{user, mechanism}] {
			note(user, fail(kerr.DuplicateResource, "A user credential cannot be altered twice in the same request"))
		}
		seen[credential{user, mechanism}] = true
	}
	for i := range request.Deletions {
		d := &request.Deletions[i]
		once(d.Name, d.Mechanism)
		note(d.Name, fail(kerr.UnsupportedVersion, "A credential belongs to its KafkaUser: delete the resource, or change its spec.authentication"))
	}
	for i := range request.Upsertions {
		u := &request.Upsertions[i]
		once(u.Name, u.Mechanism)
		note(u.Name, checkUpsertion(u))
	}
	return problems
}

func checkUpsertion(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) *failure {
	switch {
	case u.Name == "":
		return fail(kerr.UnacceptableCredential, "Username must not be empty")
	case u.Mechanism == mechanismSHA256:
		return fail(kerr.UnsupportedSaslMechanism, "SCRAM-SHA-256 is not served; use %s", scram.Mechanism)
	case u.Mechanism != mechanismSHA512:
		return fail(kerr.UnsupportedSaslMechanism, "Unknown SCRAM mechanism")
	case u.Iterations < scram.MinIterations:
		return fail(kerr.UnacceptableCredential, "Too few iterations")
	case u.Iterations > scram.MaxIterations:
		return fail(kerr.UnacceptableCredential, "Too many iterations")
	case len(u.Salt) == 0 || len(u.SaltedPassword) == 0:
		return fail(kerr.UnacceptableCredential, "Salt and salted password must not be empty")
	case len(u.SaltedPassword) != scram.KeyBytes:
		return fail(kerr.UnacceptableCredential, "The salted password of %s has %d bytes, not %d", scram.Mechanism, scram.KeyBytes, len(u.SaltedPassword))
	}
	return nil
}

func (a *Admin) setCredential(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) (*meta.KafkaUser, error) {
	if a.DropTopic != nil {
		return nil, a.asFailure(meta.ErrDevMode)
	}
	credential := scram.FromSaltedPassword(u.SaltedPassword, u.Salt, int(u.Iterations))
	return a.changeUser(u.Name, func(resource *meta.KafkaUser) (bool, error) {
		have, _ := resource.Spec.Authentication["type"].(string)
		if have != "" && have != auth.TypeScramSHA512 {
			return false, fail(kerr.InvalidRequest, "KafkaUser %s has the authentication type %s; a password would change how it logs in", resource.Metadata.Name, have)
		}
		if resource.Spec.Authentication == nil {
			resource.Spec.Authentication = map[string]any{}
		}
		resource.Spec.Authentication["type"] = auth.TypeScramSHA512
		resource.Spec.Authentication["scram"] = auth.SpecOfScram(credential)
		return true, nil
	})
}
