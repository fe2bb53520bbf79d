package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kaas/admin"
	"kaas/auth"
	"kaas/auth/sasl"
	"kaas/auth/scram"
	"kaas/broker"
	"kaas/codec"
	"kaas/internal/footprint"
	"kaas/internal/limits"
	"kaas/kube"
	"kaas/kube/filestore"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/netio"
	"kaas/obs"
	"kaas/policy"
	"kaas/quota"
)

// server is a running broker. Everything in it is set by start, on one
// goroutine, and read by stop and logReady afterwards.
type server struct {
	config   *config.Broker
	logger   *slog.Logger
	level    *slog.LevelVar // of logger
	health   *obs.Health
	registry *obs.Registry

	listener  *storeListener
	store     *logstore.Store
	images    *meta.Images
	resources meta.ResourceStore
	// wrapResources stands in front of the store for all but its own closing; nil in
	// production.
	wrapResources func(meta.ResourceStore) meta.ResourceStore
	reconciler    *kube.Reconciler
	users         *auth.Directory
	quotas        *quota.Manager // nil: nobody authenticates
	policies      admin.Policies
	admin         *admin.Admin
	broker        *broker.Broker
	apis          *codec.Registry
	network       *netio.Server
	http          *httpServer
	// followers are told, on the goroutine of the reconciler of broker configuration,
	// that dynamic configuration has changed; nil before the network is up.
	followers atomic.Pointer[func()]

	// memoryLimit of the process's control group in bytes, 0: none.
	memoryLimit int64

	// closers undo what start did, last one first.
	closers []closer
}

type closer struct {
	what  string
	close func(context.Context) error
}

func (s *server) onStop(what string, f func(context.Context) error) {
	s.closers = append(s.closers, closer{what, f})
}

// start brings the rooms up from the bottom. When one of them fails, those that
// are up are closed again.
func start(ctx context.Context, cfg *config.Broker, logger *slog.Logger, level *slog.LevelVar) (*server, error) {
	return startWith(ctx, cfg, logger, level, nil)
}

// startWith is start with something in front of the resource store; nil: nothing.
func startWith(ctx context.Context, cfg *config.Broker, logger *slog.Logger, level *slog.LevelVar, wrap func(meta.ResourceStore) meta.ResourceStore) (*server, error) {
	s := &server{config: cfg, logger: logger, level: level, health: &obs.Health{}, registry: obs.NewRegistry(), images: &meta.Images{}, wrapResources: wrap,
		memoryLimit: footprint.MemoryLimit(os.DirFS("/"))}
	s.health.NotReady("start", "the broker is starting")
	processMetrics(s.registry, s.health)
	for _, step := range []func(context.Context) error{
		s.compilePolicies, s.startHTTP, s.startStore, s.startProfiling, s.startResources, s.startUsers, s.startBroker, s.startNetwork,
	} {
		if err := step(ctx); err != nil {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.StopTimeout)
			defer cancel()
			if stopErr := s.stop(stopCtx); stopErr != nil {
				logger.Error("stop after a failed start", slog.Any("error", stopErr))
			}
			return nil, err
		}
	}
	s.health.Ready("start")
	return s, nil
}

// stop ends everything in the reverse order of start. It goes on after a
// failure, so that the last commit happens whatever the network did.
func (s *server) stop(ctx context.Context) error {
	s.health.NotReady("start", "the broker is stopping")
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		if err := c.close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", c.what, err))
		}
	}
	s.closers = nil
	return errors.Join(errs...)
}

// bounded makes a step of the stop of something that may hang: it reads or waits
// for a file of the user's (a network volume that is gone, a pipe). The goroutine
// ends with the process.
func bounded(limit time.Duration, f func() error) func(context.Context) error {
	return func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- f() }()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("it still hangs after %v: %w", limit, ctx.Err())
		}
	}
}

// compilePolicies comes before anything is touched: a policy that does not compile
// is a mistake in the configuration.
func (s *server) compilePolicies(context.Context) error {
	for _, p := range []struct {
		kind       policy.Kind
		expression string
		into       *admin.Policy
	}{
		{policy.CreateTopic, s.config.CreateTopicPolicy, &s.policies.CreateTopic},
		{policy.AlterConfig, s.config.AlterConfigPolicy, &s.policies.AlterConfig},
		{policy.DeleteTopic, s.config.DeleteTopicPolicy, &s.policies.DeleteTopic},
	} {
		compiled, err := policy.Compile(p.kind, p.expression)
		if err != nil {
			return err
		}
		if compiled != nil {
			*p.into = compiled
		}
	}
	return nil
}

