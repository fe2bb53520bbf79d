package admin

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/quota"
)

// AlterClientQuotas, key 49, v0 to v1.
//
// The changes of an entry are merged onto what is in force for its user and become
// a runtime override: at once, on live connections, in this process only, until it
// ends. What lasts is spec.quotas of the KafkaUser. An override that loses its last
// key ends, and the resource counts again. Without authentication: 35.
//
//	v1     flexible
func (a *Admin) alterClientQuotasAPI() codec.API {
	return codec.API{
		Key: 49, Name: "AlterClientQuotas", MinVersion: 0, MaxVersion: 1, Class: codec.Pool,
		Handle: a.alterClientQuotas, Refuse: refuseAlterClientQuotas,
		Note: "a runtime override of one user; lasting quotas stand in the KafkaUser",
	}
}

func refuseAlterClientQuotas(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrAlterClientQuotasRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	respondAlterQuotas(r, request, throttleMs, func(*kmsg.AlterClientQuotasRequestEntry) *failure {
		return &failure{code: kerr.TypedErrorForCode(errorCode)}
	})
}

func respondAlterQuotas(r *codec.Request, request *kmsg.AlterClientQuotasRequest, throttleMs int32, do func(*kmsg.AlterClientQuotasRequestEntry) *failure) {
	response := request.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	response.ThrottleMillis = throttleMs
	for i := range request.Entries {
		entry := kmsg.NewAlterClientQuotasResponseEntry()
		for _, of := range request.Entries[i].Entity {
			entity := kmsg.NewAlterClientQuotasResponseEntryEntity()
			entity.Type, entity.Name = of.Type, of.Name
			entry.Entity = append(entry.Entity, entity)
		}
		if problem := do(&request.Entries[i]); problem != nil {
			entry.ErrorCode, entry.ErrorMessage = problem.code.Code, &problem.message
		}
		response.Entries = append(response.Entries, entry)
	}
	r.Respond(response)
}

func (a *Admin) alterClientQuotas(r *codec.Request) {
	request := kmsg.NewPtrAlterClientQuotasRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	allowed := a.allowedCluster(r, auth.OperationAlterConfigs)
	times := map[string]int{}
	for i := range request.Entries {
		for _, of := range request.Entries[i].Entity {
			if of.Name != nil {
				times[*of.Name]++
			}
		}
	}
	respondAlterQuotas(r, request, 0, func(entry *kmsg.AlterClientQuotasRequestEntry) *failure {
		switch {
		case !allowed:
			return fail(kerr.ClusterAuthorizationFailed, clusterDenied)
		case a.Quotas == nil:
			return fail(kerr.UnsupportedVersion, "Quotas are those of users, and no listener of this broker authenticates any.")
		case len(entry.Entity) != 1 || entry.Entity[0].Type != quotaEntityUser || entry.Entity[0].Name == nil || *entry.Entity[0].Name == "":
			return fail(kerr.InvalidRequest, "Only one user, by its name, can have quotas; the default user, client ids and addresses can't yet.")
		case times[*entry.Entity[0].Name] > 1:
			return fail(kerr.InvalidRequest, "User %s occurs more than once in the request.", *entry.Entity[0].Name)
		}
		return a.alterQuota(*entry.Entity[0].Name, entry.Ops, request.ValidateOnly)
	})
}

func (a *Admin) alterQuota(user string, ops []kmsg.AlterClientQuotasRequestEntryOp, validateOnly bool) *failure {
	changes := make(map[string]*float64, len(ops))
	for i := range ops {
		op := &ops[i]
		if _, twice := changes[op.Key]; twice {
			return fail(kerr.InvalidRequest, "Duplicate quota key %s", op.Key)
		}
		if problem := checkQuota(op); problem != nil {
			return problem
		}
		changes[op.Key] = &op.Value
		if op.Remove {
			changes[op.Key] = nil
		}
	}
	if !validateOnly && !a.Quotas.Override(user, changes) {
		return fail(kerr.ThrottlingQuotaExceeded, "Too many users have runtime quotas; write them into the KafkaUsers.")
	}
	return nil
}

// checkQuota is Kafka's ClientQuotaControlManager.validateQuotaKeyValue, with the
// code INVALID_CONFIG for an unknown key.
func checkQuota(op *kmsg.AlterClientQuotasRequestEntryOp) *failure {
	switch op.Key {
	case quota.ProducerByteRate, quota.ConsumerByteRate, quota.RequestPercentage:
	default:
		return fail(kerr.InvalidConfig, "Invalid configuration key %s", op.Key)
	}
	switch {
	case op.Remove:
		return nil
	case !(op.Value > 0) || math.IsInf(op.Value, 0):
		return fail(kerr.InvalidRequest, "Quota %s must be greater than 0", op.Key)
	case op.Key != quota.RequestPercentage && (op.Value >= 1<<63 || math.Abs(op.Value-math.Trunc(op.Value)) > 1e-6):
		return fail(kerr.InvalidRequest, "Configuration %s must be a Long value", op.Key)
	}
	return nil
}
