package limits

import "time"

// One connection, inbound.
const (
	// NetReadBufferBytes is what the event engine reads before it calls netio: neither a batch of 16 KiB (the default of the Java
	// producer) nor several small requests need a second read. While paused connections of the loop hold NetRestBytesPerLoop it
	// is NetReadBufferLeastBytes.
	NetReadBufferBytes      = 20 << 10
	NetReadBufferLeastBytes = 4 << 10
	// NetChunkBytes is the memory that one event loop reads into, and so the most that one read takes. Frames are handed
	// on where they lie in it. It fits into the second-level cache of a core, where checksum and append find the bytes.
	NetChunkBytes = 512 << 10
	// NetChunkLeastBytes must be free in a chunk that is read into; one with less is left to the frames in it.
	NetChunkLeastBytes = 128 << 10
	// NetChunksPinned chunks of an event loop may be kept by frames that wait (and the one that is read into): 16 MiB, whatever
	// the size of those frames, which is all that is counted of them elsewhere. Beyond it frames are copied.
	NetChunksPinned = 32
	// NetInPlaceBytes: a smaller frame is copied out of the chunk. One that is held (until its commit, in a long poll)
	// would keep the whole chunk, and a copy this small costs less than a microsecond.
	NetInPlaceBytes = 8 << 10
	// NetReadAheadBytes is what a connection is read at first beyond NetReadBufferBytes. It doubles, up to a chunk, while
	// the socket has as much, and begins anew when the connection is paused: what was read beyond waits in memory.
	NetReadAheadBytes = 64 << 10
	// NetReadBytesPerEvent bounds what one connection may read before the other connections of its loop have their turn.
	NetReadBytesPerEvent = 1 << 20
	// NetFrameFirstBytes is the most memory that is taken for the announced length of a frame of an unknown peer (one that
	// has sent a larger frame gets as much at once, up to BufLargestBytes): beyond it, a frame's
	// buffer doubles when it is full, so memory follows the bytes that have arrived (at most twice, three times while
	// the bytes move).
	NetFrameFirstBytes = 64 << 10
	// NetRestBytes bounds the bytes that were read and not yet parsed when a connection is paused:
	// what one read brings beyond the frame that filled the connection. A connection that is paused again and again is
	// down to NetReadBufferBytes + NetReadAheadBytes.
	NetRestBytes = NetChunkBytes + NetReadBufferBytes
	// NetRestBytesPerLoop of such bytes, in the buffers of all connections of an event loop: above it connections are read no
	// further than NetReadBufferLeastBytes and the end of the frame that is arriving, so each further one that is paused keeps
	// as much. 5,000 of them hold 85 MB in two loops, where they could hold 5 GB.
	NetRestBytesPerLoop = 32 << 20
)

// One connection, outbound.
const (
	// OutboundBytes of replies that are complete but have not left: above it the connection is not read.
	OutboundBytes = 8 << 20
	// NetInFlightPerConnection is the default of requests which were read and not yet answered.
	NetInFlightPerConnection = 1_000
	// NetSendBytesPerEvent bounds what one connection may send before the others of its loop have their turn.
	NetSendBytesPerEvent = 4 << 20
	// NetOutboundBytesPerLoop of replies of all connections of an event loop: above it the loop reads only from
	// connections that owe nothing, so a crowd that does not read holds this and one reply each.
	NetOutboundBytesPerLoop = 64 * OutboundBytes
	// NetIovecs a writev: IOV_MAX of Linux.
	NetIovecs = 1_024
	// NetOutboundStallMs: replies wait and the peer takes no byte for so long, then the connection is closed. It stands
	// in for connections.max.idle.ms when that is switched off. A paused consumer legitimately leaves its replies
	// unread for max.poll.interval.ms (5 minutes), so this is longer.
	NetOutboundStallMs = 600_000
)

// NetHalfClosedMs is how long the replies to a peer that has ended its sending side may take. Such a peer cannot be told
// from one that has closed, whose requests would otherwise wait here for as long as they say. A fetch of a consumer waits half a
// second, a commit some milliseconds.
const NetHalfClosedMs = 5_000

// NetLingerMs is how long a connection that the broker ends is still read, and thrown away, so that the replies before
// the end arrive; a peer that closes ends it earlier.
const NetLingerMs = 1_000

// How an event loop waits (netio's rest.go).
const (
	// NetQuietEvents: a loop with fewer in 5 s is quiet.
	NetQuietEvents = 10_000
	// NetRestConnections: a loop with fewer does not rest. So many that poll each half second, as Java clients do, are one
	// event each 8 ms, which is when the monitor begins to stay awake.
	NetRestConnections = 64
	// NetLongWait is long against the time that a client takes to answer; after NetShortWaits shorter ones without a
	// long one the loop is not quiet any more.
	NetLongWait   = time.Millisecond
	NetShortWaits = 256
	// NetSlice is how long a loop goes without a Gosched: after 10 ms the runtime's monitor takes the scheduling slot of a goroutine in a
	// system call, and then wakes every 20 to 70 µs for some milliseconds.
	NetSlice = 5 * time.Millisecond
)

// One server.
const (
	// NetSlotsKept for reuse by each event loop, so that reserving one does not allocate.
	NetSlotsKept = 4_096
	// NetSlotEntriesKept is the largest entry array that a reused slot keeps (a fetch reply of 128 partitions has 256).
	NetSlotEntriesKept = 256
	// NetArrivingBytes is the memory of frames above BufLargestBytes that are arriving, over all connections; one frame
	// may always arrive, and while a buffer doubles half of it more is held. Five of the largest default size.
	NetArrivingBytes = 512 << 20
	// NetBytesPerConnection is what a peer can make a connection hold inside netio besides such a frame:
	NetBytesPerConnection = BufLargestBytes + // a frame that is arriving, below that size or before it has reserved more
		NetRestBytes + // read beyond the frame at which reading paused
		OutboundBytes // replies that wait; the last one may exceed it by its own size
)
