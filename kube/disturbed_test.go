package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/kube"
	"kaas/kube/filestore"
	"kaas/meta"
)

const resourcesDir = "/resources"

// disturbedStore is the store as a reconciler sees it. The write number at meets what
// disturb does in its place, all others are done.
type disturbedStore struct {
	meta.ResourceStore
	disturb func(write storeWrite) (meta.Object, error)

	mu     sync.Mutex
	at     int
	writes []string
	ids    map[string]meta.UUID // of topics, by uid
	turned []string             // topics whose id is another one than it was
}

// storeWrite is one write: what it touches, and how it is done.
type storeWrite struct {
	what string
	kind meta.Kind
	name string
	do   func() (meta.Object, error)
}

func (s *disturbedStore) write(what string, kind meta.Kind, name string, do func() (meta.Object, error)) (meta.Object, error) {
	s.mu.Lock()
	s.writes = append(s.writes, fmt.Sprintf("%s of %s %s", what, kind, name))
	disturbed := len(s.writes) == s.at
	s.mu.Unlock()
	if disturbed {
		return s.disturb(storeWrite{what, kind, name, do})
	}
	return do()
}

func (s *disturbedStore) Create(ctx context.Context, object meta.Object) (meta.Object, error) {
	return s.write("creation", object.ResourceKind(), object.Meta().Name, func() (meta.Object, error) { return s.ResourceStore.Create(ctx, object) })
}

func (s *disturbedStore) Update(ctx context.Context, object meta.Object) (meta.Object, error) {
	return s.write("update", object.ResourceKind(), object.Meta().Name, func() (meta.Object, error) { return s.ResourceStore.Update(ctx, object) })
}

func (s *disturbedStore) UpdateStatus(ctx context.Context, object meta.Object) (meta.Object, error) {
	return s.write("status", object.ResourceKind(), object.Meta().Name, func() (meta.Object, error) {
		stored, err := s.ResourceStore.UpdateStatus(ctx, object)
		if topic, ok := stored.(*meta.KafkaTopic); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			if id, known := s.ids[topic.Metadata.UID]; known && !id.IsZero() && id != topic.Status.TopicID {
				s.turned = append(s.turned, topic.Metadata.Name)
			}
			s.ids[topic.Metadata.UID] = topic.Status.TopicID
		}
		return stored, err
	})
}

func (s *disturbedStore) Delete(ctx context.Context, kind meta.Kind, name, uid string) error {
	_, err := s.write("deletion", kind, name, func() (meta.Object, error) { return nil, s.ResourceStore.Delete(ctx, kind, name, uid) })
	return err
}

// disturbances are what can become of one write. edit changes the resource in a way that
// nothing in the end state shows; next does what its user would have done afterwards.
var disturbances = map[string]func(w storeWrite, edit, next func()) (meta.Object, error){
	"an edit comes first": func(w storeWrite, edit, _ func()) (meta.Object, error) {
		edit()
		return w.do()
	},
	"the next step comes first": func(w storeWrite, _, next func()) (meta.Object, error) {
		next()
		return w.do()
	},
	"the next step and an edit come first": func(w storeWrite, edit, next func()) (meta.Object, error) {
		next()
		edit()
		return w.do()
	},
	"a conflict that no event follows": func(storeWrite, func(), func()) (meta.Object, error) { return nil, meta.ErrConflict },
	"missing for a moment":             func(storeWrite, func(), func()) (meta.Object, error) { return nil, meta.ErrNotFound },
	"refused":                          func(storeWrite, func(), func()) (meta.Object, error) { return nil, meta.ErrUnavailable },
	"done, and the answer is lost": func(w storeWrite, _, _ func()) (meta.Object, error) {
		if _, err := w.do(); err != nil {
			return nil, err
		}
		return nil, meta.ErrUnavailable
	},
}

// disturbedScript is what users do to resources, and what must come of it.
type disturbedScript struct {
	name  string
	start func(t *testing.T, store meta.ResourceStore) (state func() string, stop func())
	steps []func(s scriptStore)
	want  string
	// hasty is what may come of it, too, when the step after that write came before it.
	hasty map[string]string
}

// scriptStore is how the users of a script write.
type scriptStore struct {
	t    *testing.T
	disk vfs.FS
	*filestore.Store
}

func (s scriptStore) create(object meta.Object) {
	if _, err := s.Create(context.Background(), object); err != nil {
		s.t.Error(err)
	}
}

func (s scriptStore) patch(kind meta.Kind, name, patch string) {
	if _, err := s.Patch(context.Background(), kind, name, []byte(patch)); err != nil {
		s.t.Error(err)
	}
}