func (s *server) startHTTP(context.Context) (err error) {
	s.http, err = startHTTP(s.config, s.health, s.registry, s.logger)
	if err == nil {
		s.onStop("http.address", s.http.stop)
	}
	return err
}

func (s *server) startStore(ctx context.Context) (err error) {
	s.listener = &storeListener{}
	s.store, err = logstore.Open(ctx, logstore.Options{
		Dirs: s.logDirs(), Logger: s.logger, InMemory: s.config.Dev, Listener: s.listener,
		OpenFiles:                    int64(footprint.OpenFiles() / limits.OpenFilesShare),
		NumRecoveryThreadsPerDataDir: int(s.config.NumRecoveryThreadsPerDataDir),
		BrokerID:                     s.config.NodeID,
		ClusterID:                    s.config.ClusterID,
		ProducerIDExpirationMs:       int64(s.config.ProducerIDExpirationMs),
		RetentionCheckIntervalMs:     s.config.LogRetentionCheckIntervalMs,
		Cleaner:                      s.cleanerOptions(),
		MoveMaxBytesPerSecond:        1, // moves that a stop interrupted wait for the rate of startBrokerConfig
	})
	if err != nil {
		return err
	}
	s.onStop("the log store", s.store.Close)
	s.health.Probe("storage", func() string { return storageFaults(s.store) })
	s.onStop("the log store's listener", func(context.Context) error { s.listener.target.Store(nil); return nil })
	storeMetrics(s.registry, s.store)
	s.images.Store(meta.NewImage(s.store.ClusterID(), s.config.NodeID, s.config.NodeID, []meta.BrokerInfo{s.self()}, nil))
	return nil
}

// logDirs are where the data is. In dev mode log.dirs says nothing about that, and
// what is told of directories must not name one that is not there.
func (s *server) logDirs() []string {
	if s.config.Dev {
		return []string{"memory"}
	}
	return s.config.LogDirs
}

// cleanerOptions is the configuration of compaction at this moment.
func (s *server) cleanerOptions() logstore.CleanerOptions {
	c := s.config.CurrentCleaner()
	return logstore.CleanerOptions{
		Disabled: !s.config.LogCleanerEnable || s.config.LogCleanerThreads == 0, Threads: int(c.Threads),
		BackoffMs:         max(c.BackoffMs, 1), // 0 means no rest, to the store Kafka's default
		DedupeBufferBytes: c.DedupeBufferSize, IOBufferBytes: int(c.IOBufferSize),
		LoadFactor: c.IOBufferLoadFactor, IOMaxBytesPerSecond: c.IOMaxBytesPerSecond,
	}
}

// moveRate is what moves between log directories may copy at this moment. At 0 they stand still, as Kafka's do; to the
// store 0 means no bound, and at a byte a second a move stands still as well.
func (s *server) moveRate() float64 { return float64(max(s.config.CurrentMoveMaxBytesPerSecond(), 1)) }

// self is this broker in the cluster image. A listener without an advertised
// address has no endpoint: its clients are told the address that they came by.
func (s *server) self() meta.BrokerInfo {
	info := meta.BrokerInfo{ID: s.config.NodeID, Rack: s.config.BrokerRack, Endpoints: make(map[string]meta.Endpoint)}
	for _, l := range s.config.Listeners {
		if l.AdvertisedHost != "" {
			info.Endpoints[l.Name] = meta.Endpoint{Host: l.AdvertisedHost, Port: l.AdvertisedPort}
		}
	}
	return info
}

func (s *server) startResources(ctx context.Context) error {
	if s.config.Dev {
		s.resources = kube.DevStore{}
		return nil
	}
	files, err := filestore.Open(filestore.Options{Dir: s.resourcesDir(), Logger: s.logger})
	if err != nil {
		return err
	}
	resourceMetrics(s.registry, files)
	s.resources = files
	if s.wrapResources != nil {
		s.resources = s.wrapResources(files)
	}
	s.onStop("the resource store", bounded(limits.StopStepTimeout, files.Close))
	s.reconciler, err = kube.StartReconciler(ctx, kube.ReconcilerOptions{
		Store: s.resources, Logger: s.logger,
		DefaultPartitions: func() int32 { return s.config.NumPartitions },
		MaxPartitions:     func() int32 { return limits.MaxPartitionsPerBroker },
		ValidateConfig: func(overrides map[string]string) error {
			_, err := config.ParseTopic(s.config, overrides)
			return err
		},
		ExistingTopicID: s.existingTopicID,
		Accepted:        func(id meta.UUID, from int32) { s.store.Known().Accepted(id, from) },
	})
	if err != nil {
		return err
	}
	s.onStop("the reconciler", bounded(limits.StopStepTimeout, func() error { s.reconciler.Close(); return nil }))
	if err := s.startBrokerConfig(ctx, s.resources); err != nil {
		return err
	}
	return s.startNamedConfigs(ctx)
}

