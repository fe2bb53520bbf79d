package auth

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kaas/auth/scram"
	"kaas/internal/limits"
	"kaas/meta"
)

// Account is a user in force with its resource.
type Account struct {
	*User
	Resource string // metadata.name
	rules    *rules
	bindings int // operations of all ACLs
}

// withOverride is the account with that quota override.
func (a *Account) withOverride(override map[string]float64) *Account {
	if a.QuotaOverride == nil && override == nil {
		return a
	}
	user, account := *a.User, *a
	user.QuotaOverride, account.User = override, &user
	return &account
}

// newAccount compiles a user.
func newAccount(user *User, resource string) *Account {
	account := &Account{User: user, Resource: resource, rules: newRules(user.ACLs)}
	for i := range user.ACLs {
		account.bindings += len(user.ACLs[i].Operations)
	}
	return account
}

// set is everything that is in force at one moment. Immutable once published.
type set struct {
	accounts map[string]*Account // by principal, "User:alice"
	bindings int                 // of all accounts
	everyone *rules              // of the principal "User:*"
	// named holds a rule that allows everything for each resource pattern of any
	// ACL; nil unless somebody needs to know what no ACL is about.
	named *rules
}

// Directory knows all users: credentials, ACLs, quotas. It follows the KafkaUser
// resources on a goroutine of its own and publishes each state as a whole, by one
// atomic store; readers load it and hold no lock.
type Directory struct {
	options DirectoryOptions
	current atomic.Pointer[set]
	cancel  context.CancelFunc
	done    chan struct{}

	// state belongs to the goroutine that calls StartDirectory until the first
	// list is in, then to the directory's own.
	state map[string]*entry // by resource name
	// leaving are the uids of resources that are gone and that the next publication tells
	// of; it belongs to the same goroutine.
	leaving []string

	mu sync.Mutex
	// +checklocks:mu
	observed map[string]observation // by resource name
	// +checklocks:mu
	gone []string // uids of the last resources that went, at most limits.GoneUsersKept
	// published is closed and replaced by each publication.
	// +checklocks:mu
	published chan struct{}
}

// DirectoryOptions wire a Directory.
type DirectoryOptions struct {
	Store  meta.ResourceStore
	Logger *slog.Logger
	// IndexResources keeps what allow.everyone.if.no.acl.found asks for.
	IndexResources bool
	// Changed, when given, is called after each publication, on the directory's
	// goroutine.
	Changed func()
}

// observation is a version of a resource. Its generation counts edits of spec only, so
// the annotation that is read, too, and the version stand beside it.
type observation struct {
	uid             string
	generation      int64
	override        string // after a "=" when there is one, which may be empty
	resourceVersion string
}

func observe(m *meta.ObjectMeta) observation {
	override, there := m.Annotations[meta.QuotaOverrideAnnotation]
	if there {
		override = "=" + override
	}
	return observation{m.UID, m.Generation, override, m.ResourceVersion}
}

// shows says that what is wanted is seen, or something later: of another uid that is
// whatever is not older, as the one whose name the wanted one got is.
func (o observation) shows(wanted observation) bool {
	have, err := strconv.ParseUint(o.resourceVersion, 10, 64)
	want, wantErr := strconv.ParseUint(wanted.resourceVersion, 10, 64)
	ordered := err == nil && wantErr == nil
	switch {
	case o.uid != wanted.uid:
		return !ordered || have >= want
	case o.generation != wanted.generation:
		return o.generation > wanted.generation
	}
	return o.override == wanted.override || ordered && have >= want
}

// entry is one resource.
type entry struct {
	// object has metadata only: what its spec says is in account, and 100,000 ACLs as
	// they stand in a manifest take ten times the memory.
	object  *meta.KafkaUser
	account *Account
}

// EmptyDirectory knows nobody.
func EmptyDirectory() *Directory {
	d := &Directory{state: map[string]*entry{}, observed: map[string]observation{}, published: make(chan struct{})}
	d.current.Store(&set{})
	return d
}

// StartDirectory returns when all users that exist are in force.
func StartDirectory(ctx context.Context, o DirectoryOptions) (*Directory, error) {
	d := EmptyDirectory()
	own, cancel := context.WithCancel(context.Background())
	d.options, d.cancel, d.done = o, cancel, make(chan struct{})
	stop := context.AfterFunc(ctx, cancel) // the caller's context bounds the first list only
	events, err := d.begin(own)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	go d.run(own, events)
	return d, nil
}

// Close stops following. What is in force stays.
func (d *Directory) Close() {
	if d.cancel != nil {
		d.cancel()
		<-d.done
	}
}

// begin lists through a fresh watch. What was in force before stays until the list
// is whole.
func (d *Directory) begin(ctx context.Context) (<-chan meta.Event, error) {
	events, err := d.options.Store.Watch(ctx, meta.KindUser, "")
	if err != nil {
		return nil, err
	}
	present := map[string]bool{}
	for {
		event, ok := <-events
		if !ok {
			return nil, errors.Join(errors.New("the watch of users ended before it was complete"), ctx.Err())
		}
		if event.Type == meta.Synced {
			break
		}
		d.note(event)
		if event.Type != meta.Deleted {
			present[event.Object.Meta().Name] = true
		}
	}
	for name, e := range d.state {
		if !present[name] {
			d.leaving = append(d.leaving, e.object.Metadata.UID)
			delete(d.state, name)
		}
	}
	d.publish()
	return events, nil
}