// file writes a file by hand.
func (s scriptStore) file(name, text string) {
	if err := vfs.WriteFileAtomic(s.disk, resourcesDir+"/"+name, resourcesDir, []byte(text)); err != nil {
		s.t.Error(err)
	}
	look(s.Store, time.Minute)
}

func (s scriptStore) delete(kind meta.Kind, name string) {
	if err := s.Delete(context.Background(), kind, name, ""); err != nil {
		s.t.Error(err)
	}
}

// run plays the script in a bubble of its own, where waiting takes no time, and
// returns what came of it and the writes of the reconciler.
func (script *disturbedScript) run(t *testing.T, at int, disturbance string) (state string, writes []string) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		files, err := filestore.Open(filestore.Options{Dir: resourcesDir, FS: disk, Logger: slog.New(slog.DiscardHandler), NoNotify: true, RescanInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(files.Close(), disk.Close()); err != nil {
				t.Error(err)
			}
		})
		users, done := scriptStore{t, disk, files}, 0
		store := &disturbedStore{ResourceStore: files, at: at, ids: map[string]meta.UUID{}}
		store.disturb = func(w storeWrite) (meta.Object, error) {
			return disturbances[disturbance](w, func() {
				if object, err := files.Get(context.Background(), w.kind, w.name); err == nil {
					users.patch(object.ResourceKind(), w.name, `{"metadata":{"annotations":{"edited":"yes"}}}`)
				}
			}, func() {
				if done < len(script.steps) {
					done++
					script.steps[done-1](users)
				}
			})
		}
		load, stop := script.start(t, store)
		for done < len(script.steps) {
			done++
			script.steps[done-1](users)
			<-time.After(5 * limits.ReconcileRetry) // a bubble's time: it passes when everything is at rest
			synctest.Wait()
		}
		state = load()
		stop()
		writes = store.writes
		if len(store.turned) > 0 {
			t.Errorf("topics got another id: %v", store.turned)
		}
	})
	return state, writes
}

// Whatever becomes of one write of a reconciler, once, and whatever is edited meanwhile:
// what comes of a script is the same.
func TestDisturbedWrites(t *testing.T) {
	t.Parallel()
	for _, script := range disturbedScripts() {
		t.Run(script.name, func(t *testing.T) {
			t.Parallel()
			state, writes := script.run(t, 0, "")
			if state != script.want {
				t.Fatalf("without a disturbance\n%s\nwant\n%s", state, script.want)
			}
			for at, write := range writes {
				for disturbance := range disturbances {
					state, _ := script.run(t, at+1, disturbance)
					if state == script.want || strings.HasPrefix(disturbance, "the next step") && state == script.hasty[write] {
						continue
					}
					t.Errorf("write %d, %s, %s:\n%s\nwant\n%s", at+1, write, disturbance, state, script.want)
				}
			}
		})
	}
}

