package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"kaas/internal/limits"
	"kaas/meta"
)

// UserOptions wires a UserReconciler.
type UserOptions struct {
	Store  meta.ResourceStore
	Logger *slog.Logger
	Clock  func() time.Time // nil: time.Now
	// Check refuses a spec; the error says what is wrong with it.
	Check func(*meta.KafkaUser) error
	// CheckOverride does the same for meta.QuotaOverrideAnnotation.
	CheckOverride func(*meta.KafkaUser) error
	// Derive makes keys of a password, as spec.authentication.scram has them, with a
	// new salt.
	Derive func(password string) (map[string]any, error)
	// Fits says whether keys are those of a password.
	Fits func(keys map[string]any, password string) bool
}

// UserReconciler gives users the keys of their password and says in status what is
// in force. It does not decide who gets in: that is read from spec.
//
// A password comes from the Secret that spec.authentication.password names, else
// from one that is generated. The keys follow an edit of the Secret; keys that were
// set otherwise (by an admin request) stay until such an edit.
//
// All state belongs to the reconciler's goroutine.
type UserReconciler struct {
	options UserOptions
	cancel  context.CancelFunc
	done    chan struct{}

	users   map[string]*meta.KafkaUser // by resource name
	byName  map[string][]string        // Kafka name → resource names that claim it
	secrets map[string]*meta.Secret
	// settled holds what was looked at last and stands in status, so that a password is
	// not tried again for a change that has nothing to do with it.
	settled map[string]settledUser
	// taken is, by the uid of a user, the password that it was given last. Status has a
	// check of it, but only once that could be written: an edit in between makes it a
	// conflict, and keys that this edit sets must not be taken for older ones.
	taken map[string]takenPassword
	// doomed are the Secrets that go with their user, by uid. They are not among secrets
	// any more, though the watch may show them still and the deletion fail at first.
	doomed map[string]*meta.Secret
	// unseen are, by resource name, the versions of users that were written here and that
	// the watch has not shown, oldest first. Nobody else's lie between them: each write
	// names the version that it follows. So all but the last are old when they are shown.
	unseen map[string][]string
	retry  map[string]bool // resource names whose write failed
}

type takenPassword struct{ secret, password string }

type settledUser struct {
	generation    int64
	secretVersion string
	message       string // of the condition Ready, should nothing else be wrong
}

// StartUsers begins to reconcile and does not wait for it: checking passwords is
// slow by design.
func StartUsers(o UserOptions) *UserReconciler {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &UserReconciler{options: o, cancel: cancel, done: make(chan struct{}), taken: map[string]takenPassword{}, doomed: map[string]*meta.Secret{}}
	go r.run(ctx)
	return r
}

// Close stops the reconciler and waits for it.
func (r *UserReconciler) Close() {
	r.cancel()
	<-r.done
}

func (r *UserReconciler) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		if err := r.follow(ctx); err != nil && ctx.Err() == nil {
			r.options.Logger.Warn("users can't be watched; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(limits.ReconcileRetry):
			}
		}
	}
}

// follow reconciles all users and then each change, until a watch ends.
func (r *UserReconciler) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.users, r.byName, r.secrets = map[string]*meta.KafkaUser{}, map[string][]string{}, map[string]*meta.Secret{}
	r.settled, r.retry, r.unseen = map[string]settledUser{}, map[string]bool{}, map[string][]string{}
	var watches [2]<-chan meta.Event
	for i, kind := range []meta.Kind{meta.KindSecret, meta.KindUser} {
		events, err := r.options.Store.Watch(ctx, kind, "")
		if err != nil {
			return err
		}
		if err := r.list(ctx, kind, events); err != nil {
			return err
		}
		watches[i] = events
	}
	for _, name := range slices.Sorted(maps.Keys(r.users)) {
		r.reconcile(ctx, name)
	}
	r.sweepOrphans(ctx)
	var again <-chan time.Time // not begun anew by events: others' must not put it off for ever
	for ctx.Err() == nil {
		if again == nil && len(r.retry)+len(r.doomed) > 0 {
			again = time.After(limits.ReconcileRetry)
		}
		var event meta.Event
		ok := true
		select {
		case <-ctx.Done():
		case event, ok = <-watches[0]:
		case event, ok = <-watches[1]:
		case <-again:
			again = nil
			r.tryAgain(ctx)
		}
		if !ok {
			return errors.Join(errors.New("the watch ended"), ctx.Err())
		}
		for _, name := range r.note(event) {
			r.reconcile(ctx, name)
		}
		r.sweep(ctx, event)
	}
	return ctx.Err()
}

