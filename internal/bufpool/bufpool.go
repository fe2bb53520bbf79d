package bufpool

import (
	"math/bits"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/invariants"
	"kaas/internal/limits"
)

// Buf is a buffer with a reference count. B may be re-sliced by its owner; the memory behind it returns to the pool
// whole, from Get's own slice.
type Buf struct {
	B []byte

	memory []byte       // whole memory of the class; immutable after make
	whole  *Buf         // of a part: the buffer that it lies in, which it holds a reference of; else nil
	class  int32        // index into classes, -1: not pooled; immutable after make
	refs   atomic.Int32 // 1 after Get; the release that takes it to 0 owns the buffer
	next   *Buf         // free list link; guarded by the class's mutex, of a part by parts.mu

	pinned *atomic.Int32 // of ReleasePinned; written by who holds a reference, read and cleared by who drops the last
}

const (
	smallestShift = 9 // 512 B
	largestShift  = 20
	classCount    = largestShift - smallestShift + 1
)

// Compile-time: the shifts are the limits.
var _ = [1]struct{}{}[(1<<smallestShift)-limits.BufSmallestBytes]
var _ = [1]struct{}{}[(1<<largestShift)-limits.BufLargestBytes]

// class is a LIFO free list: the buffer that was released last is warm in the cache.
type class struct {
	mu sync.Mutex
	// +checklocks:mu
	free *Buf
	// count of buffers in free.
	// +checklocks:mu
	count int
	// low is the least count since the last trim: so many were not needed.
	// +checklocks:mu
	low int
	_   [64]byte // no two locks in one cache line
}

// parts are the headers of released parts. They hold no memory.
var parts struct {
	mu sync.Mutex
	// +checklocks:mu
	free *Buf
	// +checklocks:mu
	count int
}

var (
	classes  [classCount]class
	trimming atomic.Bool // a trimmer goroutine exists
)

// Get returns a buffer with len(B) == n and one reference. Its contents are undefined.
func Get(n int) *Buf {
	if n > limits.BufLargestBytes {
		b := &Buf{B: make([]byte, n), class: -1}
		b.refs.Store(1)
		return b
	}
	i := classOf(n)
	c := &classes[i]
	c.mu.Lock()
	b := c.free
	if b != nil {
		c.free = b.next
		c.count--
		c.low = min(c.low, c.count)
		c.mu.Unlock()
		b.next = nil
		b.B = b.memory[:n]
		b.refs.Store(1)
		return b
	}
	c.mu.Unlock()
	b = &Buf{memory: make([]byte, 1<<(smallestShift+i)), class: int32(i)}
	b.B = b.memory[:n]
	b.refs.Store(1)
	return b
}

// Capacity returns the size that Get(n) takes from memory.
func Capacity(n int) int {
	if n > limits.BufLargestBytes {
		return n
	}
	return 1 << (smallestShift + classOf(n))
}

func classOf(n int) int {
	if n <= limits.BufSmallestBytes {
		return 0
	}
	return bits.Len(uint(n-1)) - smallestShift
}

// Part returns bytes from to to of b as a buffer of its own with one reference. It holds a reference of b until it is
// released itself. The caller holds one of b.
func (b *Buf) Part(from, to int) *Buf {
	b.Retain()
	parts.mu.Lock()
	p := parts.free
	if p != nil {
		parts.free = p.next
		parts.count--
	}
	parts.mu.Unlock()
	if p == nil {
		p = new(Buf)
	}
	p.next, p.whole = nil, b
	p.B = b.B[from:to:to]
	p.refs.Store(1)
	return p
}

// Unshared says that the caller's reference is the only one, so that nobody can make another.
func (b *Buf) Unshared() bool { return b.refs.Load() == 1 }

// Retain adds a reference. The caller holds one already.
func (b *Buf) Retain() {
	if n := b.refs.Add(1); invariants.Enabled && n <= 1 {
		panic("bufpool: Retain of a released buffer")
	}
}

// Release drops a reference; the last one gives the buffer back. Nobody may touch B afterwards.
func (b *Buf) Release() {
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		// Cheap enough for every build: handing one buffer to two owners corrupts data.
		panic("bufpool: buffer released twice")
	}
	if b.pinned != nil {
		b.pinned.Add(-1)
		b.pinned = nil
	}
	if invariants.Enabled {
		poison(b)
	}
	if b.whole != nil {
		b.releasePart()
		return
	}
	if b.class < 0 {
		b.B = nil
		return
	}
	put(b)
}

// ReleasePinned drops the caller's reference of a buffer of which others may hold parts, and counts it in pinned for as
// long as they do.
func (b *Buf) ReleasePinned(pinned *atomic.Int32) {
	pinned.Add(1)
	b.pinned = pinned
	b.Release()
}

func (b *Buf) releasePart() {
	whole := b.whole
	b.B, b.whole = nil, nil
	parts.mu.Lock()
	if parts.count < limits.BufPartsKept {
		b.next = parts.free
		parts.free = b
		parts.count++
	}
	parts.mu.Unlock()
	whole.Release()
}

func poison(b *Buf) {
	m := b.memory
	if m == nil {
		m = b.B[:cap(b.B)]
	}
	for i := range m {
		m[i] = 0xDB
	}
}

func put(b *Buf) {
	c := &classes[b.class]
	b.B = nil
	c.mu.Lock()
	if (c.count+1)<<(smallestShift+int(b.class)) > limits.BufIdleBytesPerClass {
		c.mu.Unlock()
		return // the collector takes it
	}
	b.next = c.free
	c.free = b
	c.count++
	c.mu.Unlock()
	if !trimming.Load() && trimming.CompareAndSwap(false, true) {
		go trimLoop()
	}
}

// trimLoop gives back what was not used during a whole interval, and ends when nothing idle has been left for a while.
func trimLoop() {
	ticker := time.NewTicker(limits.BufIdleMs * time.Millisecond)
	defer ticker.Stop()
	const quietTicks = limits.BufQuietMs / limits.BufIdleMs
	var returned int64
	for quiet := 0; quiet < quietTicks; quiet++ {
		<-ticker.C
		kept, dropped := trim()
		if returned += dropped; kept > 0 || dropped > 0 {
			quiet = 0
		}
	}
	if returned >= limits.BufReturnBytes {
		debug.FreeOSMemory() // one collection on an idle broker, instead of up to two minutes at the size of the last burst
	}
	trimming.Store(false) // a buffer put since the last trim is found by the next put: it starts another trimmer
}

// trim drops the buffers that no Get has reached since the last trim. It returns the bytes that stay and that go.
func trim() (kept, dropped int64) {
	for i := range classes {
		c := &classes[i]
		size := int64(1) << (smallestShift + i)
		c.mu.Lock()
		dropped += int64(c.low) * size
		for drop := c.low; drop > 0; drop-- {
			b := c.free
			c.free, b.next = b.next, nil
			c.count--
		}
		c.low = c.count
		kept += int64(c.count) * size
		c.mu.Unlock()
	}
	return kept, dropped
}

// Idle returns the bytes that wait for reuse.
func Idle() (bytes int64) {
	for i := range classes {
		c := &classes[i]
		c.mu.Lock()
		bytes += int64(c.count) << (smallestShift + i)
		c.mu.Unlock()
	}
	return bytes
}
