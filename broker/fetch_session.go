package broker

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
)

// Incremental fetch sessions (KIP-227; Kafka: FetchSession.scala). A client
// sends its partitions once; later requests carry what changed, and answers only
// the partitions that have something new.

// Session epochs with a meaning of their own.
const (
	fetchSessionFinal   = -1 // no session, and close the named one
	fetchSessionInitial = 0  // make one, and close the named one
)

// fetchSessions is the cache: at most slots sessions.
type fetchSessions struct {
	slots int
	now   func() time.Time

	mu sync.Mutex
	// +checklocks:mu
	byID map[int32]*fetchSession
	// partitions of all sessions together.
	// +checklocks:mu
	partitions int
}

// fetchSession is one session. Lock order: fetchSessions.mu is never taken under
// fetchSession.mu, nor the other way round.
type fetchSession struct {
	id           int32
	usesTopicIDs bool
	created      time.Time

	lastUsed time.Time // guarded by fetchSessions.mu
	size     int       // guarded by fetchSessions.mu: partitions, as last counted there

	mu sync.Mutex
	// epoch of the request that comes next.
	// +checklocks:mu
	epoch int32
	// entries is a slab; the list through next and previous is the order in which
	// the partitions are served: those that had records go to the end, so that a
	// small max_bytes does not starve the others.
	// +checklocks:mu
	entries []sessionPartition
	// +checklocks:mu
	free int32
	// +checklocks:mu
	head int32
	// +checklocks:mu
	tail int32
	// +checklocks:mu
	count int
	// +checklocks:mu
	byName map[sessionName]int32
	// +checklocks:mu
	byTopicID map[sessionTopicID]int32
}

type sessionName struct {
	topic string
	index int32
}

type sessionTopicID struct {
	topic meta.UUID
	index int32
}

// sessionPartition is what the session remembers of one partition.
type sessionPartition struct {
	previous, next int32 // -1: none
	// name is the session's own copy, empty with topic ids.
	name    []byte
	topicID meta.UUID
	index   int32
	// state was found by an earlier request; it is good until it is removed.
	state *partitionState

	fetchOffset        int64
	maxBytes           int32
	currentLeaderEpoch int32
	lastFetchedEpoch   int32
	// What the client was told last; -1: nothing yet.
	highWatermark  int64
	logStartOffset int64
}

const noEntry = int32(-1)

// init runs before anybody else knows the cache.
// +checklocksignore
func (c *fetchSessions) init(slots int, now func() time.Time) {
	c.slots, c.now = slots, now
	c.byID = make(map[int32]*fetchSession)
}

// use finds the session for an incremental request and marks it as used.
func (c *fetchSessions) use(id int32) *fetchSession {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	if s != nil {
		s.lastUsed = now
	}
	return s
}

func (c *fetchSessions) remove(id int32) {
	if id == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

// drop needs mu.
// +checklocks:c.mu
func (c *fetchSessions) drop(id int32) {
	if s := c.byID[id]; s != nil {
		c.partitions -= s.size
		delete(c.byID, id)
	}
}

// resize accounts for partitions that a request added or removed; false: over
// the bound, and the session is gone.
func (c *fetchSessions) resize(s *fetchSession, size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[s.id] != s || size == s.size {
		return true
	}
	if size > s.size && c.partitions+size-s.size > limits.FetchSessionPartitions {
		c.drop(s.id)
		return false
	}
	c.partitions += size - s.size
	s.size = size
	return true
}

// create makes a session for the partitions of a full request, or answers nil
// when the cache is full of sessions that are worth more.
func (c *fetchSessions) create(o *fetchOperation) *fetchSession {
	now := c.now()
	s, size := newFetchSession(o, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partitions+size > limits.FetchSessionPartitions {
		return nil
	}
	if len(c.byID) >= c.slots && !c.evictFor(size, now) {
		return nil
	}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32) + 1 // #nosec G404: an id, not a secret; Kafka has no authorisation on it either
	}
	s.size = size
	c.partitions += s.size
	c.byID[s.id] = s
	return s
}