// resourcesDir is where resources are files; "" in dev mode.
func (s *server) resourcesDir() string {
	if s.config.Dev {
		return ""
	}
	dir := s.store.Known().Resources()
	if absolute, err := filepath.Abs(dir); err == nil {
		return absolute
	}
	return dir
}

// startNamedConfigs puts the configs of groups and client metrics in force and keeps
// them so.
func (s *server) startNamedConfigs(ctx context.Context) error {
	for kind, keys := range map[meta.Kind]*config.NamedKeys{meta.KindGroupConfig: config.GroupKeys, meta.KindClientMetrics: config.ClientMetricsKeys} {
		reconciler, err := kube.StartConfigs(ctx, kube.ConfigOptions{
			Kind: kind, Store: s.resources, Logger: s.logger,
			Check: func(_ string, values map[string]string) error { return keys.Check(s.config, values) },
			Apply: func(configs meta.NamedConfigs) { s.images.SetConfigs(kind, configs) },
		})
		if err != nil {
			return err
		}
		s.onStop("the reconciler of "+string(kind), bounded(limits.StopStepTimeout, func() error { reconciler.Close(); return nil }))
	}
	return nil
}

// startBrokerConfig puts dynamic broker configuration in force before any topic is
// looked at, and keeps it so.
func (s *server) startBrokerConfig(ctx context.Context, resources meta.ResourceStore) error {
	reconciler, err := kube.StartBrokerConfig(ctx, kube.BrokerConfigOptions{
		Store: resources, Logger: s.logger, NodeID: s.config.NodeID,
		Check: func(forBroker bool, values map[string]string) error {
			layer := config.ForCluster
			if forBroker {
				layer = config.ForBroker
			}
			return s.config.CheckDynamic(layer, values)
		},
		Apply: func(cluster, broker map[string]string) {
			if err := s.config.SetDynamic(cluster, broker); err != nil {
				s.logger.Warn("some of the dynamic broker configuration can't be put in force", slog.Any("error", err))
			}
			// Not with the followers: moves that a stop interrupted go on before the network is up.
			s.store.SetCleanerConfig(s.cleanerOptions())
			s.store.SetMoveMaxBytesPerSecond(s.moveRate())
			if follow := s.followers.Load(); follow != nil {
				(*follow)()
			}
		},
	})
	if err != nil {
		return err
	}
	s.onStop("the reconciler of broker configuration", bounded(limits.StopStepTimeout, func() error { reconciler.Close(); return nil }))
	return nil
}

// startUsers makes the directory that logins, ACLs and quotas are looked up in.
func (s *server) startUsers(ctx context.Context) (err error) {
	s.users = auth.EmptyDirectory()
	options := auth.DirectoryOptions{Store: s.resources, Logger: s.logger, IndexResources: s.config.AllowEveryoneIfNoACLFound}
	if s.config.Authenticates() || s.config.EnforcesACLs() {
		s.quotas = quota.NewManager(s.quotasOf)
		options.Changed = s.quotas.Refresh
	}
	if !s.config.Dev {
		s.users, err = auth.StartDirectory(ctx, options)
		if err != nil {
			return fmt.Errorf("users: %w", err)
		}
	}
	s.onStop("users", func(context.Context) error { s.users.Close(); return nil })
	if !s.config.Dev {
		reconciler := kube.StartUsers(kube.UserOptions{Store: s.resources, Logger: s.logger, Derive: auth.NewScramKeys, Fits: auth.ScramKeysFit,
			Check:         func(user *meta.KafkaUser) error { _, err := auth.ParseUser(user); return err },
			CheckOverride: func(user *meta.KafkaUser) error { _, err := auth.ParseQuotaOverride(user); return err }})
		s.onStop("the reconciler of users", func(context.Context) error { reconciler.Close(); return nil })
	}
	return nil
}

// quotasOf is what a user's resource says. It is first asked by a connection, when
// the directory is there.
func (s *server) quotasOf(user string) (quotas map[string]float64, known bool) {
	if account := s.users.Account(user); account != nil {
		return account.QuotasInForce(), true
	}
	return nil, false
}

