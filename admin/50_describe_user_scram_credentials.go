package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/auth/scram"
	"kaas/codec"
)

// DescribeUserScramCredentials, key 50, v0.
//
// Answers which credentials clients can log in with now, from where logins look
// them up; no salts and no keys. Null and an empty list are all users. Unknown: 91;
// named twice: 92; each for that user alone.
func (a *Admin) describeUserScramCredentialsAPI() codec.API {
	return codec.API{
		Key: 50, Name: "DescribeUserScramCredentials", MinVersion: 0, MaxVersion: 0, Class: codec.Pool,
		Handle: a.describeUserScramCredentials, Refuse: refuseDescribeUserScramCredentials,
		EstimateBytes: a.estimateUsers,
		Note:          "SCRAM-SHA-512 only",
	}
}

// mechanismSHA256 and mechanismSHA512 are Kafka's ScramMechanism numbers.
const (
	mechanismSHA256 = 1
	mechanismSHA512 = 2
)

func refuseDescribeUserScramCredentials(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), func(request *kmsg.DescribeUserSCRAMCredentialsRequest, response *kmsg.DescribeUserSCRAMCredentialsResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) describeUserScramCredentials(r *codec.Request) {
	request := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if !a.allowedCluster(r, auth.OperationDescribe) {
		// Kafka's DescribeUserScramCredentialsRequest.getErrorResponse: a result without a name, no messages.
		denied := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		response.ErrorCode, denied.ErrorCode = kerr.ClusterAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code
		response.Results = append(response.Results, denied)
		r.Respond(response)
		return
	}
	response.ErrorMessage = kmsg.StringPtr("") // as Kafka
	if len(request.Users) == 0 {
		for _, account := range a.Users.Accounts() {
			if account.Credential != nil {
				response.Results = append(response.Results, scramResult(account.Name, account.Credential, nil))
			}
		}
		r.Respond(response)
		return
	}
	times := map[string]int{}
	for i := range request.Users {
		times[request.Users[i].Name]++
	}
	for i := range request.Users {
		name := request.Users[i].Name
		count := times[name]
		if count == 0 {
			continue // answered
		}
		times[name] = 0
		credential := a.Users.Credential(name)
		var problem *failure
		switch {
		case count > 1:
			problem = fail(kerr.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: %s", name)
		case credential == nil:
			problem = fail(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: %s", name)
		}
		response.Results = append(response.Results, scramResult(name, credential, problem))
	}
	r.Respond(response)
}

func scramResult(user string, credential *scram.Credential, problem *failure) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	result.User = user
	if problem != nil {
		result.ErrorCode, result.ErrorMessage = problem.code.Code, &problem.message
		return result
	}
	info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
	info.Mechanism, info.Iterations = mechanismSHA512, int32(credential.Iterations)
	result.CredentialInfos = append(result.CredentialInfos, info)
	return result
}
