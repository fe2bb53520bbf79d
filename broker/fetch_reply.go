package broker

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
	"kaas/netio"
	"kaas/quota"
)

// The answer to a Fetch is encoded by hand: pooled buffers for what lies between
// the records, file ranges for the records.

// fetchSink is what a Fetch needs beyond codec.Sink. netio's *Slot is one.
type fetchSink interface {
	codec.Sink
	File(netio.FileRange)
}

// Bytes of the parts of an answer, rounded up: what a buffer is sized by.
const (
	fetchReplyBytes          = 64
	fetchReplyTopicBytes     = 32
	fetchReplyPartitionBytes = 80
	abortedTxnBytes          = 17
)

// fetchReply writes one answer.
type fetchReply struct {
	sink     fetchSink
	buf      *bufpool.Buf
	b        []byte
	flexible bool
	bytes    int // sent before buf
	left     int // of the bytes that are not file ranges, by measure
}

func (o *fetchOperation) newReply(size int) fetchReply {
	buf := o.request.NewReply(size)
	return fetchReply{sink: o.request.Sink.(fetchSink), buf: buf, b: buf.B, flexible: o.version >= fetchFlexible, left: size}
}

func (r *fetchReply) int16(v int16) { r.b = binary.BigEndian.AppendUint16(r.b, uint16(v)) }
func (r *fetchReply) int32(v int32) { r.b = binary.BigEndian.AppendUint32(r.b, uint32(v)) }
func (r *fetchReply) int64(v int64) { r.b = binary.BigEndian.AppendUint64(r.b, uint64(v)) }

// length of an array or of bytes; -1 is null.
func (r *fetchReply) length(n int) { r.b = appendLength(r.b, n, r.flexible) }

func (r *fetchReply) noTags() {
	if r.flexible {
		r.b = append(r.b, 0)
	}
}

// records appends the records, and takes over the slice.
func (r *fetchReply) records(slice *logstore.Slice) {
	r.length(slice.Len)
	if slice.Len == 0 {
		return
	}
	if slice.Len <= limits.FetchCopyBytes && len(slice.Mem) >= slice.Len {
		r.b = append(r.b, slice.Mem[:slice.Len]...)
		slice.Release()
		*slice = logstore.Slice{}
		return
	}
	r.left -= len(r.b)
	r.flush()
	r.bytes += slice.Len
	r.sink.File(netio.FileRange{FD: slice.FD, Offset: slice.Offset, Len: slice.Len, Mem: slice.Mem, Pin: slice.Pin()})
	*slice = logstore.Slice{}
	r.buf = bufpool.Get(max(r.left, fetchReplyBytes))
	r.b = r.buf.B[:0]
}

// flush hands the bytes so far to the sink.
func (r *fetchReply) flush() {
	if len(r.b) == 0 {
		r.buf.Release()
		return
	}
	r.bytes += len(r.b)
	r.buf.B = r.b
	r.sink.Bytes(r.buf)
}

// done answers how many bytes the reply has.
func (r *fetchReply) done() int {
	r.flush()
	r.sink.Done()
	return r.bytes
}

// respondError answers the whole request with one error: no topics, no session.
func (o *fetchOperation) respondError(code *kerr.Error) { o.respondTop(0, code) }

func (o *fetchOperation) respondTop(sessionID int32, code *kerr.Error) {
	o.unlink()
	o.releaseSlices()
	r := o.newReply(fetchReplyBytes)
	r.int32(0)
	if o.version >= fetchWithSessions {
		r.int16(code.Code)
		r.int32(sessionID)
	}
	r.length(0)
	r.noTags()
	o.request.Replied(r.done())
	o.finish()
}

// respondToAll answers with one error at the top and for each partition.
func (o *fetchOperation) respondToAll(code *kerr.Error) {
	for i := range o.partitions {
		p := &o.partitions[i]
		p.reset()
		p.refuse(code)
		p.code = code.Code
	}
	o.encode(0, code.Code)
}

// respond answers with what the last collect found.
func (o *fetchOperation) respond() {
	o.unlink()
	sessionID, code := o.closeSession()
	if code != nil {
		o.respondTop(sessionID, code)
		return
	}
	o.encode(sessionID, 0)
}

func (o *fetchOperation) encode(sessionID int32, topCode int16) {
	topics, size := o.measure()
	r := o.newReply(size)
	r.int32(connectionOf(o.request).quota.ChargeBytes(quota.Consume, size+o.readable))
	if o.version >= fetchWithSessions {
		r.int16(topCode)
		r.int32(sessionID)
	}
	r.length(topics)
	redirected := false
	for i := 0; i < len(o.partitions); {
		i = o.encodeTopic(&r, i, &redirected)
	}
	if redirected && o.version >= fetchWithCurrentLeader {
		r.b = o.broker.appendNodeEndpoints(r.b, o.request.Session)
	} else {
		r.noTags()
	}
	o.request.Replied(r.done())
	o.finish()
}

// measure counts the runs of partitions of the same topic, which become the
// topics of the answer, and bounds its size without records.
func (o *fetchOperation) measure() (topics, size int) {
	size = fetchReplyBytes + abortedTxnBytes*len(o.aborted) + o.request.ReplyHeaderBytes()
	var last *fetchPartition
	for i := range o.partitions {
		p := &o.partitions[i]
		if p.omitted {
			continue
		}
		if last == nil || !last.sameTopic(p) {
			topics++
			size += fetchReplyTopicBytes + len(p.topicName)
		}
		size += fetchReplyPartitionBytes
		if p.slice.Len <= limits.FetchCopyBytes {
			size += p.slice.Len
		}
		last = p
	}
	return topics, size
}

