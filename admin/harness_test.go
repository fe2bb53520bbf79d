package admin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/kube"
	"kaas/kube/filestore"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/quota"
)

// harness is the room on a real file store and reconciler. The broker's part, to
// serve what resources say, is played by a goroutine that fills the image.
type harness struct {
	t      testing.TB
	admin  *Admin
	store  meta.ResourceStore
	images *meta.Images
	logs   *fakeLogs
	apis   map[int16]codec.API
	user   string
}

type fakeLogs struct {
	mu   sync.Mutex
	logs map[string]*logstore.Partition
}

func (l *fakeLogs) Get(topic string, partition int32) *logstore.Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs[fmt.Sprintf("%s-%d", topic, partition)]
}

func (l *fakeLogs) All() []*logstore.Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*logstore.Partition
	for _, log := range l.logs {
		all = append(all, log)
	}
	return all
}

type harnessOptions struct {
	authorizer auth.Authorizer
	overrides  []string
	wrap       func(meta.ResourceStore) meta.ResourceStore
	dev        bool
	notServing bool // nobody fills the image
	quotas     bool
	level      *slog.LevelVar
	policies   Policies
	quiet      bool // nothing is logged
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, nil))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

func newHarness(t testing.TB, o harnessOptions) *harness {
	t.Helper()
	logger := testLogger(t)
	if o.quiet {
		logger = slog.New(slog.DiscardHandler)
	}
	cfg, _, err := config.LoadBroker(nil, nil, o.overrides)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, images: &meta.Images{}, logs: &fakeLogs{logs: map[string]*logstore.Partition{}}, apis: map[int16]codec.API{}, user: codec.AnonymousPrincipal}
	h.images.Store(meta.NewImage("c", cfg.NodeID, cfg.NodeID, []meta.BrokerInfo{{ID: cfg.NodeID}}, nil))
	options := Options{Images: h.images, Config: cfg, Logs: h.logs, Logger: logger, Authorizer: o.authorizer, LogLevel: o.level, Policies: o.policies}
	if o.dev {
		h.store = kube.DevStore{}
		options.DropTopic = func(_ context.Context, name string) error {
			if h.images.Load().Topic(name) == nil {
				return meta.ErrNotFound
			}
			h.images.Store(h.images.Load().WithTopics(nil, []string{name}))
			return nil
		}
	} else {
		files, err := filestore.Open(filestore.Options{Dir: t.TempDir(), Logger: logger, NoNotify: true})
		if err != nil {
			t.Fatal(err)
		}
		h.store = files
		reconciler, err := kube.StartReconciler(t.Context(), kube.ReconcilerOptions{
			Store: files, Logger: logger, DefaultPartitions: func() int32 { return cfg.NumPartitions },
			ValidateConfig: func(overrides map[string]string) error { _, err := config.ParseTopic(cfg, overrides); return err },
		})
		if err != nil {
			t.Fatal(err)
		}
		brokerConfig, err := kube.StartBrokerConfig(t.Context(), kube.BrokerConfigOptions{
			Store: files, Logger: logger, NodeID: cfg.NodeID,
			Check: func(forBroker bool, values map[string]string) error {
				if forBroker {
					return cfg.CheckDynamic(config.ForBroker, values)
				}
				return cfg.CheckDynamic(config.ForCluster, values)
			},
			Apply: func(cluster, broker map[string]string) {
				if err := cfg.SetDynamic(cluster, broker); err != nil {
					t.Error(err)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			brokerConfig.Close()
			reconciler.Close()
			if err := files.Close(); err != nil {
				t.Error(err)
			}
		})
		for kind, keys := range map[meta.Kind]*config.NamedKeys{meta.KindGroupConfig: config.GroupKeys, meta.KindClientMetrics: config.ClientMetricsKeys} {
			named, err := kube.StartConfigs(t.Context(), kube.ConfigOptions{
				Kind: kind, Store: files, Logger: logger,
				Check: func(_ string, values map[string]string) error { return keys.Check(cfg, values) },
				Apply: func(configs meta.NamedConfigs) { h.images.SetConfigs(kind, configs) },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(named.Close)
		}
	}
	options.Resources = h.store
	if !o.dev {
		directory := auth.DirectoryOptions{Store: h.store, Logger: logger}
		if o.quotas {
			// Nobody asks before the directory is there.
			options.Quotas = quota.NewManager(func(user string) (map[string]float64, bool) {
				if account := h.admin.Users.Account(user); account != nil {
					return account.QuotasInForce(), true
				}
				return nil, false
			})
			directory.Changed = options.Quotas.Refresh
		}
		users, err := auth.StartDirectory(t.Context(), directory)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(users.Close)
		options.Users = users
	}
	if o.wrap != nil {
		options.Resources = o.wrap(h.store)
	}
	h.admin = New(options)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := h.admin.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, api := range h.admin.APIs() {
		h.apis[api.Key] = api
	}
	if !o.notServing && !o.dev {
		h.serve()
	}
	return h
}

// serve plays the broker's observer until the test ends.
func (h *harness) serve() {
	events, err := h.store.Watch(h.t.Context(), meta.KindTopic, "")
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	h.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for event := range events {
			topic, ok := event.Object.(*meta.KafkaTopic)
			if !ok {
				continue
			}
			inForce, ok := topic.InForce()
			if !ok {
				continue
			}
			image := h.images.Load()
			if event.Type == meta.Deleted {
				if served := image.Topic(inForce.Name); served != nil && served.ID == inForce.ID {
					h.images.Store(image.WithTopics(nil, []string{inForce.Name}))
				}
				continue
			}
			partitions := make([]meta.PartitionInfo, inForce.PartitionCount)
			for i := range partitions {
				partitions[i].Leader = image.NodeID
			}
			h.images.Store(image.WithTopics([]*meta.Topic{{Name: inForce.Name, ID: inForce.ID, Partitions: partitions, Config: inForce.Config, Internal: inForce.Internal}}, nil))
		}
	}()
}

// sink collects one reply.
type sink struct {
	reply chan []byte
	bytes []byte
	err   error
}

func (s *sink) Bytes(b *bufpool.Buf) {
	s.bytes = append(s.bytes, b.B...)
	b.Release()
}
func (s *sink) Done()               { s.reply <- s.bytes }
func (s *sink) Drop()               { s.reply <- nil }
func (s *sink) CloseConn(err error) { s.err = err; s.reply <- nil }

// submit sends a request in a version through the pool; the sink has the reply.
func (h *harness) submit(request kmsg.Request, version int16) *sink {
	h.t.Helper()
	request.SetVersion(version)
	return h.submitBody(request, version, request.AppendTo(nil))
}

func (h *harness) submitBody(request kmsg.Request, version int16, body []byte) *sink {
	h.t.Helper()
	frame := bufpool.Get(len(body))
	copy(frame.B, body)
	api := h.apis[request.Key()]
	if api.Handle == nil {
		h.t.Fatalf("key %d is not served", request.Key())
	}
	s := &sink{reply: make(chan []byte, 1)}
	session := &codec.Session{Principal: h.user, RemoteHost: "127.0.0.1"}
	r := codec.NewRequest(&api, codec.Header{Key: request.Key(), Version: version}, frame.B, frame, session, s, time.Now(), nil)
	if !h.admin.Pool().Submit(func() { api.Handle(r) }) {
		api.Refuse(r, 89, 100)
	}
	return s
}

// decode reads the reply and checks that it has exactly the bytes of its version.
func (h *harness) decode(s *sink, request kmsg.Request, version int16) kmsg.Response {
	h.t.Helper()
	raw := <-s.reply
	if raw == nil {
		h.t.Fatalf("no reply: %v", s.err)
	}
	response := request.ResponseKind()
	response.SetVersion(version)
	head := 8
	if codec.ResponseHeaderFlexible(request.Key(), version) {
		head = 9
	}
	if err := response.ReadFrom(raw[head:]); err != nil {
		h.t.Fatalf("key %d v%d: %v", request.Key(), version, err)
	}
	if again := response.AppendTo(nil); len(again) != len(raw)-head {
		h.t.Fatalf("key %d v%d: %d bytes are %d after decoding and encoding", request.Key(), version, len(raw)-head, len(again))
	}
	return response
}

func (h *harness) call(request kmsg.Request, version int16) kmsg.Response {
	h.t.Helper()
	return h.decode(h.submit(request, version), request, version)
}

func text(p *string) string {
	if p == nil {
		return "<null>"
	}
	return *p
}

// newTopicRequest is a topic of a CreateTopics request, with defaults.
func newTopicRequest(name string, partitions int32, configs ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = configs[i], &configs[i+1]
		topic.Configs = append(topic.Configs, entry)
	}
	return topic
}

func (h *harness) create(version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	h.t.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics, request.TimeoutMillis, request.ValidateOnly = topics, 20_000, validateOnly
	return h.call(request, version).(*kmsg.CreateTopicsResponse).Topics
}

// mustCreate makes a topic and returns its id.
func (h *harness) mustCreate(name string, partitions int32, configs ...string) meta.UUID {
	h.t.Helper()
	result := h.create(7, false, newTopicRequest(name, partitions, configs...))[0]
	if result.ErrorCode != 0 {
		h.t.Fatalf("%s: %d %s", name, result.ErrorCode, text(result.ErrorMessage))
	}
	return result.TopicID
}

// denier refuses what its function says.
type denier func(op auth.Operation, resource auth.ResourceType, name string) bool

func (d denier) Authorize(_, _ string, op auth.Operation, resource auth.ResourceType, name string) bool {
	return !d(op, resource, name)
}

// hangingStore blocks writes until released.
type hangingStore struct {
	meta.ResourceStore
	entered atomic.Int32
	release chan struct{}
}

func (s *hangingStore) Create(ctx context.Context, object meta.Object) (meta.Object, error) {
	s.entered.Add(1)
	select {
	case <-s.release:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.ResourceStore.Create(ctx, object)
}

// awayStore refuses writes while told to.
type awayStore struct {
	meta.ResourceStore
	isAway, forbidden atomic.Bool
	refuse            atomic.Pointer[error]
	conflicts         atomic.Int32
}

func (s *awayStore) refusal() error {
	switch {
	case s.isAway.Load():
		return fmt.Errorf("the disk is full: %w", meta.ErrUnavailable)
	case s.forbidden.Load():
		return meta.ErrForbidden
	}
	if refusal := s.refuse.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

func (s *awayStore) Create(ctx context.Context, object meta.Object) (meta.Object, error) {
	if err := s.refusal(); err != nil {
		return nil, err
	}
	return s.ResourceStore.Create(ctx, object)
}

func (s *awayStore) Delete(ctx context.Context, kind meta.Kind, name, uid string) error {
	if err := s.refusal(); err != nil {
		return err
	}
	return s.ResourceStore.Delete(ctx, kind, name, uid)
}

func (s *awayStore) Update(ctx context.Context, object meta.Object) (meta.Object, error) {
	if err := s.refusal(); err != nil {
		return nil, err
	}
	if s.conflicts.Add(-1) >= 0 {
		return nil, meta.ErrConflict
	}
	return s.ResourceStore.Update(ctx, object)
}

func (s *awayStore) Patch(ctx context.Context, kind meta.Kind, name string, patch []byte) (meta.Object, error) {
	if err := s.refusal(); err != nil {
		return nil, err
	}
	if s.conflicts.Add(-1) >= 0 {
		return nil, meta.ErrConflict
	}
	return s.ResourceStore.Patch(ctx, kind, name, patch)
}
