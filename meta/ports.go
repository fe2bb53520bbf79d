package meta

import (
	"context"
	"errors"
)

// Errors of a ResourceStore, wrapped with the resource they are about.
var (
	ErrNotFound      = errors.New("resource not found")
	ErrAlreadyExists = errors.New("resource already exists")
	// ErrConflict: the resourceVersion given is not the current one; read again.
	ErrConflict = errors.New("resource was changed by someone else")
	// ErrForbidden: the store refuses this writer. In dev mode the wrapped
	// message is ForbiddenInDevMode.
	ErrForbidden = errors.New("not allowed to write the resource")
	// ErrUnavailable: the store can't be reached or its disk fails; try again.
	ErrUnavailable = errors.New("resource store is unavailable")
	// ErrInvalid: the resource as given can't be kept.
	ErrInvalid = errors.New("resource is invalid")
	// ErrGone: Watch was asked to resume from a revision that is no longer
	// remembered; List again and watch from there.
	ErrGone = errors.New("revision is no longer available")
)

// DeniedError: a policy of the store (Kubernetes admission) does not let the change
// through. The message is the policy's own, for the client.
type DeniedError struct{ Message string }

func (e *DeniedError) Error() string { return e.Message }

// ForbiddenInDevMode is what admin writes answer when no store is wired.
const ForbiddenInDevMode = "broker is not running in cluster mode"

// ErrDevMode is the refusal of every write in dev mode: errors.Is(err,
// ErrForbidden) holds and the text is exactly ForbiddenInDevMode.
var ErrDevMode error = devModeError{}

type devModeError struct{}

func (devModeError) Error() string        { return ForbiddenInDevMode }
func (devModeError) Is(target error) bool { return target == ErrForbidden }

// ResourceStore is the port behind which resources live: YAML files in
// standalone mode, the Kubernetes API in cluster mode, nothing in dev mode.
// Safe for concurrent use. Returned objects belong to the caller.
type ResourceStore interface {
	Get(ctx context.Context, kind Kind, name string) (Object, error)
	// List returns all of a kind, sorted by name, and the revision of the
	// store that they show: Watch from there misses nothing.
	List(ctx context.Context, kind Kind) (objects []Object, revision string, err error)
	// Create stores a new object; ErrAlreadyExists when the name is taken.
	Create(ctx context.Context, object Object) (Object, error)
	// Update replaces spec, labels and annotations. A resourceVersion in the
	// object must be the current one (ErrConflict); empty overwrites. Status
	// is left alone.
	Update(ctx context.Context, object Object) (Object, error)
	// UpdateStatus replaces status and nothing else, with the same rule for
	// resourceVersion. Without a change nothing is written.
	UpdateStatus(ctx context.Context, object Object) (Object, error)
	// Patch applies a JSON merge patch (RFC 7386) to metadata and spec. A
	// metadata.resourceVersion in the patch must be the current one.
	Patch(ctx context.Context, kind Kind, name string, mergePatch []byte) (Object, error)
	// Delete removes the object. uid, when not empty, must be that of the
	// current one (ErrConflict).
	Delete(ctx context.Context, kind Kind, name string, uid string) error
	// Watch sends every change of the kind after revision, in order, until ctx
	// ends or the watcher falls too far behind; then the channel is closed and
	// the caller lists and watches anew. An empty revision sends the present
	// objects as Added first and then one Synced.
	Watch(ctx context.Context, kind Kind, revision string) (<-chan Event, error)
}

// TopicHistory is a ResourceStore that can say what a list does not show: before
// data without a resource is put away, it is asked whether the lists are complete,
// and whether the topic was deleted.
type TopicHistory interface {
	// Unreadable is how many files of resources can't be read at present: any of them
	// may hold a topic that no list shows.
	Unreadable() int
	// TopicDeleted says that the topic with this id was deleted. It knows the latest
	// deletions, over restarts, too; false says nothing.
	TopicDeleted(id UUID) bool
}

// BatchWriter is a ResourceStore for which many writes at once are cheaper than one
// after the other: files share their syncs. The results stand in the order of the
// arguments; each write succeeds or fails for itself.
type BatchWriter interface {
	CreateAll(ctx context.Context, objects []Object) []WriteResult
	UpdateStatusAll(ctx context.Context, objects []Object) []WriteResult
	DeleteAll(ctx context.Context, deletions []Deletion) []error
}

// TopicAdmitter decides the status of topics before they are stored, so that a
// creation is one write and not two: the reconciler, when it runs in the store's
// process.
type TopicAdmitter interface {
	// Admit sets the status of those topics that will be in force as they are, and
	// leaves the others for later. Their resources have names, generation and time of
	// creation already.
	Admit(ctx context.Context, topics []*KafkaTopic)
	// Withdraw says that admitted topics were not stored.
	Withdraw(topics []*KafkaTopic)
}

// AdmittingStore is a ResourceStore that asks a TopicAdmitter. What it creates may
// have a status then.
type AdmittingStore interface {
	// SetTopicAdmitter may be called while the store is in use; nil ends it.
	SetTopicAdmitter(admitter TopicAdmitter)
}

// WriteResult is what a single write would have returned.
type WriteResult struct {
	Object Object
	Err    error
}

// Deletion names one resource to delete, as in ResourceStore.Delete.
type Deletion struct {
	Kind      Kind
	Name, UID string
}

// CreateAll creates through the store's BatchWriter, or one by one.
func CreateAll(ctx context.Context, store ResourceStore, objects []Object) []WriteResult {
	if batch, ok := store.(BatchWriter); ok {
		return batch.CreateAll(ctx, objects)
	}
	return oneByOne(ctx, objects, store.Create)
}

// UpdateStatusAll updates through the store's BatchWriter, or one by one.
func UpdateStatusAll(ctx context.Context, store ResourceStore, objects []Object) []WriteResult {
	if batch, ok := store.(BatchWriter); ok {
		return batch.UpdateStatusAll(ctx, objects)
	}
	return oneByOne(ctx, objects, store.UpdateStatus)
}

// DeleteAll deletes through the store's BatchWriter, or one by one.
func DeleteAll(ctx context.Context, store ResourceStore, deletions []Deletion) []error {
	if batch, ok := store.(BatchWriter); ok {
		return batch.DeleteAll(ctx, deletions)
	}
	errs := make([]error, len(deletions))
	for i, d := range deletions {
		errs[i] = store.Delete(ctx, d.Kind, d.Name, d.UID)
	}
	return errs
}

func oneByOne(ctx context.Context, objects []Object, write func(context.Context, Object) (Object, error)) []WriteResult {
	results := make([]WriteResult, len(objects))
	for i, object := range objects {
		results[i].Object, results[i].Err = write(ctx, object)
	}
	return results
}

// EventType says what happened to an object.
type EventType uint8

// The types of an Event.
const (
	Added EventType = iota + 1
	Modified
	Deleted // Object is the last known state
	Synced  // the initial objects of a Watch from "" are all sent; Object is nil
)

// String names the type.
func (t EventType) String() string {
	switch t {
	case Added:
		return "Added"
	case Modified:
		return "Modified"
	case Deleted:
		return "Deleted"
	case Synced:
		return "Synced"
	default:
		return "Unknown"
	}
}

// Event is one change.
type Event struct {
	Type     EventType
	Object   Object
	Revision string
}

// TopicCreator makes topics for the broker's own needs: auto-creation and the
// internal topics. partitions -1 is the broker's default. It returns when the
// topic is in this broker's image, or with ctx. A topic that exists is fine.
type TopicCreator interface {
	EnsureTopic(ctx context.Context, name string, partitions int32, config map[string]string) error
}