func (p *fetchPartition) sameTopic(other *fetchPartition) bool {
	return p.topicID == other.topicID && string(p.topicName) == string(other.topicName)
}

// encodeTopic writes the run of one topic that begins at from or later, and
// answers where the next one begins.
func (o *fetchOperation) encodeTopic(r *fetchReply, from int, redirected *bool) (next int) {
	for from < len(o.partitions) && o.partitions[from].omitted {
		from++
	}
	if from == len(o.partitions) {
		return from
	}
	head, count := &o.partitions[from], 0
	next = from
	for ; next < len(o.partitions); next++ {
		p := &o.partitions[next]
		if p.omitted {
			continue
		}
		if !p.sameTopic(head) {
			break
		}
		count++
	}
	if o.usesTopicIDs() {
		r.b = append(r.b, head.topicID[:]...)
	} else {
		r.b = appendText(r.b, head.topicName, r.flexible)
	}
	r.length(count)
	for i := from; i < next; i++ {
		if p := &o.partitions[i]; !p.omitted {
			o.encodePartition(r, p)
			*redirected = *redirected || p.redirects()
		}
	}
	r.noTags()
	return next
}

func (o *fetchOperation) encodePartition(r *fetchReply, p *fetchPartition) {
	r.int32(p.index)
	r.int16(p.code)
	r.int64(p.highWatermark)
	r.int64(p.lastStableOffset)
	if o.version >= fetchWithLogStart {
		r.int64(p.logStartOffset)
	}
	o.encodeAborted(r, p)
	if o.version >= fetchWithPreferred {
		r.int32(-1)
	}
	r.records(&p.slice)
	if !r.flexible {
		return
	}
	leader := o.version >= fetchWithCurrentLeader && p.redirects()
	r.b = append(r.b, boolByte(p.divergingEpoch >= 0)+boolByte(leader))
	if p.divergingEpoch >= 0 {
		r.b = append(r.b, 0, 13) // tag 0: epoch i32, end offset i64, no tags
		r.int32(p.divergingEpoch)
		r.int64(p.divergingEnd)
		r.b = append(r.b, 0)
	}
	if leader {
		r.b = appendCurrentLeader(r.b, 1, o.broker.Config.NodeID, p.state.leaderEpoch())
	}
}

// encodeAborted writes what Kafka does: null unless a read_committed read went
// well, and an empty list (the default of the field) for a partition that was
// refused before it was read. A replica is refused when it reads.
func (o *fetchOperation) encodeAborted(r *fetchReply, p *fetchPartition) {
	unread := p.refused != nil && p.refused != kerr.NotLeaderForPartition
	if !unread && (!o.committed || p.code != 0 || p.divergingEpoch >= 0) {
		r.length(-1)
		return
	}
	aborted := o.aborted[p.abortedFrom:p.abortedTo]
	r.length(len(aborted))
	for i := range aborted {
		r.int64(aborted[i].ProducerID)
		r.int64(aborted[i].FirstOffset)
		r.noTags()
	}
}

// redirects says whether the client is told who leads (KIP-951).
func (p *fetchPartition) redirects() bool {
	return p.state != nil && (p.code == kerr.NotLeaderForPartition.Code || p.code == kerr.FencedLeaderEpoch.Code)
}

func (s *partitionState) leaderEpoch() int32 { return s.log.LeaderEpoch() }

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// appendLength writes the length of an array or of bytes; -1 is null.
func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(int32(n)))
}

// appendText writes a string that is not null.
func appendText[T string | []byte](b []byte, text T, flexible bool) []byte {
	if flexible {
		b = binary.AppendUvarint(b, uint64(len(text)+1))
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	}
	return append(b, text...)
}

// appendCurrentLeader writes the tag with leader id and epoch (KIP-951).
func appendCurrentLeader(b []byte, tag byte, leader, epoch int32) []byte {
	b = append(b, tag, 9)
	b = binary.BigEndian.AppendUint32(b, uint32(leader))
	b = binary.BigEndian.AppendUint32(b, uint32(epoch))
	return append(b, 0)
}

// appendNodeEndpoints writes the tag section of a Produce or Fetch answer that
// names a leader: tag 0, where the brokers are reached by the client's listener
// (KIP-951). An empty section when this listener has no address.
func (b *Broker) appendNodeEndpoints(dst []byte, session *codec.Session) []byte {
	image := b.Images.Load()
	var nodes []byte
	count := 0
	for i := range image.Brokers {
		node := &image.Brokers[i]
		endpoint, found := node.Endpoints[session.Listener]
		if !found {
			continue
		}
		count++
		nodes = binary.BigEndian.AppendUint32(nodes, uint32(node.ID))
		nodes = appendText(nodes, endpoint.Host, true)
		nodes = binary.BigEndian.AppendUint32(nodes, uint32(endpoint.Port))
		nodes = appendRack(nodes, node)
		nodes = append(nodes, 0)
	}
	if count == 0 {
		return append(dst, 0)
	}
	list := append(binary.AppendUvarint(nil, uint64(count+1)), nodes...)
	dst = append(dst, 1, 0)
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	return append(dst, list...)
}

func appendRack(b []byte, node *meta.BrokerInfo) []byte {
	if node.Rack == "" {
		return append(b, 0)
	}
	return appendText(b, node.Rack, true)
}