// evictFor makes room as Kafka's FetchSessionCache.tryEvict does: for a session
// that was not used for two minutes, else for the smallest one that is older
// than two minutes and not larger than the new one. Needs mu.
// +checklocks:c.mu
func (c *fetchSessions) evictFor(size int, now time.Time) bool {
	var stale, smallest *fetchSession
	for _, s := range c.byID {
		if stale == nil || s.lastUsed.Before(stale.lastUsed) {
			stale = s
		}
		if s.lastUsed.Sub(s.created) > limits.FetchSessionEvictAfter &&
			(smallest == nil || s.size < smallest.size || s.size == smallest.size && s.id < smallest.id) {
			smallest = s
		}
	}
	switch {
	case stale == nil:
		return false
	case now.Sub(stale.lastUsed) > limits.FetchSessionEvictAfter:
		c.drop(stale.id)
		return true
	case smallest == nil || size < smallest.size:
		return false
	}
	c.drop(smallest.id)
	return true
}

// newFetchSession makes a session that nobody else knows yet.
// +checklocksignore
func newFetchSession(o *fetchOperation, now time.Time) (s *fetchSession, size int) {
	s = &fetchSession{created: now, lastUsed: now, epoch: 1, usesTopicIDs: o.usesTopicIDs(), free: noEntry, head: noEntry, tail: noEntry}
	if s.usesTopicIDs {
		s.byTopicID = make(map[sessionTopicID]int32, len(o.partitions))
	} else {
		s.byName = make(map[sessionName]int32, len(o.partitions))
	}
	s.entries = make([]sessionPartition, 0, len(o.partitions))
	for i := range o.partitions {
		p := &o.partitions[i]
		e := s.entry(p.topicName, p.topicID, p.index)
		e.fetchOffset, e.maxBytes = p.fetchOffset, p.maxBytes
		e.currentLeaderEpoch, e.lastFetchedEpoch = p.currentLeaderEpoch, p.lastFetchedEpoch
		e.state, e.logStartOffset = p.state, p.logStartOffset
		e.highWatermark = p.highWatermark
		if p.code != 0 {
			e.highWatermark = -1
		}
	}
	return s, s.count
}

func nextSessionEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return fetchSessionFinal
	case epoch == math.MaxInt32:
		return 1
	}
	return epoch + 1
}

// find answers the entry of a partition, noEntry when the session lacks it.
// Needs mu. It does not allocate.
// +checklocks:s.mu
func (s *fetchSession) find(name []byte, id meta.UUID, index int32) int32 {
	var at int32
	var found bool
	if s.usesTopicIDs {
		at, found = s.byTopicID[sessionTopicID{id, index}]
	} else {
		at, found = s.byName[sessionName{string(name), index}]
	}
	if !found {
		return noEntry
	}
	return at
}

// entry finds or adds a partition. Needs mu; the pointer is good until the next call.
// +checklocks:s.mu
func (s *fetchSession) entry(name []byte, id meta.UUID, index int32) *sessionPartition {
	if at := s.find(name, id, index); at != noEntry {
		return &s.entries[at]
	}
	at := s.free
	if at != noEntry {
		s.free = s.entries[at].next
	} else {
		at = int32(len(s.entries))
		s.entries = append(s.entries, sessionPartition{})
	}
	e := &s.entries[at]
	*e = sessionPartition{index: index, highWatermark: -1, logStartOffset: -1}
	if s.usesTopicIDs {
		e.topicID = id
		s.byTopicID[sessionTopicID{id, index}] = at
	} else {
		owned := string(name)
		e.name = []byte(owned)
		s.byName[sessionName{owned, index}] = at
	}
	s.link(at)
	s.count++
	return e
}

// +checklocks:s.mu
func (s *fetchSession) link(at int32) {
	e := &s.entries[at]
	e.previous, e.next = s.tail, noEntry
	if s.tail != noEntry {
		s.entries[s.tail].next = at
	} else {
		s.head = at
	}
	s.tail = at
}

// +checklocks:s.mu
func (s *fetchSession) unlink(at int32) {
	e := &s.entries[at]
	if e.previous != noEntry {
		s.entries[e.previous].next = e.next
	} else {
		s.head = e.next
	}
	if e.next != noEntry {
		s.entries[e.next].previous = e.previous
	} else {
		s.tail = e.previous
	}
}

