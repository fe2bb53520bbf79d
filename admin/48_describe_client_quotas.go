package admin

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// DescribeClientQuotas, key 48, v0 to v1.
//
// The one axis is the user: a name, or all that have a quota (ANY, and a filter
// without components). What is in force is told: the override, else spec.quotas of
// the user's resource. The default user, client ids and addresses have no quotas, so
// filters for them find nothing; other types are UNSUPPORTED_VERSION. Without authentication nobody has quotas.
//
//	v1     flexible
func (a *Admin) describeClientQuotasAPI() codec.API {
	return codec.API{
		Key: 48, Name: "DescribeClientQuotas", MinVersion: 0, MaxVersion: 1, Class: codec.Pool,
		Handle: a.describeClientQuotas, Refuse: refuseDescribeClientQuotas,
		EstimateBytes: a.estimateUsers,
		Note:          "users only",
	}
}

const (
	quotaEntityUser     = "user"
	quotaEntityClientID = "client-id"
	quotaEntityIP       = "ip"
	quotaMatchExact     = 0
	quotaMatchDefault   = 1
	quotaMatchAnything  = 2
)

func refuseDescribeClientQuotas(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrDescribeClientQuotasRequest(), func(request *kmsg.DescribeClientQuotasRequest, response *kmsg.DescribeClientQuotasResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) describeClientQuotas(r *codec.Request) {
	request := kmsg.NewPtrDescribeClientQuotasRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	if !a.allowedCluster(r, auth.OperationDescribeConfigs) {
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code // as Kafka, without a text
		r.Respond(response)
		return
	}
	users, problem := a.quotaUsers(request)
	if problem != nil {
		response.ErrorCode, response.ErrorMessage = problem.code.Code, &problem.message
		r.Respond(response)
		return
	}
	response.ErrorMessage = kmsg.StringPtr("") // as Kafka
	response.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for _, user := range users {
		values := a.Quotas.Effective(user)
		if len(values) == 0 {
			continue
		}
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		entity := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		entity.Type, entity.Name = quotaEntityUser, kmsg.StringPtr(user)
		entry.Entity = append(entry.Entity, entity)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := kmsg.NewDescribeClientQuotasResponseEntryValue()
			value.Key, value.Value = key, values[key]
			entry.Values = append(entry.Values, value)
		}
		response.Entries = append(response.Entries, entry)
	}
	r.Respond(response)
}

// quotaUsers lists the users that a filter may be about. Its checks are those of
// Kafka's ClientQuotasImage.describe.
func (a *Admin) quotaUsers(request *kmsg.DescribeClientQuotasRequest) ([]string, *failure) {
	seen := map[string]bool{}
	all, none := true, a.Quotas == nil
	var exact string
	for i := range request.Components {
		c := &request.Components[i]
		switch {
		case c.EntityType == "":
			return nil, fail(kerr.InvalidRequest, "Invalid empty entity type.")
		case seen[c.EntityType]:
			return nil, fail(kerr.InvalidRequest, "Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case !slices.Contains([]string{quotaEntityUser, quotaEntityClientID, quotaEntityIP}, c.EntityType):
			return nil, fail(kerr.UnsupportedVersion, "Unsupported entity type %s", c.EntityType)
		case c.MatchType == quotaMatchExact && c.Match == nil:
			return nil, fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case c.MatchType != quotaMatchExact && c.Match != nil:
			return nil, fail(kerr.InvalidRequest, "Request specified a match type without a name, but set a match string.")
		case c.MatchType < quotaMatchExact || c.MatchType > quotaMatchAnything:
			return nil, fail(kerr.InvalidRequest, "Unknown match type %d", int8(c.MatchType))
		}
		seen[c.EntityType] = true
		switch {
		case c.EntityType != quotaEntityUser || c.MatchType == quotaMatchDefault:
			none = true
		case c.MatchType == quotaMatchExact:
			all, exact = false, *c.Match
		}
	}
	switch {
	case seen[quotaEntityIP] && len(seen) > 1:
		return nil, fail(kerr.InvalidRequest, "Invalid entity filter component combination, IP filter component should not be used with user or clientId filter component.")
	case none:
		return nil, nil
	case !all:
		return []string{exact}, nil
	}
	users := a.Quotas.Overridden()
	for _, account := range a.Users.Accounts() {
		if len(account.QuotasInForce()) > 0 {
			users = append(users, account.Name)
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}
