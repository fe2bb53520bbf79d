package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/auth"
	"kaas/internal/limits"
	"kaas/meta"
)

// findUser reads the resource of a Kafka user name: the one that is in force, else
// the one that an admin request would have made.
func (a *Admin) findUser(ctx context.Context, user string) (*meta.KafkaUser, error) {
	resource := meta.UserResourceName(user)
	if account := a.Users.Account(user); account != nil {
		resource = account.Resource
	}
	object, err := a.Resources.Get(ctx, meta.KindUser, resource)
	if err != nil {
		return nil, err
	}
	found, ok := object.(*meta.KafkaUser)
	if !ok || found.KafkaName() != user {
		return nil, fmt.Errorf("KafkaUser of %s: %w", user, meta.ErrNotFound)
	}
	return found, nil
}

// changeUser changes a user's resource by one update with the resourceVersion that
// was read, see rewriteUser.
func (a *Admin) changeUser(user string, change func(*meta.KafkaUser) (changed bool, err error)) (*meta.KafkaUser, error) {
	return a.rewriteUser(user, func(ctx context.Context, resource *meta.KafkaUser) (meta.Object, error) {
		changed, err := change(resource)
		if err != nil || !changed {
			return resource, err
		}
		return a.Resources.Update(ctx, resource)
	})
}

// rewriteUser reads a user's resource and writes it, and does it again when somebody
// else was faster. It returns what is stored then.
func (a *Admin) rewriteUser(user string, write func(context.Context, *meta.KafkaUser) (meta.Object, error)) (*meta.KafkaUser, error) {
	ctx := a.pool.ctx
	for attempt := 1; ; attempt++ {
		resource, err := a.findUser(ctx, user)
		if err != nil {
			return nil, err
		}
		stored, err := asResource[*meta.KafkaUser](write(ctx, resource))
		if !errors.Is(err, meta.ErrConflict) || attempt == limits.AdminConflictRetries {
			return stored, err
		}
	}
}

// awaitUsers waits until the users are in force, at most a moment: a change that
// is stored is accepted, however slow the rest is.
func (a *Admin) awaitUsers(changed []*meta.KafkaUser) {
	if len(changed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(a.pool.ctx, limits.AdminConfigWaitMs*time.Millisecond)
	defer cancel()
	a.pool.Park(func() {
		for _, user := range changed {
			if err := a.Users.Await(ctx, user); err != nil {
				a.Logger.Warn("a change of a user is stored and not in force yet", "resource", user.Metadata.Name, "error", err)
				return
			}
		}
	})
}

// withoutResource says what to write for a user that admin requests can't make.
func (a *Admin) withoutResource(user string) string {
	where := ""
	if a.ResourcesDir != "" {
		where = ", for example as a file below " + a.ResourcesDir
	}
	resource, spec := meta.UserResourceName(user), "{}"
	if resource != user {
		spec = fmt.Sprintf("{userName: %q}", user)
	}
	return fmt.Sprintf("no KafkaUser for principal %s%s: admin requests change users and do not make them. Create that resource first%s: "+
		"{apiVersion: %s, kind: %s, metadata: {name: %s}, spec: %s}", auth.UserPrefix, user, where, meta.APIVersion, meta.KindUser, resource, spec)
}

// userFailure maps errors about a user's resource; notFound is the code of a user
// that does not exist.
func (a *Admin) userFailure(user string, err error, notFound *kerr.Error) *failure {
	var known *failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, meta.ErrNotFound):
		return fail(notFound, "%s", a.withoutResource(user))
	case errors.Is(err, meta.ErrConflict):
		return fail(kerr.UnknownServerError, "the KafkaUser of %s is changed by others all the time: %s", user, err)
	}
	return a.asFailure(err)
}
