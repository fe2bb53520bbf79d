package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/codec/batch"
	"kaas/coord"
	"kaas/group"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
)

// groupPart runs the group coordinators: one coord shard for each partition of
// __consumer_offsets that this broker serves. The observer's hooks load and unload
// shards; handlers submit events to them.
type groupPart struct {
	runtime *coord.Runtime[*group.Machine] // set by start, then immutable
}

// groupAPIs are the keys of the group coordinator.
func (b *Broker) groupAPIs() []codec.API {
	return []codec.API{
		b.offsetCommitAPI(), b.offsetFetchAPI(), b.joinGroupAPI(), b.heartbeatAPI(), b.leaveGroupAPI(), b.syncGroupAPI(),
		b.describeGroupsAPI(), b.listGroupsAPI(), b.deleteGroupsAPI(), b.offsetDeleteAPI(),
	}
}

func (g *groupPart) start(b *Broker) error {
	c := b.Config
	machine := &group.Config{
		MinSessionTimeoutMs: c.GroupMinSessionTimeoutMs, MaxSessionTimeoutMs: c.GroupMaxSessionTimeoutMs,
		InitialRebalanceDelayMs: c.GroupInitialRebalanceDelayMs, MaxSize: c.GroupMaxSize,
		OffsetMetadataMaxChars:   c.OffsetMetadataMaxBytes,
		OffsetsRetentionMs:       int64(c.OffsetsRetentionMinutes) * 60_000,
		RetentionCheckIntervalMs: c.OffsetsRetentionCheckIntervalMs,
		NewMemberSuffix:          newMemberSuffix, Logger: b.Logger.With("room", "group"),
	}
	g.runtime = coord.NewRuntime(coord.Options[*group.Machine]{
		NewMachine: func(int32) *group.Machine { return group.NewMachine(machine) },
		Logger:     b.Logger.With("room", "coord"), Clock: b.Clock,
	})
	b.hooks.partitionAdded = append(b.hooks.partitionAdded, func(p *partitionState) {
		if p.topicName == meta.ConsumerOffsetsTopic {
			g.runtime.Load(p.index, &offsetsLog{partition: p})
		}
	})
	b.hooks.partitionRemoved = append(b.hooks.partitionRemoved, func(p *partitionState) {
		if p.topicName == meta.ConsumerOffsetsTopic {
			g.runtime.Unload(p.index)
		}
	})
	b.hooks.topicRemoved = append(b.hooks.topicRemoved, func(name string, id meta.UUID) {
		topics := map[string][16]byte{name: id}
		g.post(b, func(m *group.Machine, t *coord.Turn) { m.TopicsDeleted(t, topics) })
	})
	b.hooks.topicsLoaded = append(b.hooks.topicsLoaded, func() {
		// A topic may have been deleted and made anew while this broker was down.
		g.post(b, func(m *group.Machine, t *coord.Turn) { m.TopicsReplaced(t, b.topicIDOf) })
	})
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

// post tells every shard.
func (g *groupPart) post(b *Broker, run func(*group.Machine, *coord.Turn)) {
	for _, shard := range g.runtime.Shards() {
		g.runtime.Post(shard, coord.Event[*group.Machine]{Run: run, Refused: func(err error) {
			b.Logger.Warn("a group coordinator did not hear of deleted topics; their offsets go by retention", "shard", shard, "error", err)
		}})
	}
}

// stop answers what is under way, after its commit.
func (g *groupPart) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), limits.GroupStopMs*time.Millisecond)
	defer cancel()
	_ = g.runtime.Close(ctx) // what was not committed in time has been answered with an error
}

func (b *Broker) topicIDOf(name string) [16]byte {
	if t := b.topic(name); t != nil {
		return t.id
	}
	return [16]byte{}
}

