package coordinators

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
	"kaas/internal/limits"
	"kaas/meta"
)

// newGroups makes the runtime of the group coordinators: one coord shard for each
// partition of __consumer_offsets that this broker serves.
func (c *Coordinators) newGroups(clock func() time.Time) *coord.Runtime[*group.Machine] {
	machine := &group.Config{
		MinSessionTimeoutMs: c.config.GroupMinSessionTimeoutMs, MaxSessionTimeoutMs: c.config.GroupMaxSessionTimeoutMs,
		InitialRebalanceDelayMs: c.config.GroupInitialRebalanceDelayMs, MaxSize: c.config.GroupMaxSize,
		OffsetMetadataMaxChars:   c.config.OffsetMetadataMaxBytes,
		OffsetsRetentionMs:       int64(c.config.OffsetsRetentionMinutes) * 60_000,
		RetentionCheckIntervalMs: c.config.OffsetsRetentionCheckIntervalMs,
		ConsumerSessionTimeoutMs: c.config.GroupConsumerSessionTimeoutMs, ConsumerHeartbeatIntervalMs: c.config.GroupConsumerHeartbeatIntervalMs,
		ConsumerMaxSize: c.config.GroupConsumerMaxSize, ConsumerAssignors: c.config.GroupConsumerAssignors,
		ConsumerAssignmentIntervalMs: c.config.GroupConsumerAssignmentIntervalMs,
		ConsumerSessionTimeout:       group.Bounds{MinMs: c.config.GroupConsumerMinSessionTimeoutMs, MaxMs: c.config.GroupConsumerMaxSessionTimeoutMs},
		ConsumerHeartbeatInterval:    group.Bounds{MinMs: c.config.GroupConsumerMinHeartbeatIntervalMs, MaxMs: c.config.GroupConsumerMaxHeartbeatIntervalMs},
		ConsumerAssignmentInterval:   group.Bounds{MinMs: c.config.GroupConsumerMinAssignmentIntervalMs, MaxMs: c.config.GroupConsumerMaxAssignmentIntervalMs},
		GroupConfig:                  c.groupConfig,
		RegexRefreshIntervalMs:       int64(c.config.GroupConsumerRegexRefreshIntervalMs),
		ConsumerMigrationPolicy:      c.config.GroupConsumerMigrationPolicy,
		Image:                        c.images.Load,
		NewMemberSuffix:              newMemberSuffix, Counters: &c.counters.groups, Logger: c.logger.With("room", "group"),
	}
	return coord.NewRuntime(coord.Options[*group.Machine]{
		NewMachine: func(int32) *group.Machine { return group.NewMachine(machine) },
		Logger:     c.logger.With("room", "coord"), Clock: clock, Loaded: c.counters.loaded(&c.counters.groupLoads),
	})
}

// groupConfig is what is configured for one group by itself; nil: nothing.
func (c *Coordinators) groupConfig(groupID string) map[string]string {
	if image := c.images.Load(); image != nil {
		return image.GroupConfig(groupID)
	}
	return nil
}

// newMemberSuffix is a random UUID (version 4) in its usual form, as Java's
// UUID.randomUUID: tools cut member ids at its length.
func newMemberSuffix() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// tellGroups tells every shard.
func (c *Coordinators) tellGroups(run func(*group.Machine, *coord.Turn)) {
	for _, shard := range c.groups.Shards() {
		c.groups.Post(shard, coord.Event[*group.Machine]{Run: run, Refused: func(err error) {
			c.logger.Warn("a group coordinator did not hear of deleted topics; their offsets go by retention", "shard", shard, "error", err)
		}})
	}
}

// Close answers what is under way, after its commit, and then what waits for others
// and whatever still comes: NOT_COORDINATOR. It may be called again.
func (c *Coordinators) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), limits.GroupStopMs*time.Millisecond)
	defer cancel()
	// Transactions first: the ends of theirs are events of the groups. What is not written
	// is written after the next load.
	_ = c.transactions.Close(ctx)
	_ = c.groups.Close(ctx) // what was not committed in time has been answered with an error
}

// submit routes an event to the shard of the group. failed is called instead of
// run, perhaps on another goroutine, with the error code for the client.
func (c *Coordinators) submit(groupID string, run func(*group.Machine, *coord.Turn), failed func(code int16)) {
	topic := c.topics.Topic(meta.ConsumerOffsetsTopic)
	if topic == nil {
		// Nobody coordinates before the topic is there; FindCoordinator makes it.
		failed(kerr.NotCoordinator.Code)
		return
	}
	c.groups.Submit(coord.PartitionFor(groupID, int32(topic.Partitions())), coord.Event[*group.Machine]{
		Run: run, Refused: func(err error) { failed(group.ErrorCode(err)) },
	})
}

// refusedCode answers a request for which the broker has no memory or worker: come
// again, to the same broker. THROTTLING_QUOTA_EXCEEDED would be unknown to most
// group clients.
var refusedCode = kerr.CoordinatorLoadInProgress.Code

// refuseWith is an API's Refuse: the response, throttled. Nil: the request was ended.
func refuseWith(response func(*codec.Request) kmsg.Response) func(*codec.Request, int16, int32) {
	return func(r *codec.Request, _ int16, throttleMs int32) {
		if refused := response(r); refused != nil {
			refused.(kmsg.SetThrottleResponse).SetThrottle(throttleMs)
			r.Respond(refused)
		}
	}
}

// groupAllowed asks the authorizer about a group.
func (c *Coordinators) groupAllowed(r *codec.Request, operation auth.Operation, groupID string) bool {
	return c.allowed(r, operation, auth.ResourceGroup, groupID)
}

// groupClient is how a member appears in DescribeGroups.
func groupClient(r *codec.Request) group.Client {
	return group.Client{ID: string(r.ClientID), Host: "/" + r.Session.RemoteHost}
}

// decodeGroupRequest reads the body; false: the request was ended as malformed.
func decodeGroupRequest(r *codec.Request, into kmsg.Request) bool {
	if err := r.Decode(into); err != nil {
		r.Fail(err)
		return false
	}
	return true
}

// gather collects the parts of a reply that come from several shards, on their
// goroutines, and calls done once when all are there.
type gather struct {
	mu sync.Mutex
	// +checklocks:mu
	left int // mu
	done func()
}

// newGather waits for n parts; with none, done is called at once.
func newGather(n int, done func()) *gather {
	if n == 0 {
		done()
	}
	return &gather{left: n, done: done}
}

// part stores one part and counts it.
func (g *gather) part(store func()) {
	g.mu.Lock()
	store()
	g.left--
	last := g.left == 0
	g.mu.Unlock()
	if last {
		g.done()
	}
}