// list notes what a watch shows first, and forgets what is remembered of others.
func (r *UserReconciler) list(ctx context.Context, kind meta.Kind, events <-chan meta.Event) error {
	uids := make(map[string]bool)
	for event := range events {
		if event.Type == meta.Synced {
			if kind == meta.KindSecret {
				maps.DeleteFunc(r.doomed, func(uid string, _ *meta.Secret) bool { return !uids[uid] })
			} else {
				maps.DeleteFunc(r.taken, func(uid string, _ takenPassword) bool { return !uids[uid] })
			}
			return nil
		}
		r.note(event)
		uids[event.Object.Meta().UID] = true
	}
	return errors.Join(errors.New("the watch ended before it was complete"), ctx.Err())
}

// tryAgain does what the store refused.
func (r *UserReconciler) tryAgain(ctx context.Context) {
	names := slices.Sorted(maps.Keys(r.retry))
	r.retry = map[string]bool{} // refilled by what fails again
	for _, secret := range r.doomed {
		r.deleteDoomed(ctx, secret)
	}
	for _, name := range names {
		r.reconcile(ctx, name)
	}
}

// note takes an event in and returns the users that it touches.
func (r *UserReconciler) note(event meta.Event) []string {
	switch object := event.Object.(type) {
	case *meta.Secret:
		name, uid := object.Metadata.Name, object.Metadata.UID
		switch {
		case event.Type == meta.Deleted:
			delete(r.doomed, uid)
			if now := r.secrets[name]; now != nil && now.Metadata.UID == uid {
				delete(r.secrets, name)
			}
		case r.doomed[uid] == nil:
			r.secrets[name] = object
		case object.Metadata.Annotations[meta.UserAnnotation] == "": // somebody's own now
			delete(r.doomed, uid)
			r.secrets[name] = object
		}
		var touched []string
		for resource, user := range r.users {
			if secret, _, _ := secretOf(user); secret == name {
				touched = append(touched, resource)
			}
		}
		return touched
	case *meta.KafkaUser:
		name := object.Metadata.Name
		if event.Type == meta.Modified && r.passed(object) {
			return nil
		}
		var touched []string
		if old := r.users[name]; old != nil {
			touched = append(touched, dropFrom(r.byName, old.KafkaName(), name)...) // one that waits for the name
		}
		if event.Type == meta.Deleted {
			delete(r.users, name)
			delete(r.settled, name)
			delete(r.unseen, name)
			delete(r.taken, object.Metadata.UID)
		} else {
			r.users[name] = object
			r.byName[object.KafkaName()] = append(r.byName[object.KafkaName()], name)
			touched = append(touched, r.byName[object.KafkaName()]...)
		}
		slices.Sort(touched)
		return slices.Compact(touched)
	}
	return nil
}

// sweep deletes the Secret that was generated for a user that was deleted.
func (r *UserReconciler) sweep(ctx context.Context, event meta.Event) {
	user, ok := event.Object.(*meta.KafkaUser)
	if !ok || event.Type != meta.Deleted || r.users[user.Metadata.Name] != nil {
		return
	}
	for _, secret := range r.secrets {
		if secret.Metadata.Annotations[meta.UserAnnotation] == user.Metadata.Name {
			r.deleteSecret(ctx, secret)
		}
	}
}

// sweepOrphans does the same for users that were deleted while nobody watched: who gets
// the name next must not get the password, too. Not while a file can't be read, since
// that may hold the user.
func (r *UserReconciler) sweepOrphans(ctx context.Context) {
	if history, ok := r.options.Store.(meta.TopicHistory); ok && history.Unreadable() > 0 {
		return
	}
	for name, secret := range r.secrets {
		user := secret.Metadata.Annotations[meta.UserAnnotation]
		if user == "" || r.users[user] != nil {
			continue
		}
		r.options.Logger.Warn("the Secret of a user that was removed meanwhile is deleted", "secret", name, "user", user)
		r.deleteSecret(ctx, secret)
	}
}

// deleteSecret forgets a Secret at once, so that who has the user's name next does not
// get its password, whenever the store deletes it.
func (r *UserReconciler) deleteSecret(ctx context.Context, secret *meta.Secret) {
	delete(r.secrets, secret.Metadata.Name)
	r.doomed[secret.Metadata.UID] = secret
	r.deleteDoomed(ctx, secret)
}