// authorizer is what authorizer.class.name says.
func (s *server) authorizer() auth.Authorizer {
	if !s.config.EnforcesACLs() {
		return auth.AllowAll{}
	}
	return auth.Audited{
		StandardAuthorizer: auth.NewStandardAuthorizer(s.users, s.config.SuperUserList(), s.config.AllowEveryoneIfNoACLFound),
		Tell:               newDenialMetrics(s.registry, s.logger),
	}
}

// saslMechanisms is how clients log in; nil when no listener asks them to.
func (s *server) saslMechanisms() *sasl.Mechanisms {
	if !s.config.Authenticates() {
		return nil
	}
	return &sasl.Mechanisms{Enabled: s.config.SaslEnabledMechanisms, Directory: s.users, Secret: scram.NewSecret(),
		MaxReauth: time.Duration(s.config.ConnectionsMaxReauthMs) * time.Millisecond}
}

// followDynamic makes the rooms that keep copies follow dynamic configuration.
func (s *server) followDynamic() {
	follow := func() {
		total, perIP := s.config.CurrentMaxConnections()
		s.network.LimitConnections(int(total), int(perIP))
		s.broker.TopicDefaultsChanged()
	}
	s.followers.Store(&follow)
	follow() // what has changed since the rooms were started
}

// existingTopicID finds the id of data that lies on disk.
func (s *server) existingTopicID(topic string) (meta.UUID, bool) {
	id, ok := s.store.TopicID(topic)
	return meta.UUID(id), ok
}

// startBroker makes the data plane and the control plane, which serve one
// registry: the pool of the one runs requests of both.
func (s *server) startBroker(ctx context.Context) (err error) {
	authorizer := s.authorizer()
	s.admin = admin.New(admin.Options{
		Authorizer: authorizer, Users: s.users, Quotas: s.quotas,
		Resources: s.resources, Images: s.images, Config: s.config, Logs: s.store, Logger: s.logger, LogLevel: s.level, DropTopic: s.dropTopic(), Policies: s.policies,
		ResourcesDir: s.resourcesDir(),
	})
	dataPool := admin.NewPool(limits.DataPoolWorkers, limits.DataPoolQueue, s.logger)
	poolMetrics(s.registry, "admin", int(s.config.AdminWorkers), s.admin.Pool())
	poolMetrics(s.registry, "data", limits.DataPoolWorkers, dataPool)
	metrics := newRequestMetrics(s.registry)
	options := broker.Options{RequestMemoryBytes: s.memoryLimit / 100 * limits.RequestPercent, Store: s.store, Images: s.images, Config: s.config, Logger: s.logger, Metrics: metrics, Pool: s.admin.Pool(), DataPool: dataPool,
		Authorizer: authorizer, Sasl: s.saslMechanisms(), Quotas: s.quotas, Throttled: newThrottleMetrics(s.registry)}
	if !s.config.Dev {
		options.Resources, options.TopicCreator = s.resources, s.admin.TopicCreator()
	}
	if s.broker, err = broker.New(options); err != nil {
		return err
	}
	if target, ok := any(s.broker).(logstore.Listener); ok {
		s.listener.target.Store(&target)
	}
	s.broker.RegisterMetrics(s.registry)
	s.health.Probe("topics", s.broker.Unclaimed)
	s.onStop("the broker", func(context.Context) error { s.broker.Close(); return nil })
	s.onStop("admin requests", s.admin.Close)
	s.onStop("requests of the data plane's pool", dataPool.Close)
	if s.apis, err = codec.NewRegistry(labelled(s.config.ProfilingAPILabelsEnable, slices.Concat(s.broker.APIs(), s.admin.APIs()))...); err != nil {
		return err
	}
	metrics.serves(s.registry, s.apis)
	s.broker.SetRegistry(s.apis)
	return s.broker.Start(ctx)
}

// dropTopic is how admin deletes a topic in dev mode, where it is no resource.
func (s *server) dropTopic() func(context.Context, string) error {
	if !s.config.Dev {
		return nil
	}
	return func(ctx context.Context, name string) error { return s.broker.DropTopic(ctx, name) }
}

// networkLoops is the number of event loops: num.network.threads, but no more than there are processors. A loop never
// waits for anything but its sockets, so more of them only take turns. One scheduling slot more than processors is there
// for what blocks: otherwise the runtime takes its slot from a loop in a system call and gives it back, a switch of
// threads each time (10 % of the processor time of produce and follow, docs/design/performance-log.md).
func networkLoops(configured int) int {
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(processors + 1)
	return min(max(configured, 1), processors)
}

