package admin

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
	"kaas/quota"
)

// AlterClientQuotas, key 49, v0 to v1.
//
// The changes of an entry are merged onto what is in force for its user and become an
// override of spec.quotas, which stands in the KafkaUser as an annotation
// (meta.QuotaOverrideAnnotation): one patch for each user, and the answer comes when it
// is in force. An override that loses its last key ends, and spec.quotas counts again.
// Quotas of a user without a KafkaUser are this process's and end with it. Without
// authentication: 35.
//
//	v1     flexible
func (a *Admin) alterClientQuotasAPI() codec.API {
	return codec.API{
		Key: 49, Name: "AlterClientQuotas", MinVersion: 0, MaxVersion: 1, Class: codec.Pool,
		Handle: a.alterClientQuotas, Refuse: refuseAlterClientQuotas,
		Note: "of one user; stands in its KafkaUser, over spec.quotas",
	}
}

func refuseAlterClientQuotas(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrAlterClientQuotasRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	respondAlterQuotas(r, request, throttleMs, func(int) *failure {
		return &failure{code: kerr.TypedErrorForCode(errorCode)}
	})
}

func respondAlterQuotas(r *codec.Request, request *kmsg.AlterClientQuotasRequest, throttleMs int32, problemOf func(entry int) *failure) {
	response := request.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	response.ThrottleMillis = throttleMs
	for i := range request.Entries {
		entry := kmsg.NewAlterClientQuotasResponseEntry()
		for _, of := range request.Entries[i].Entity {
			entity := kmsg.NewAlterClientQuotasResponseEntryEntity()
			entity.Type, entity.Name = of.Type, of.Name
			entry.Entity = append(entry.Entity, entity)
		}
		if problem := problemOf(i); problem != nil {
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
	problems := make([]*failure, len(request.Entries))
	var changed []*meta.KafkaUser
	for i := range request.Entries {
		entry := &request.Entries[i]
		switch {
		case !allowed:
			problems[i] = fail(kerr.ClusterAuthorizationFailed, clusterDenied)
		case a.Quotas == nil:
			problems[i] = fail(kerr.UnsupportedVersion, "Quotas are those of users, and no listener of this broker authenticates any.")
		case len(entry.Entity) != 1 || entry.Entity[0].Type != quotaEntityUser || entry.Entity[0].Name == nil || *entry.Entity[0].Name == "":
			problems[i] = fail(kerr.InvalidRequest, "Only one user, by its name, can have quotas, and they stand in its KafkaUser; %s can't yet.", entityText(entry.Entity))
		case times[*entry.Entity[0].Name] > 1:
			problems[i] = fail(kerr.InvalidRequest, "User %s occurs more than once in the request.", *entry.Entity[0].Name)
		default:
			var stored *meta.KafkaUser
			if stored, problems[i] = a.alterQuotas(*entry.Entity[0].Name, entry.Ops, request.ValidateOnly); stored != nil {
				changed = append(changed, stored)
			}
		}
	}
	a.awaitUsers(changed)
	respondAlterQuotas(r, request, 0, func(entry int) *failure { return problems[entry] })
}

// entityText names who was to have a quota.
func entityText(entity []kmsg.AlterClientQuotasRequestEntryEntity) string {
	var parts []string
	for _, of := range entity {
		switch {
		case of.Name == nil:
			parts = append(parts, "the default "+of.Type)
		case *of.Name == "":
			parts = append(parts, "the "+of.Type+" without a name")
		default:
			parts = append(parts, of.Type+" "+*of.Name)
		}
	}
	if len(parts) == 0 {
		return "an entity without a type"
	}
	return strings.Join(parts, " with ")
}

// alterQuotas changes the override of a user, all or nothing. It returns the resource
// that was written, if there is one.
func (a *Admin) alterQuotas(user string, ops []kmsg.AlterClientQuotasRequestEntryOp, validateOnly bool) (*meta.KafkaUser, *failure) {
	changes := make(map[string]*float64, len(ops))
	for i := range ops {
		op := &ops[i]
		if _, twice := changes[op.Key]; twice {
			return nil, fail(kerr.InvalidRequest, "Duplicate quota key %s", op.Key)
		}
		if problem := checkQuota(op); problem != nil {
			return nil, problem
		}
		changes[op.Key] = &op.Value
		if op.Remove {
			changes[op.Key] = nil
		}
	}
	if validateOnly || len(changes) == 0 {
		return nil, nil
	}
	stored, err := a.rewriteUser(user, func(ctx context.Context, resource *meta.KafkaUser) (meta.Object, error) {
		patch, err := a.quotaPatch(resource, changes)
		if err != nil {
			return nil, err
		}
		return a.Resources.Patch(ctx, meta.KindUser, resource.Metadata.Name, patch)
	})
	if errors.Is(err, meta.ErrNotFound) {
		return nil, a.alterQuotasInMemory(user, changes)
	}
	return stored, a.userFailure(user, err, kerr.UnknownServerError)
}

// quotaPatch is a JSON merge patch that merges changes onto the quotas which a resource
// puts into force. What can't be read there is replaced by what is in force.
func (a *Admin) quotaPatch(resource *meta.KafkaUser, changes map[string]*float64) ([]byte, error) {
	base, override, err := auth.ParseQuotas(resource)
	switch {
	case err != nil:
		base = a.Quotas.Effective(resource.KafkaName())
	case override != nil:
		base = override
	}
	var annotation any // null: the override ends
	if next := quota.Merge(base, changes); len(next) > 0 {
		annotation = auth.FormatQuotaOverride(next)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": resource.Metadata.ResourceVersion,
		"annotations":     map[string]any{meta.QuotaOverrideAnnotation: annotation},
	}})
}

// alterQuotasInMemory: there is no resource to keep the quotas of a user in.
func (a *Admin) alterQuotasInMemory(user string, changes map[string]*float64) *failure {
	err := a.Quotas.Override(user, changes)
	switch {
	case errors.Is(err, quota.ErrTooManyOverrides):
		return fail(kerr.ThrottlingQuotaExceeded, "Too many users without a KafkaUser have quotas; create KafkaUsers.")
	case err != nil:
		return fail(kerr.UnknownServerError, "The KafkaUser of %s is just being created, renamed or removed; try again.", user)
	}
	if len(a.Quotas.Effective(user)) > 0 {
		a.Logger.Warn("quotas of a user without a KafkaUser were set: they are in force, and lost when this process ends. To keep them, create a KafkaUser of that name (with spec.userName when the name is no resource name) and set them again, or write them into its spec.quotas", "user", user)
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