func (r *UserReconciler) deleteDoomed(ctx context.Context, secret *meta.Secret) {
	err := r.options.Store.Delete(ctx, meta.KindSecret, secret.Metadata.Name, secret.Metadata.UID)
	switch {
	case err == nil, errors.Is(err, meta.ErrNotFound), errors.Is(err, meta.ErrConflict):
		// Gone, or another one has the name: the watch shows it.
	case ctx.Err() == nil:
		r.options.Logger.Warn("the Secret of a deleted user can't be deleted; trying again", "secret", secret.Metadata.Name, "error", err)
	}
}

// secretOf is the Secret and the key in it that a user's password is in; explicit:
// the spec names them.
func secretOf(user *meta.KafkaUser) (name, key string, explicit bool) {
	password, _ := user.Spec.Authentication["password"].(map[string]any)
	from, _ := password["valueFrom"].(map[string]any)
	reference, _ := from["secretKeyRef"].(map[string]any)
	name, _ = reference["name"].(string)
	key, _ = reference["key"].(string)
	if key == "" {
		key = "password"
	}
	if name == "" {
		return user.Metadata.Name, key, false
	}
	return name, key, true
}

func (r *UserReconciler) reconcile(ctx context.Context, resource string) {
	user := r.users[resource]
	if user == nil {
		return
	}
	status := meta.KafkaUserStatus{Secret: user.Status.Secret, PasswordCheck: user.Status.PasswordCheck}
	for _, claim := range r.byName[user.KafkaName()] {
		if other := r.users[claim]; meta.CompareAge(other, user) < 0 {
			status.Conditions = ready("False", "UserNameConflict",
				fmt.Sprintf("user %s belongs to the older KafkaUser %s; give this one another spec.userName or remove it", user.KafkaName(), other.Metadata.Name))
			r.write(ctx, user, status)
			return
		}
	}
	if err := r.options.Check(user); err != nil {
		status.Conditions = ready("False", "InvalidSpec", err.Error())
		r.write(ctx, user, status)
		return
	}
	status.Conditions = ready("True", "Reconciled", "")
	switch kind, _ := user.Spec.Authentication["type"].(string); kind {
	case "scram-sha-512":
		var err error
		if user, err = r.reconcilePassword(ctx, user, &status); err != nil {
			var because *refusal
			if !errors.As(err, &because) {
				r.failed(ctx, resource, err)
				return
			}
			status.Conditions = ready("False", because.reason, because.message)
		}
	case "tls", "tls-external":
		status.Conditions = ready("True", "Reconciled", "logins by TLS are not built yet; its ACLs and quotas are in force")
	}
	if err := r.options.CheckOverride(user); err != nil && status.Conditions[0].Status == "True" {
		status.Conditions = ready("False", "InvalidQuotaOverride", err.Error())
	}
	r.write(ctx, user, status)
}

// failed: what the store refused for the moment is tried again. So is what was not found:
// most likely its deletion is on its way through the watch, but a file that was put back
// in time was never gone.
func (r *UserReconciler) failed(ctx context.Context, resource string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.retry[resource] = true
	delete(r.settled, resource)
	if !errors.Is(err, meta.ErrConflict) && !errors.Is(err, meta.ErrNotFound) {
		r.options.Logger.Warn("a user can't be reconciled; trying again", "resource", resource, "error", err)
	}
}