// forget needs mu.
// +checklocks:s.mu
func (s *fetchSession) forget(name []byte, id meta.UUID, index int32) {
	at := s.find(name, id, index)
	if at == noEntry {
		return
	}
	if s.usesTopicIDs {
		delete(s.byTopicID, sessionTopicID{id, index})
	} else {
		delete(s.byName, sessionName{string(name), index})
	}
	s.unlink(at)
	s.entries[at] = sessionPartition{next: s.free}
	s.free = at
	s.count--
}

// update takes over what an incremental request says. Needs mu.
// +checklocks:s.mu
func (s *fetchSession) update(view *codec.FetchView) {
	for it := view.Partitions(); it.Next(); {
		p := &it.Partition
		e := s.entry(p.Topic, p.TopicID, p.Index)
		e.fetchOffset, e.maxBytes = p.FetchOffset, p.MaxBytes
		e.currentLeaderEpoch, e.lastFetchedEpoch = p.CurrentLeaderEpoch, p.LastFetchedEpoch
	}
	for it := view.Forgotten(); it.Next(); {
		s.forget(it.Topic, it.TopicID, it.Index)
	}
}

// openSession decides what the request means for its session and fills the
// operation's partitions. The error goes to the top of the answer.
func (o *fetchOperation) openSession(view *codec.FetchView) *kerr.Error {
	sessions := &o.broker.data.sessions
	if view.SessionEpoch == fetchSessionInitial || view.SessionEpoch == fetchSessionFinal {
		sessions.remove(view.SessionID)
		o.makesSession = view.SessionEpoch == fetchSessionInitial
		o.named.begin(view.PartitionCount)
		for it := view.Partitions(); it.Next(); {
			o.addRequested(&it.Partition)
		}
		return nil
	}
	s := sessions.use(view.SessionID)
	if s == nil {
		return kerr.FetchSessionIDNotFound
	}
	size, code := o.continueSession(s, view)
	if code != nil {
		return code
	}
	if size == 0 {
		sessions.remove(s.id)
		o.session = nil
		return nil
	}
	if !sessions.resize(s, size) {
		return kerr.FetchSessionIDNotFound
	}
	return nil
}

// continueSession answers how many partitions the session has now.
func (o *fetchOperation) continueSession(s *fetchSession, view *codec.FetchView) (int, *kerr.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch != view.SessionEpoch:
		return 0, kerr.InvalidFetchSessionEpoch
	case s.usesTopicIDs != o.usesTopicIDs():
		return 0, kerr.FetchSessionTopicIDError
	case s.count+view.PartitionCount > 2*limits.FetchPartitions:
		return 0, kerr.FetchSessionIDNotFound
	}
	s.update(view)
	s.epoch = nextSessionEpoch(s.epoch)
	o.session, o.sessionEpoch = s, s.epoch
	for at := s.head; at != noEntry; at = s.entries[at].next {
		o.addRemembered(s, at)
	}
	return s.count, nil
}

// closeSession runs when the results stand, before the answer is encoded: it
// remembers what the client is told now and marks the partitions that are left
// out. An error means that the whole answer is that error.
func (o *fetchOperation) closeSession() (sessionID int32, code *kerr.Error) {
	if o.makesSession {
		if s := o.broker.data.sessions.create(o); s != nil {
			return s.id, nil
		}
		return 0, nil
	}
	s := o.session
	if s == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != o.sessionEpoch {
		// A later request of the session overtook this one: its entries are not ours any more.
		return s.id, kerr.InvalidFetchSessionEpoch
	}
	for i := range o.partitions {
		p := &o.partitions[i]
		p.omitted = !s.entries[p.entry].tell(p)
		if p.slice.Len > 0 {
			s.unlink(p.entry)
			s.link(p.entry)
		}
	}
	return s.id, nil
}

// tell takes over the result; true: it holds something that the client does not
// know (Kafka: CachedPartition.maybeUpdateResponseData).
func (e *sessionPartition) tell(p *fetchPartition) bool {
	e.state = p.state
	changed := p.slice.Len > 0 || p.code != 0 || p.divergingEpoch >= 0
	if e.highWatermark != p.highWatermark {
		e.highWatermark = p.highWatermark
		changed = true
	}
	if e.logStartOffset != p.logStartOffset {
		e.logStartOffset = p.logStartOffset
		changed = true
	}
	if p.code != 0 {
		// The next answer tells again, whatever it is.
		e.highWatermark = -1
	}
	return changed
}