func (s *server) startNetwork(context.Context) (err error) {
	listeners := make([]netio.Listener, 0, len(s.config.Listeners))
	for _, l := range s.config.Listeners {
		address := net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
		listeners = append(listeners, netio.Listener{Name: l.Name, Network: "tcp", Address: address})
	}
	s.network, err = netio.Start(netio.Config{
		Listeners: listeners, Logger: s.logger, Handler: faulty(s.broker), Storage: s.broker,
		NumNetworkThreads:        networkLoops(int(s.config.NumNetworkThreads)),
		MaxRequestBytes:          s.config.SocketRequestMaxBytes,
		MaxConnections:           int(s.config.MaxConnections),
		MaxConnectionsPerIP:      int(s.config.MaxConnectionsPerIP),
		ConnectionsMaxIdleMs:     s.config.ConnectionsMaxIdleMs,
		SocketSendBufferBytes:    int(s.config.SocketSendBufferBytes),
		SocketReceiveBufferBytes: int(s.config.SocketReceiveBufferBytes),
	})
	if err != nil {
		return err
	}
	s.onStop("the network", s.network.Close)
	s.followDynamic()
	s.onStop("requests under way", s.drain)
	networkMetrics(s.registry, s.network)
	return nil
}

// drain takes no new connections and answers what is in flight. Peers that do not
// read their replies may outlast the time: that is said, and is no failure.
func (s *server) drain(ctx context.Context) error {
	s.network.StopAccepting()
	s.broker.AnswerParked()
	ctx, cancel := context.WithTimeout(ctx, limits.DrainTimeout)
	defer cancel()
	if err := s.network.Drain(ctx); err != nil {
		s.logger.Info("closing connections that are still owed replies", slog.Any("reason", err))
	}
	return nil
}

// logReady writes the one line that says where the broker can be reached.
func (s *server) logReady(started time.Time) {
	var addresses []string
	bound := s.network.Addrs()
	for _, l := range s.config.Listeners {
		addresses = append(addresses, l.Name+"://"+bound[l.Name].String())
	}
	logDirs := s.config.LogDirs
	if s.config.Dev {
		logDirs = []string{} // nothing of what it says is on a disk
	}
	attributes := []any{
		slog.Any("listeners", addresses), slog.Int("nodeId", int(s.config.NodeID)), slog.String("clusterId", s.store.ClusterID()),
		slog.Any("logDirs", logDirs), slog.Int("partitions", len(s.store.All())),
		slog.Float64("startMs", float64(time.Since(started).Microseconds())/1000), slog.String("version", versionText()),
	}
	if s.config.Dev {
		attributes = append(attributes, slog.Bool("dev", true))
	}
	if s.memoryLimit > 0 {
		attributes = append(attributes, slog.Int64("memoryLimitBytes", s.memoryLimit))
	}
	if s.http != nil {
		attributes = append(attributes, slog.String("http", s.http.addr.String()))
	}
	s.logger.Info("ready", attributes...)
}

// storeListener passes the log store's events on to the broker, which is made
// after the store. target is stored once by startBroker, before the first
// append, and cleared before the broker's parts are gone; events that find
// none are dropped, because nobody waits yet or any more.
type storeListener struct {
	target atomic.Pointer[logstore.Listener]
}

// storageFaults says which log directories fail and which partitions a disk keeps from being written, "" for none. It ends by
// itself when the disk is back.
func storageFaults(store *logstore.Store) string {
	const named = 3
	var faults []string
	for _, fault := range store.DirFaults() {
		faults = append(faults, fault.Error())
	}
	faults = append(faults, store.Offline()...)
	if why, _ := store.Known().Waiting(); why != "" {
		faults = append([]string{why}, faults...)
	}
	for _, p := range store.Stalled() {
		faults = append(faults, fmt.Sprintf("%s-%d: the disk of %s does not answer", p.Topic(), p.ID(), p.Dir()))
	}
	if more := len(faults) - named; more > 0 {
		faults = append(faults[:named:named], fmt.Sprintf("%d more", more))
	}
	return strings.Join(faults, "; ")
}

// Advanced implements logstore.Listener.
func (l *storeListener) Advanced(p *logstore.Partition) {
	if target := l.target.Load(); target != nil {
		(*target).Advanced(p)
	}
}

// Failed implements logstore.Listener.
func (l *storeListener) Failed(p *logstore.Partition, err error) {
	if target := l.target.Load(); target != nil {
		(*target).Failed(p, err)
	}
}