// reconcilePassword gives the user the keys of its password. It returns the user as
// it is stored then.
func (r *UserReconciler) reconcilePassword(ctx context.Context, user *meta.KafkaUser, status *meta.KafkaUserStatus) (*meta.KafkaUser, error) {
	name, key, explicit := secretOf(user)
	secret := r.secrets[name]
	keys, hasKeys := user.Spec.Authentication["scram"].(map[string]any)
	switch {
	case secret != nil:
	case explicit:
		return user, &refusal{"SecretNotFound", fmt.Sprintf("there is no Secret %s, which spec.authentication.password names", name)}
	case hasKeys:
		return user, nil // set by an admin request, or by hand
	default:
		var err error
		if secret, err = r.generate(ctx, user); err != nil {
			return user, err
		}
	}
	now := settledUser{generation: user.Metadata.Generation, secretVersion: secret.Metadata.ResourceVersion}
	before := r.settled[user.Metadata.Name]
	if hasKeys && status.PasswordCheck != nil && before.generation == now.generation && before.secretVersion == now.secretVersion {
		status.Conditions = ready("True", "Reconciled", before.message)
		return user, nil
	}
	password, ok := secret.Value(key)
	if !ok || password == "" {
		return user, &refusal{"InvalidSecret", fmt.Sprintf("Secret %s has no value under %s", name, key)}
	}
	taken := takenPassword{name, password}
	checked := status.PasswordCheck != nil && status.Secret == name && r.options.Fits(status.PasswordCheck, password)
	unedited := checked || r.taken[user.Metadata.UID] == taken
	generated := secret.Metadata.Annotations[meta.UserAnnotation] == user.Metadata.Name
	fits := hasKeys && r.options.Fits(keys, password)
	keep := fits || hasKeys && (unedited || status.PasswordCheck == nil && generated)
	if keep && !fits {
		now.message = fmt.Sprintf("the password was set by an admin request; Secret %s still holds another one, which does not log in", name)
		status.Conditions = ready("True", "Reconciled", now.message)
	}
	if !keep {
		derived, err := r.options.Derive(password)
		if err != nil {
			return user, &refusal{"InvalidSecret", err.Error()}
		}
		changed := user.Clone().(*meta.KafkaUser)
		changed.Spec.Authentication["scram"] = derived
		stored, err := r.options.Store.Update(ctx, changed)
		if err != nil {
			return user, err
		}
		user = r.written(user, stored)
		now.generation = user.Metadata.Generation
	}
	r.taken[user.Metadata.UID] = taken
	if !checked {
		check, err := r.options.Derive(password)
		if err != nil {
			return user, &refusal{"InvalidSecret", err.Error()}
		}
		status.Secret, status.PasswordCheck = name, check
	}
	r.settled[user.Metadata.Name] = now
	return user, nil
}

// generate makes a Secret with a new password. One that exists is never touched.
func (r *UserReconciler) generate(ctx context.Context, user *meta.KafkaUser) (*meta.Secret, error) {
	password := rand.Text() + rand.Text()
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	secret := &meta.Secret{APIVersion: meta.SecretAPIVersion, Kind: meta.KindSecret, Type: "Opaque", StringData: map[string]any{
		"password":         password,
		"sasl.jaas.config": fmt.Sprintf(`org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s";`, quote(user.KafkaName()), password),
	}}
	secret.Metadata = meta.ObjectMeta{Name: user.Metadata.Name, Namespace: user.Metadata.Namespace, Annotations: map[string]string{meta.UserAnnotation: user.Metadata.Name}}
	stored, err := r.options.Store.Create(ctx, secret)
	if err != nil {
		return nil, err
	}
	r.note(meta.Event{Type: meta.Added, Object: stored})
	r.options.Logger.Info("a password was generated for a user", "resource", user.Metadata.Name, "secret", secret.Metadata.Name)
	return stored.(*meta.Secret), nil
}

// write stores a status that changed.
func (r *UserReconciler) write(ctx context.Context, user *meta.KafkaUser, status meta.KafkaUserStatus) {
	status.Conditions = stampConditions(r.options.Clock(), user.Metadata.Generation, user.Status.Conditions, status.Conditions)
	status.ObservedGeneration = user.Metadata.Generation
	if status.Secret == user.Status.Secret && status.ObservedGeneration == user.Status.ObservedGeneration &&
		reflect.DeepEqual(status.PasswordCheck, user.Status.PasswordCheck) && slices.EqualFunc(status.Conditions, user.Status.Conditions, sameCondition) {
		return
	}
	next := user.Clone().(*meta.KafkaUser)
	next.Status = status
	stored, err := r.options.Store.UpdateStatus(ctx, next)
	if err != nil {
		r.failed(ctx, user.Metadata.Name, err)
		return
	}
	r.written(user, stored)
}

// written takes in a user as it was written here.
func (r *UserReconciler) written(before *meta.KafkaUser, stored meta.Object) *meta.KafkaUser {
	if version := stored.Meta().ResourceVersion; version != before.Metadata.ResourceVersion {
		name := before.Metadata.Name
		r.note(meta.Event{Type: meta.Modified, Object: stored})
		r.unseen[name] = append(r.unseen[name], version)
	}
	return stored.(*meta.KafkaUser)
}

// passed says that the watch shows a version which was written here and which another
// one followed. What it shows, it has shown.
func (r *UserReconciler) passed(user *meta.KafkaUser) bool {
	name := user.Metadata.Name
	at := slices.Index(r.unseen[name], user.Metadata.ResourceVersion)
	if at < 0 {
		return false
	}
	if r.unseen[name] = r.unseen[name][at+1:]; len(r.unseen[name]) > 0 {
		return true
	}
	delete(r.unseen, name)
	return false
}
