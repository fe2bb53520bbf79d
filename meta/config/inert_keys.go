package config

import (
	"strings"
	"sync"
)

// inertGroup is a set of broker keys of Kafka that kaas accepts at any value
// and that change nothing, for one reason.
type inertGroup struct {
	why  string
	keys string // separated by white space
}

// inertGroups hold, together with brokerKeys, every broker key of Kafka 4.4
// and those of Kafka 3 that old files still carry.
var inertGroups = []inertGroup{
	{why: "kaas has no KRaft quorum", keys: `
		broker.heartbeat.interval.ms broker.session.timeout.ms controller.performance.always.log.threshold.ms
		controller.performance.sample.period.ms controller.quorum.append.linger.ms controller.quorum.auto.join.enable
		controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
		controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
		controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
		controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
		controller.socket.timeout.ms early.start.listeners initial.broker.registration.timeout.ms
		internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
		internal.metadata.max.batch.size.in.bytes metadata.log.dir metadata.log.max.record.bytes.between.snapshots
		metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms
		metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms process.roles
		sasl.mechanism.controller.protocol server.max.startup.time.ms unstable.feature.versions.enable`},
	{why: "kaas keeps one copy of a partition and brokers do not talk to one another", keys: `
		alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
		auto.leader.rebalance.enable controlled.shutdown.enable follower.fetch.last.tiered.offset.enable
		group.coordinator.append.linger.ms inter.broker.listener.name leader.imbalance.check.interval.seconds
		num.replica.alter.log.dirs.threads num.replica.fetchers replica.fetch.backoff.ms replica.fetch.max.bytes
		replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
		replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
		replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
		replication.quota.window.size.seconds request.timeout.ms sasl.mechanism.inter.broker.protocol
		security.inter.broker.protocol share.coordinator.append.linger.ms share.coordinator.state.topic.min.isr
		share.coordinator.state.topic.replication.factor socket.connection.setup.timeout.max.ms
		socket.connection.setup.timeout.ms unclean.leader.election.interval.ms`},
	{why: "tiered storage is not built", keys: `
		remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
		remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
		remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
		remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
		remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
		remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
		remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
		remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
		remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
		remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
		remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
		remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
		remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix`},
	{why: "share groups and streams groups are not built", keys: `
		errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
		group.share.assignment.interval.ms group.share.assignor.offload.enable group.share.assignors
		group.share.delivery.count.limit group.share.dlq.manager.class.name group.share.heartbeat.interval.ms
		group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
		group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
		group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
		group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
		group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
		group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
		group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
		group.share.partition.max.record.locks group.share.persister.class.name group.share.record.lock.duration.ms
		group.share.session.timeout.ms group.streams.acceptable.recovery.lag group.streams.assignment.interval.ms
		group.streams.assignor.offload.enable group.streams.assignors group.streams.heartbeat.interval.ms
		group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
		group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
		group.streams.max.standby.replicas group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms
		group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
		group.streams.min.task.offset.interval.ms group.streams.num.standby.replicas group.streams.num.warmup.replicas
		group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
		group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class
		share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
		share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
		share.coordinator.state.topic.compression.codec share.coordinator.state.topic.num.partitions
		share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.segment.bytes
		share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests`},
	{why: "TLS, delegation tokens and SASL mechanisms other than SCRAM-SHA-512 are not built yet", keys: `
		delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
		delegation.token.secret.key sasl.client.callback.handler.class sasl.jaas.config
		sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
		sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
		sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
		sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
		sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
		sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
		sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
		sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
		sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
		sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
		sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
		sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
		sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
		sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
		sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
		sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
		sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
		sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
		security.providers ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites ssl.client.auth
		ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
		ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
		ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
		ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
		ssl.truststore.location ssl.truststore.password ssl.truststore.type`},
	{why: "a request that adds a partition waits for the end of the last transaction, instead of asking again", keys: `
		add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms`},
	{why: "all coordinators read their logs in reads of one size", keys: `
		transaction.state.log.load.buffer.size`},
	{why: "prepared transactions (KIP-939) are not built", keys: `
		transaction.two.phase.commit.enable`},
	{why: "a quota of a user is counted over one second; quotas of admin requests are not built", keys: `
		controller.quota.window.num controller.quota.window.size.seconds quota.window.num quota.window.size.seconds`},
	{why: "metrics are served at http.address", keys: `
		auto.include.jmx.reporter kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters
		metrics.num.samples metrics.recording.level metrics.sample.window.ms telemetry.max.bytes`},
	{why: "nothing in kaas corresponds to it", keys: `
		config.providers cordoned.log.dirs delete.records.purgatory.purge.interval.requests
		fetch.purgatory.purge.interval.requests group.coordinator.background.threads
		group.coordinator.cached.buffer.max.bytes group.coordinator.rebalance.protocols group.coordinator.threads
		log.dir.failure.timeout.ms log.flush.offset.checkpoint.interval.ms
		log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms max.connection.creation.rate
		max.connections.per.ip.overrides offsets.load.buffer.size producer.id.expiration.check.interval.ms
		producer.purgatory.purge.interval.requests queued.max.request.bytes socket.listen.backlog.size`},
	{why: "Kafka 4 has dropped it as well", keys: `
		advertised.host.name advertised.port broker.id.generation.enable group.coordinator.new.enable host.name
		inter.broker.protocol.version log.message.downconversion.enable log.message.format.version
		log.message.timestamp.difference.max.ms offsets.commit.required.acks password.encoder.cipher.algorithm
		password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
		password.encoder.old.secret password.encoder.secret port quota.consumer.default quota.producer.default
		reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms
		zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable zookeeper.session.timeout.ms
		zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
		zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
		zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type
		zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location
		zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type zookeeper.sync.time.ms`},
}

var inertIndex = sync.OnceValue(func() map[string]string {
	index := make(map[string]string, 384)
	for _, group := range inertGroups {
		for key := range strings.FieldsSeq(group.keys) {
			index[key] = group.why
		}
	}
	return index
})

// InertKey says why a broker key of Kafka without a row in [BrokerKeys] has no
// effect; ok is false for a key that Kafka does not have. Keys below
// listener.name.<listener>. and listener.name.<listener>.<mechanism>. count as
// the key that they narrow.
func InertKey(name string) (why string, ok bool) {
	if why, ok := inertIndex()[name]; ok {
		return why, true
	}
	rest, narrowed := strings.CutPrefix(name, "listener.name.")
	for narrowed {
		if _, rest, narrowed = strings.Cut(rest, "."); !narrowed {
			break
		}
		if why, ok := inertIndex()[rest]; ok {
			return why, true
		}
		if key := BrokerKey(rest); key != nil {
			return "settings of a single listener are not built", true
		}
	}
	return "", false
}

// InertGroup is a set of keys that have no effect for one reason.
type InertGroup struct {
	Why  string
	Keys []string
}

// InertKeys lists the keys for which [InertKey] is true, by reason.
func InertKeys() []InertGroup {
	groups := make([]InertGroup, 0, len(inertGroups))
	for _, g := range inertGroups {
		groups = append(groups, InertGroup{g.why, strings.Fields(g.keys)})
	}
	return groups
}