func (d *Directory) run(ctx context.Context, events <-chan meta.Event) {
	defer close(d.done)
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				if events = d.resume(ctx); events == nil {
					return
				}
				continue
			}
			changed := d.note(event)
			for more := true; more; { // one publication for what came together
				select {
				case event, ok := <-events:
					if more = ok; ok {
						changed = d.note(event) || changed
					}
				default:
					more = false
				}
			}
			if changed {
				d.publish()
			}
		}
	}
}

func (d *Directory) resume(ctx context.Context) <-chan meta.Event {
	for ctx.Err() == nil {
		events, err := d.begin(ctx)
		if err == nil {
			return events
		}
		d.options.Logger.Warn("users can't be watched; what is in force stays, trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(limits.ReconcileRetry):
		}
	}
	return nil
}

// note takes an event into the state. A spec that is refused leaves what this
// resource had in force; after a start there is nothing but its denials. So does a
// quota override, each for itself.
func (d *Directory) note(event meta.Event) (changed bool) {
	object, ok := event.Object.(*meta.KafkaUser)
	if !ok {
		return false
	}
	name := object.Metadata.Name
	if event.Type == meta.Deleted {
		delete(d.state, name)
		d.leaving = append(d.leaving, object.Metadata.UID)
		return true
	}
	old := d.state[name]
	if old != nil && old.object.Metadata.UID != object.Metadata.UID {
		old = nil
	}
	next := &entry{object: withoutSpec(object)}
	d.state[name] = next
	if old != nil && old.object.Metadata.Generation == object.Metadata.Generation && object.Metadata.Generation != 0 {
		next.account = old.account
		if observe(&old.object.Metadata).override == observe(&object.Metadata).override {
			return false // status
		}
	} else {
		next.account = d.parse(object, old)
	}
	override, err := ParseQuotaOverride(object)
	if err != nil {
		if override = nil; old != nil && old.account.Name == next.account.Name {
			override = old.account.QuotaOverride
		}
		d.options.Logger.Warn("the quota override of a KafkaUser is refused; the one before stays in force", "resource", name, "user", next.account.Name, "error", err)
	}
	next.account = next.account.withOverride(override)
	return true
}

// parse is what of a spec is in force; old is the entry before, if there is one.
func (d *Directory) parse(object *meta.KafkaUser, old *entry) *Account {
	user, err := ParseUser(object)
	if err != nil {
		d.options.Logger.Warn("a KafkaUser is refused; what was in force stays", "resource", object.Metadata.Name, "user", user.Name, "error", err)
		if old != nil && old.account.Name == user.Name {
			return old.account
		}
	}
	return newAccount(user, object.Metadata.Name)
}

func withoutSpec(object *meta.KafkaUser) *meta.KafkaUser {
	return &meta.KafkaUser{Metadata: object.Metadata}
}

// publish makes and stores the next set.
func (d *Directory) publish() {
	next := &set{accounts: make(map[string]*Account, len(d.state))}
	winners := make(map[string]*meta.KafkaUser, len(d.state))
	observed := make(map[string]observation, len(d.state))
	for name, e := range d.state {
		observed[name] = observe(&e.object.Metadata)
		principal := UserPrefix + e.account.Name
		if other := winners[principal]; other != nil && meta.CompareAge(other, e.object) <= 0 {
			continue // the oldest has the name
		}
		winners[principal], next.accounts[principal] = e.object, e.account
	}
	for _, account := range next.accounts {
		next.bindings += account.bindings
	}
	if everyone := next.accounts[EveryonePrincipal]; everyone != nil {
		next.everyone = everyone.rules
	}
	if d.options.IndexResources {
		var all []ACL
		for _, account := range next.accounts {
			for _, acl := range account.ACLs {
				all = append(all, ACL{Resource: acl.Resource, Permission: PermissionAllow, Host: Wildcard, Operations: []Operation{OperationAll}})
			}
		}
		next.named = newRules(all)
	}
	d.current.Store(next)
	if d.options.Changed != nil {
		d.options.Changed() // before who waits for this state goes on
	}
	d.mu.Lock()
	d.observed = observed
	d.gone = append(d.gone, d.leaving...)
	d.gone = slices.Delete(d.gone, 0, max(0, len(d.gone)-limits.GoneUsersKept))
	close(d.published)
	d.published = make(chan struct{})
	d.mu.Unlock()
	d.leaving = nil
}

// Await returns when what the resource says is in force, or when the resource is
// gone, or with the error of ctx.
func (d *Directory) Await(ctx context.Context, resource *meta.KafkaUser) error {
	for {
		d.mu.Lock()
		have, ok := d.observed[resource.Metadata.Name]
		gone := slices.Contains(d.gone, resource.Metadata.UID)
		published := d.published
		d.mu.Unlock()
		if gone || ok && have.shows(observe(&resource.Metadata)) {
			return nil
		}
		select {
		case <-published:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Account returns a user by its name, or nil.
func (d *Directory) Account(user string) *Account { return d.current.Load().accounts[UserPrefix+user] }

// Credential implements scram.Directory.
func (d *Directory) Credential(user string) *scram.Credential {
	if account := d.Account(user); account != nil {
		return account.Credential
	}
	return nil
}

// Counts is how many users are in force, and how many bindings their ACLs are.
func (d *Directory) Counts() (users, bindings int) {
	current := d.current.Load()
	return len(current.accounts), current.bindings
}

// Accounts lists all users by name.
func (d *Directory) Accounts() []*Account {
	return slices.SortedFunc(maps.Values(d.current.Load().accounts), func(a, b *Account) int { return strings.Compare(a.Name, b.Name) })
}