// describe says what users see of resources, sorted by kind and name.
func describe(t *testing.T, s meta.ResourceStore, kinds ...meta.Kind) string {
	t.Helper()
	var lines []string
	for _, kind := range kinds {
		objects, _, err := s.List(context.Background(), kind)
		if err != nil {
			t.Error(err)
		}
		for _, object := range objects {
			line := string(kind) + " " + object.Meta().Name + ":"
			if c := meta.FindCondition(conditionsOf(object), meta.ConditionReady); c != nil {
				line += " " + c.Reason
				if c.ObservedGeneration != object.Meta().Generation {
					line += " of an older edit"
				}
			}
			switch o := object.(type) {
			case *meta.KafkaTopic:
				line += fmt.Sprint(" ", o.Status.TopicName, " ", o.Status.PartitionCount, " ", o.Status.Config, " id ", !o.Status.TopicID.IsZero())
			case *meta.KafkaConfig:
				line += fmt.Sprint(" ", o.Status.Config)
			case *meta.KafkaBrokerConfig:
				line += fmt.Sprint(" ", o.Status.Config)
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func disturbedScripts() []*disturbedScript {
	return []*disturbedScript{disturbedTopics(), disturbedUsers(), disturbedGeneratedPassword(), disturbedGroupConfig(), disturbedBrokerConfig()}
}

func topicOf(resource, name string, partitions int32) *meta.KafkaTopic {
	topic := meta.NewKafkaTopic(name)
	topic.Metadata.Name, topic.Spec.Partitions = resource, &partitions
	if resource != name {
		topic.Spec.TopicName = name
	}
	return topic
}

// Two claim one name, two collide, one is too large; the older of each goes.
func disturbedTopics() *disturbedScript {
	return &disturbedScript{
		name: "topics",
		start: func(t *testing.T, store meta.ResourceStore) (func() string, func()) {
			r := startReconciler(t, store, func(o *kube.ReconcilerOptions) { o.Logger = slog.New(slog.DiscardHandler) })
			return func() string { return describe(t, store, meta.KindTopic) }, r.Close
		},
		steps: []func(scriptStore){
			func(s scriptStore) { s.create(topicOf("orders", "orders", 2)) },
			func(s scriptStore) { s.create(topicOf("second", "orders", 9)) },
			func(s scriptStore) { s.create(topicOf("a.b", "a.b", 900)) },
			func(s scriptStore) { s.create(topicOf("under", "a_b", 1)) },
			func(s scriptStore) { s.create(topicOf("large", "large", 200)) },
			func(s scriptStore) { s.patch(meta.KindTopic, "orders", `{"spec":{"config":{"bad.key":1}}}`) },
			func(s scriptStore) {
				s.patch(meta.KindTopic, "orders", `{"spec":{"partitions":5,"config":{"bad.key":null,"retention.ms":7}}}`)
			},
			func(s scriptStore) { s.patch(meta.KindTopic, "second", `{"spec":{"partitions":8}}`) },
			func(s scriptStore) { s.delete(meta.KindTopic, "a.b") },
			func(s scriptStore) { s.delete(meta.KindTopic, "orders") },
		},
		want: "KafkaTopic large: Reconciled large 200 map[] id true\n" +
			"KafkaTopic second: Reconciled orders 8 map[] id true\n" +
			"KafkaTopic under: Reconciled a_b 1 map[] id true",
	}
}

// keysAre are the rules for keys of passwords in tests: "<password>/<n>", n counts up.
func keysAre(o *kube.UserOptions) {
	derived := 0
	o.Derive = func(password string) (map[string]any, error) {
		derived++
		return map[string]any{"keys": fmt.Sprintf("%s/%d", password, derived)}, nil
	}
	o.Fits = func(keys map[string]any, password string) bool {
		text, _ := keys["keys"].(string)
		have, _, _ := strings.Cut(text, "/")
		return have == password
	}
}

func startDisturbedUsers(store meta.ResourceStore) *kube.UserReconciler {
	o := kube.UserOptions{Store: store, Logger: slog.New(slog.DiscardHandler),
		Check: func(user *meta.KafkaUser) error {
			if user.Spec.Quotas["bad"] != nil {
				return errors.New("spec.quotas is bad")
			}
			return nil
		},
		CheckOverride: func(*meta.KafkaUser) error { return nil }}
	keysAre(&o)
	return kube.StartUsers(o)
}

func scramUser(name string, password map[string]any) *meta.KafkaUser {
	user := newUser(name)
	user.Spec.Authentication = map[string]any{"type": "scram-sha-512"}
	if password != nil {
		user.Spec.Authentication["password"] = password
	}
	return user
}

// A user whose Secret is edited and who then gets another password by an admin request.
func disturbedUsers() *disturbedScript {
	reference := map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "shared", "key": "key"}}}
	password := func(s scriptStore, text string) { s.file("secret.yaml", secretManifest("shared", text)) }
	return &disturbedScript{
		name: "users",
		start: func(t *testing.T, store meta.ResourceStore) (func() string, func()) {
			r := startDisturbedUsers(store)
			return func() string {
				object, err := store.Get(context.Background(), meta.KindUser, "u")
				if err != nil {
					t.Error(err)
					return ""
				}
				u := object.(*meta.KafkaUser)
				keys, _, _ := strings.Cut(keysOf(u), "/")
				check, _ := u.Status.PasswordCheck["keys"].(string)
				check, _, _ = strings.Cut(check, "/")
				return describe(t, store, meta.KindUser) + fmt.Sprintf("\nkeys of %s, check of %s in %s", keys, check, u.Status.Secret)
			}, r.Close
		},
		steps: []func(scriptStore){
			func(s scriptStore) { password(s, "first") },
			func(s scriptStore) { s.create(scramUser("u", reference)) },
			func(s scriptStore) { s.patch(meta.KindUser, "u", `{"spec":{"quotas":{"bad":1}}}`) },
			func(s scriptStore) { s.patch(meta.KindUser, "u", `{"spec":{"quotas":{"bad":null}}}`) },
			func(s scriptStore) { password(s, "second") },
			func(s scriptStore) {
				s.patch(meta.KindUser, "u", `{"spec":{"authentication":{"scram":{"keys":"rotated/0"}}}}`)
			},
			func(s scriptStore) { s.create(newUser("v")) },
		},
		want: "KafkaUser u: Reconciled\nKafkaUser v: Reconciled\nkeys of rotated, check of second in shared",
		// The Secret's password was not given yet when the request came: it comes later.
		hasty: map[string]string{"update of KafkaUser u": "KafkaUser u: Reconciled\nKafkaUser v: Reconciled\nkeys of second, check of second in shared"},
	}
}

// A user with a generated password, who is deleted and made again: with another one.
func disturbedGeneratedPassword() *disturbedScript {
	password := func(store meta.ResourceStore) string {
		object, err := store.Get(context.Background(), meta.KindSecret, "u")
		if err != nil {
			return ""
		}
		text, _ := object.(*meta.Secret).Value("password")
		return text
	}
	former := "" // of the run under way
	return &disturbedScript{
		name: "generated password",
		start: func(t *testing.T, store meta.ResourceStore) (func() string, func()) {
			r := startDisturbedUsers(store)
			return func() string {
				state := describe(t, store, meta.KindUser, meta.KindSecret)
				now := password(store)
				object, err := store.Get(context.Background(), meta.KindUser, "u")
				if err != nil || now == "" {
					return state + "\nno password"
				}
				if keys, _, _ := strings.Cut(keysOf(object.(*meta.KafkaUser)), "/"); keys != now {
					state += "\nkeys of another password than the Secret's"
				}
				if former == "" || former == now {
					state += "\nthe password of a user that was deleted"
				}
				return state
			}, r.Close
		},
		steps: []func(scriptStore){
			func(s scriptStore) { s.create(scramUser("u", nil)) },
			func(s scriptStore) { s.create(scramUser("once", nil)) },
			func(s scriptStore) { s.delete(meta.KindUser, "once") },
			func(s scriptStore) {
				former = password(s)
				s.delete(meta.KindUser, "u")
				s.create(scramUser("u", nil))
			},
		},
		want: "KafkaUser u: Reconciled\nSecret u:",
	}
}

func disturbedConfigState(t *testing.T, store meta.ResourceStore, applied *appliedConfig, kind meta.Kind) func() string {
	return func() string { return describe(t, store, kind) + "\n" + applied.load() }
}

func disturbedGroupConfig() *disturbedScript {
	make := func(resource string) *meta.KafkaConfig {
		c := meta.NewKafkaConfig(meta.KindGroupConfig, "g")
		c.Metadata.Name, c.Spec.Name, c.Spec.Config = resource, "g", map[string]any{"a.b": resource}
		return c
	}
	return &disturbedScript{
		name: "group configs",
		start: func(t *testing.T, store meta.ResourceStore) (func() string, func()) {
			applied, r := startConfigs(t, store)
			return disturbedConfigState(t, store, applied, meta.KindGroupConfig), r.Close
		},
		steps: []func(scriptStore){
			func(s scriptStore) { s.create(make("first")) },
			func(s scriptStore) { s.create(make("second")) },
			func(s scriptStore) { s.patch(meta.KindGroupConfig, "first", `{"spec":{"config":{"bad.key":"1"}}}`) },
			func(s scriptStore) { s.delete(meta.KindGroupConfig, "first") },
			func(s scriptStore) { s.patch(meta.KindGroupConfig, "second", `{"spec":{"config":{"c.d":"1"}}}`) },
			func(s scriptStore) { s.patch(meta.KindGroupConfig, "second", `{"spec":{"config":{"bad.key":"1"}}}`) },
		},
		want: "KafkaGroupConfig second: InvalidConfig map[a.b:second c.d:1]\nmap[g:map[a.b:second c.d:1]]",
	}
}

func disturbedBrokerConfig() *disturbedScript {
	id := int32(3)
	make := func(resource string, id *int32) *meta.KafkaBrokerConfig {
		c := meta.NewKafkaBrokerConfig(id)
		c.Metadata.Name, c.Spec.Config = resource, map[string]any{"a.b": resource}
		return c
	}
	return &disturbedScript{
		name: "broker configs",
		start: func(t *testing.T, store meta.ResourceStore) (func() string, func()) {
			applied, r := startBrokerConfig(t, store)
			return disturbedConfigState(t, store, applied, meta.KindBrokerConfig), r.Close
		},
		steps: []func(scriptStore){
			func(s scriptStore) { s.create(make("all", nil)) },
			func(s scriptStore) { s.create(make("own", &id)) },
			func(s scriptStore) {
				s.patch(meta.KindBrokerConfig, "own", `{"spec":{"config":{"bad.key":"1","a.b":"2"}}}`)
			},
			func(s scriptStore) { s.create(make("later", nil)) },
			func(s scriptStore) { s.delete(meta.KindBrokerConfig, "all") },
		},
		want: "KafkaBrokerConfig later: Reconciled map[a.b:later]\nKafkaBrokerConfig own: InvalidConfig map[a.b:own]\nmap[a.b:later] map[a.b:own]",
	}
}

func newUser(name string) *meta.KafkaUser {
	user := &meta.KafkaUser{APIVersion: meta.APIVersion, Kind: meta.KindUser}
	user.Metadata.Name = name
	return user
}
