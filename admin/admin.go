package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/obs"
	"kaas/quota"
)

// Logs is what admin needs of the log store (*logstore.Store).
type Logs interface {
	Get(topic string, partition int32) *logstore.Partition
	All() []*logstore.Partition
}

// Options wires the room.
type Options struct {
	Resources meta.ResourceStore // kube.DevStore in dev mode
	Images    *meta.Images
	Config    *config.Broker
	Logs      Logs
	Logger    *slog.Logger
	// Authorizer nil allows everything.
	Authorizer auth.Authorizer
	// Quotas nil: clients do not authenticate, so nobody has quotas.
	Quotas *quota.Manager
	// Users are those in force. nil: nobody.
	Users *auth.Directory
	// ResourcesDir is where resources are files, for messages; "": they are none.
	ResourcesDir string
	// DropTopic removes a topic from the broker's registry in dev mode, where it
	// is no resource (broker.Broker.DropTopic). nil in the other modes.
	DropTopic func(ctx context.Context, name string) error
	// LogLevel is what BROKER_LOGGER shows and changes; nil: not served.
	LogLevel *slog.LevelVar
	Policies Policies
	Clock    func() time.Time // nil: time.Now
}

// Admin holds the handlers.
type Admin struct {
	Options
	pool        *Pool
	devRefusals obs.Limited
}

// New makes the handlers and their pool.
func New(o Options) *Admin {
	a := &Admin{Options: o}
	if a.Authorizer == nil {
		a.Authorizer = auth.AllowAll{}
	}
	if a.Users == nil {
		a.Users = auth.EmptyDirectory()
	}
	if a.Clock == nil {
		a.Clock = time.Now
	}
	a.pool = NewPool(int(o.Config.AdminWorkers), int(o.Config.AdminQueueSize), o.Logger)
	return a
}

// Pool is where requests of class pool run, those of other rooms too.
func (a *Admin) Pool() *Pool { return a.pool }

// Close ends the pool.
func (a *Admin) Close(ctx context.Context) error { return a.pool.Close(ctx) }

// APIs lists what this room serves.
func (a *Admin) APIs() []codec.API {
	return []codec.API{
		a.createTopicsAPI(), a.deleteTopicsAPI(), a.deleteRecordsAPI(), a.describeACLsAPI(), a.createACLsAPI(), a.deleteACLsAPI(), a.describeConfigsAPI(),
		a.alterConfigsAPI(), a.alterReplicaLogDirsAPI(), a.describeLogDirsAPI(), a.createPartitionsAPI(), a.electLeadersAPI(),
		a.incrementalAlterConfigsAPI(), a.listConfigResourcesAPI(), a.alterPartitionReassignmentsAPI(), a.listPartitionReassignmentsAPI(),
		a.describeClientQuotasAPI(), a.alterClientQuotasAPI(), a.describeUserScramCredentialsAPI(), a.alterUserScramCredentialsAPI(),
	}
}

// allowed asks the authorizer for the request's principal. A denial is told.
func (a *Admin) allowed(r *codec.Request, op auth.Operation, resource auth.ResourceType, name string) bool {
	return a.visible(r, op, resource, name) || auth.Denied(a.Authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, op, resource, name)
}

// visible is allowed for what the request does not depend on: a denial is not told.
func (a *Admin) visible(r *codec.Request, op auth.Operation, resource auth.ResourceType, name string) bool {
	return a.Authorizer.Authorize(r.Session.Principal, r.Session.RemoteHost, op, resource, name)
}

func (a *Admin) allowedCluster(r *codec.Request, op auth.Operation) bool {
	return a.allowed(r, op, auth.ResourceCluster, auth.ClusterName)
}

// failure is one error of the protocol with its message for the user.
type failure struct {
	code    *kerr.Error
	message string
}

func (f *failure) Error() string { return f.code.Message + ": " + f.message }

func fail(code *kerr.Error, format string, arguments ...any) *failure {
	return &failure{code, fmt.Sprintf(format, arguments...)}
}

// worldErrors maps errors of the rooms below to the protocol's, in one place.
// Order matters: the first that matches.
var worldErrors = []struct {
	err  error
	code *kerr.Error
}{
	{meta.ErrForbidden, kerr.ClusterAuthorizationFailed},
	{meta.ErrAlreadyExists, kerr.TopicAlreadyExists},
	{meta.ErrNotFound, kerr.UnknownTopicOrPartition},
	{meta.ErrInvalid, kerr.InvalidRequest},
	{logstore.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{logstore.ErrLogDirNotFound, kerr.LogDirNotFound},
	{logstore.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{logstore.ErrClosed, kerr.NotLeaderForPartition},
	{logstore.ErrStalled, kerr.NotLeaderForPartition},
	{logstore.ErrStorage, kerr.KafkaStorageError},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// asFailure maps an error; nil for nil. What is not in the table is the server's
// fault, and logged: the client sees its text.
func (a *Admin) asFailure(err error) *failure {
	if err == nil {
		return nil
	}
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, meta.ErrDevMode) { // the text that clients get does not say why
		a.devRefusals.Info(a.Logger, "an admin request that writes is refused because the broker runs with --dev: it keeps no resources; topics come by auto-creation")
	}
	var denied *meta.DeniedError
	if errors.As(err, &denied) {
		return &failure{kerr.PolicyViolation, denied.Message}
	}
	for _, entry := range worldErrors {
		if errors.Is(err, entry.err) {
			return &failure{entry.code, err.Error()}
		}
	}
	a.Logger.Error("an admin request failed", "error", err)
	return &failure{kerr.UnknownServerError, err.Error()}
}

// refuse answers a request that is not carried out; fill says so of all that it names.
func refuse[Q kmsg.Request, P kmsg.Response](r *codec.Request, request Q, fill func(Q, P)) {
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(P)
	fill(request, response)
	r.Respond(response)
}

// deadline bounds a wait by the request's timeout, by limits.AdminMaxWaitMs and
// by the life of the pool.
func (a *Admin) deadline(r *codec.Request, timeoutMs int32) (context.Context, context.CancelFunc) {
	wait := time.Duration(min(max(timeoutMs, 0), limits.AdminMaxWaitMs)) * time.Millisecond
	return context.WithDeadline(a.pool.ctx, r.ReceivedAt.Add(wait))
}

// await parks until the image fulfils the condition; false when the time is over
// first.
func (a *Admin) await(ctx context.Context, condition func(*meta.Image) bool) bool {
	if condition(a.Images.Load()) {
		return true
	}
	var err error
	a.pool.Park(func() { err = a.Images.Await(ctx, condition) })
	return err == nil
}