// submit routes an event to the shard of the group. failed is called instead of
// run, perhaps on another goroutine, with the error code for the client.
func (b *Broker) submit(groupID string, run func(*group.Machine, *coord.Turn), failed func(code int16)) {
	topic := b.topic(meta.ConsumerOffsetsTopic)
	if topic == nil || len(topic.partitions) == 0 {
		// Nobody coordinates before the topic is there; FindCoordinator makes it.
		failed(kerr.NotCoordinator.Code)
		return
	}
	b.groups.runtime.Submit(coord.PartitionFor(groupID, int32(len(topic.partitions))), coord.Event[*group.Machine]{
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

// isNotCoordinator: the shard moved away while it was asked; its groups are listed
// by its new coordinator.
func isNotCoordinator(err error) bool { return errors.Is(err, coord.ErrNotCoordinator) }

// groupAllowed asks the authorizer about a group.
func (b *Broker) groupAllowed(r *codec.Request, operation auth.Operation, groupID string) bool {
	return b.allowed(r, operation, auth.ResourceGroup, groupID)
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

// offsetsLog is a partition of __consumer_offsets as coord's log.
type offsetsLog struct{ partition *partitionState }

func (l *offsetsLog) Append(batches []byte) (endOffset int64, err error) {
	log := l.partition.log
	result, err := log.Append(batches, logstore.AppendOptions{Origin: logstore.OriginCoordinator, LeaderEpoch: log.LeaderEpoch()})
	if err != nil {
		return 0, err
	}
	return result.LastOffset + 1, nil
}

func (l *offsetsLog) WhenCommitted(endOffset int64, done func(err error)) {
	l.partition.log.WhenCommitted(&logstore.Waiter{Offset: endOffset, Done: func(_ *logstore.Waiter, err error) { done(err) }})
}

// CheckProducer implements coord.Log.
func (l *offsetsLog) CheckProducer(producerID int64, producerEpoch int16, marker bool, coordinatorEpoch int32) error {
	return l.partition.log.CheckProducer(producerID, producerEpoch, marker, coordinatorEpoch)
}

// MaxBatchBytes follows the topic's configuration at the time of the load.
func (l *offsetsLog) MaxBatchBytes() int { return int(l.partition.config.Load().MaxMessageBytes) }

// Replay reads everything that was in the log when it began. Nothing is appended
// meanwhile: the shard that is loading is the only writer.
func (l *offsetsLog) Replay(ctx context.Context, visit func(batch.View) error) (endOffset int64, err error) {
	log := l.partition.log
	endOffset = log.LogEndOffset()
	var scratch []byte
	for offset := log.LogStartOffset(); offset < endOffset; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		records, err := readAll(log, offset, &scratch)
		if err != nil {
			return 0, err
		}
		if len(records) == 0 {
			break // the rest was compacted away
		}
		for len(records) > 0 {
			view, rest, err := batch.Next(records)
			if err != nil {
				return 0, fmt.Errorf("%s-%d at offset %d: %w", log.Topic(), log.ID(), offset, err)
			}
			if err := visit(view); err != nil {
				return 0, err
			}
			offset, records = view.LastOffset()+1, rest
		}
	}
	return endOffset, nil
}

// readAll copies one read of the log into memory of its own, so that a load never
// faults on a mapped page and pins no segment while it decodes.
func readAll(log *logstore.Partition, offset int64, scratch *[]byte) ([]byte, error) {
	slice, err := log.Read(offset, limits.GroupLoadReadBytes, true, logstore.ReadLogEnd)
	if err != nil {
		return nil, err
	}
	defer slice.Release()
	if cap(*scratch) < slice.Len {
		*scratch = make([]byte, slice.Len)
	}
	records := (*scratch)[:slice.Len]
	if slice.Len == 0 {
		return records, nil
	}
	if slice.Mem != nil {
		copy(records, slice.Mem)
		return records, nil
	}
	for done := 0; done < len(records); {
		n, err := syscall.Pread(slice.FD, records[done:], slice.Offset+int64(done))
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = os.ErrClosed
		}
		if err != nil {
			return nil, fmt.Errorf("%s-%d: read at offset %d: %w", log.Topic(), log.ID(), offset, err)
		}
		done += n
	}
	return records, nil
}
