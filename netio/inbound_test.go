package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// lockedBuffer is a log that tests read while the server writes.
type lockedBuffer struct {
	mu sync.Mutex
	// +checklocks:mu
	b bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Garbage behind a request that is still with its handler: the answer comes first, then the end.
func TestGarbageBehindAnOpenRequest(t *testing.T) {
	t.Parallel()
	slots := make(chan *Slot, 1)
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		frame.Release()
		slots <- c.Reserve()
		return nil
	}}
	_, addr := startServer(t, h, nil)
	c := dial(t, addr)
	send(t, c, append(frameOf([]byte("long poll")), bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 1000)...))
	s := <-slots
	s.Bytes(reply([]byte("answer")))
	s.Done()
	if got := string(receiveFrame(t, c)); got != "answer" {
		t.Errorf("got %q", got)
	}
	expectClosed(t, c)
}

func TestNotKafkaOnTheKafkaPort(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		bytes string
		line  string
	}{
		"http":      {"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "HTTP request"},
		"http 2":    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP request"},
		"tls":       {"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", "TLS hello"},
		"ssh":       {"SSH-2.0-OpenSSH_9.2\r\n", "SSH client"},
		"negative":  {"\xff\xff\xff\xffxxxx", "a request of -1 bytes"},
		"too large": {"\x06\x40\x00\x01xxxx", "socket.request.max.bytes is 104857600"},
		"refused":   {"\x00\x00\x00\x01x", "the handler says no"},
	}
	for name, what := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
				if string(frame.B) == "x" {
					frame.Release()
					return errors.New("the handler says no")
				}
				return echo(c, frame)
			}}
			_, addr := startServer(t, h, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			bystander := dial(t, addr)
			for range 5 {
				c := dial(t, addr)
				// What came before the garbage is still answered.
				send(t, c, append(frameOf([]byte("before")), what.bytes...))
				if got := string(receiveFrame(t, c)); got != "before" {
					t.Errorf("got %q", got)
				}
				expectClosed(t, c)
			}
			send(t, bystander, frameOf([]byte("fine")))
			if got := string(receiveFrame(t, bystander)); got != "fine" {
				t.Errorf("the bystander got %q", got)
			}
			if !strings.Contains(log.String(), what.line) {
				t.Errorf("the log does not say %q: %s", what.line, log.String())
			}
			if lines := strings.Count(log.String(), "closed a connection"); lines > 3 {
				t.Errorf("%d lines for five connections at once", lines)
			}
		})
	}
}

// Not parallel with others of this package: it measures the process.
func TestAnnouncedFramesTakeNoMemory(t *testing.T) {
	_, addr := startServer(t, &testHandler{frame: echo}, nil)
	c := dial(t, addr)
	before := residentBytes(t)
	for range 100 {
		peer := dial(t, addr)
		send(t, peer, []byte{0x06, 0x40, 0, 0, 0, 0})
	}
	send(t, c, frameOf([]byte("still here")))
	receiveFrame(t, c)
	if grown := residentBytes(t) - before; grown > 100<<20 {
		t.Errorf("100 announced frames of 100 MB took %d MB", grown>>20)
	}
}

// More large frames than memory for them: they arrive one after the other, one that stalls and dies gives its place back.
func TestLargeFramesShareMemory(t *testing.T) {
	t.Parallel()
	const size, count = 3 << 20, 4
	var server *Server
	started := make(chan struct{})
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		<-started
		server.arrivals.mu.Lock()
		if server.arrivals.reserved > 2*size {
			t.Errorf("%d bytes are reserved, %d may be", server.arrivals.reserved, 2*size)
		}
		server.arrivals.mu.Unlock()
		return echo(c, frame)
	}}
	server, addr := startServer(t, h, nil)
	server.arrivals.mu.Lock()
	server.arrivals.limit = 2 * size
	server.arrivals.mu.Unlock()
	close(started)
	payload := make([]byte, size)
	random := seeded(t)
	for i := range payload {
		payload[i] = byte(random.Uint32())
	}
	reserved := func() int64 {
		server.arrivals.mu.Lock()
		defer server.arrivals.mu.Unlock()
		return server.arrivals.reserved
	}
	stalled := dial(t, addr)
	send(t, stalled, frameOf(payload)[:2<<20])
	await(t, "the stalled frame has its memory", func() bool { return reserved() == size })
	var group sync.WaitGroup
	for range count {
		c := dial(t, addr)
		group.Go(func() {
			go c.Write(append(frameOf(payload), frameOf([]byte("next"))...))
			if got := receiveFrame(t, c); !bytes.Equal(got, payload) {
				t.Error("a large frame came back changed")
			}
			if got := string(receiveFrame(t, c)); got != "next" {
				t.Errorf("the frame behind is %q", got)
			}
		})
	}
	group.Wait()
	// Two hold all of it, a third waits and dies, a fourth gets its turn when the first two are gone.
	other, third, fourth := dial(t, addr), dial(t, addr), dial(t, addr)
	send(t, other, frameOf(payload)[:2<<20])
	await(t, "two frames hold all memory", func() bool { return reserved() == 2*size })
	waits := func(n int) func() bool {
		return func() bool {
			server.arrivals.mu.Lock()
			defer server.arrivals.mu.Unlock()
			found := 0
			for c := server.arrivals.first; c != nil; c = c.nextArrival {
				found++
			}
			return found == n
		}
	}
	go third.Write(frameOf(payload))
	await(t, "the third waits", waits(1))
	go fourth.Write(frameOf(payload))
	await(t, "the fourth waits", waits(2))
	reset(t, third)
	await(t, "the third has left the queue", waits(1))
	reset(t, stalled)
	if got := receiveFrame(t, fourth); !bytes.Equal(got, payload) {
		t.Error("the fourth frame came back changed")
	}
	reset(t, other)
	await(t, "all memory is back", func() bool { return reserved() == 0 })
}

func residentBytes(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// A flood of requests whose replies are withheld: reading stops at the limit of requests in flight and goes on when
// they are answered, and what was read beyond is bounded.
func TestPauseAndResumeUnderFlood(t *testing.T) {
	t.Parallel()
	const inFlight, count = 10, 20_000
	var mu sync.Mutex
	var open []*Slot
	most := 0
	more := make(chan struct{}, 1) // something is open
	h := &testHandler{
		frame: func(c *Conn, frame *bufpool.Buf) error {
			s := c.Reserve()
			s.Bytes(reply(frame.B))
			frame.Release()
			mu.Lock()
			defer mu.Unlock()
			open = append(open, s)
			select {
			case more <- struct{}{}:
			default:
			}
			most = max(most, len(open))
			if c.rest != nil && len(c.rest.B) > limits.NetRestBytes {
				t.Errorf("%d bytes lie unparsed", len(c.rest.B))
			}
			return nil
		},
	}
	_, addr := startServer(t, h, func(c *Config) { c.MaxInFlightPerConnection = inFlight })
	c := dial(t, addr)
	go func() {
		for i := range count {
			c.Write(frameOf(fmt.Appendf(nil, "%d", i)))
		}
	}()
	done := make(chan struct{})
	defer close(done)
	go func() { // answers whatever is open, newest first
		for {
			select {
			case <-done:
				return
			case <-more:
			}
			mu.Lock()
			answer := open
			open = nil
			mu.Unlock()
			for i := len(answer) - 1; i >= 0; i-- {
				answer[i].Done()
			}
		}
	}()
	for i := range count {
		if got := string(receiveFrame(t, c)); got != fmt.Sprint(i) {
			t.Fatalf("reply %d is %s", i, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most > inFlight {
		t.Errorf("%d requests were in flight, %d may be", most, inFlight)
	}
}

func TestMute(t *testing.T) {
	t.Parallel()
	const throttle = 150 * time.Millisecond
	var conn atomic.Pointer[Conn]
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		conn.Store(c)
		if string(frame.B) == "throttle me" {
			c.Mute(throttle)
			c.Mute(time.Millisecond) // another reason, which is shorter
		}
		return echo(c, frame)
	}}
	_, addr := startServer(t, h, nil)
	c := dial(t, addr)
	for range 3 {
		begun := time.Now()
		send(t, c, append(frameOf([]byte("throttle me")), frameOf([]byte("later"))...))
		if got := string(receiveFrame(t, c)); got != "throttle me" {
			t.Fatalf("got %q", got)
		}
		send(t, c, frameOf([]byte("and last")))
		if got := string(receiveFrame(t, c)); got != "later" {
			t.Fatalf("got %q", got)
		}
		if took := time.Since(begun); took < throttle {
			t.Errorf("the request behind a mute of %v was answered after %v", throttle, took)
		}
		if got := string(receiveFrame(t, c)); got != "and last" {
			t.Fatalf("got %q", got)
		}
	}
	// From another goroutine, and taken back.
	conn.Load().Mute(time.Hour)
	send(t, c, frameOf([]byte("muted")))
	conn.Load().Mute(0)
	if got := string(receiveFrame(t, c)); got != "muted" {
		t.Fatalf("got %q", got)
	}
}

func TestConnectionsPerIP(t *testing.T) {
	t.Parallel()
	const limit = 10
	server, addr := startServer(t, &testHandler{frame: echo}, func(c *Config) { c.MaxConnectionsPerIP = limit })
	for _, end := range []string{"close", "reset", "half a frame", "garbage"} {
		inside := 0
		var conns []net.Conn
		for range limit + 5 {
			c := dial(t, addr)
			conns = append(conns, c)
			if _, err := c.Write(frameOf([]byte("in?"))); err != nil {
				continue
			}
			var b [7]byte
			if n, _ := c.Read(b[:]); n > 0 {
				inside++
			}
		}
		if inside != limit {
			t.Errorf("%s: %d connections came in, the limit is %d", end, inside, limit)
		}
		for _, c := range conns {
			switch end {
			case "half a frame":
				c.Write([]byte{0, 0, 1, 0, 1, 2, 3})
			case "garbage":
				c.Write([]byte("GET / HTTP/1.0"))
			case "reset":
				reset(t, c)
			}
			c.Close()
		}
		await(t, "all places are free", func() bool { return server.Stats().Connections == 0 })
	}
	await(t, "all are counted", func() bool {
		stats := server.Stats()
		return stats.Accepted == 4*limit && stats.RefusedByIP == 4*5 && stats.AwaitedRoom == 0
	})
}

func TestMaxConnectionsWaits(t *testing.T) {
	t.Parallel()
	_, addr := startServer(t, &testHandler{frame: echo}, func(c *Config) { c.MaxConnections = 1 })
	first := dial(t, addr)
	send(t, first, frameOf([]byte("1")))
	receiveFrame(t, first)
	second := dial(t, addr) // lies in the system's queue
	send(t, second, frameOf([]byte("2")))
	first.Close()
	if got := string(receiveFrame(t, second)); got != "2" {
		t.Errorf("got %q", got)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 3)
	answer := make(chan *Slot, 1)
	h := &testHandler{
		frame: func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			answer <- c.Reserve()
			return nil
		},
		close: func(_ *Conn, err error) { closed <- err },
	}
	_, addr := startServer(t, h, func(c *Config) { c.ConnectionsMaxIdleMs = 100 })
	waiting := dial(t, addr) // for our answer: not idle
	send(t, waiting, frameOf(nil))
	slot := <-answer
	silent, half := dial(t, addr), dial(t, addr)
	send(t, half, []byte{0, 0, 1, 0, 1})
	for range 2 {
		if err := <-closed; !errors.Is(err, errIdle) {
			t.Errorf("closed with %v", err)
		}
	}
	expectClosed(t, silent)
	expectClosed(t, half)
	slot.Bytes(reply([]byte("at last")))
	slot.Done()
	if got := string(receiveFrame(t, waiting)); got != "at last" {
		t.Errorf("got %q", got)
	}
}

// memorySocket feeds a connection without a network.
type memorySocket struct {
	conn *Conn
	more []byte // what receive finds
	sent []byte
}

func (m *memorySocket) receive(first, second []byte) int {
	n := copy(first, m.more)
	m.more = m.more[n:]
	if n == len(first) {
		k := copy(second, m.more)
		m.more = m.more[k:]
		n += k
	}
	return n
}

func (m *memorySocket) send(vectors [][]byte, _ bool) (n int, err error) {
	for _, v := range vectors {
		m.sent = append(m.sent, v...)
		n += len(v)
	}
	return n, nil
}
func (m *memorySocket) sendFile(int, int64, int) (int, error) { return 0, errors.ErrUnsupported }
func (m *memorySocket) awaitWritable() error                  { return nil }
func (m *memorySocket) setReading(bool) error                 { return nil }
func (m *memorySocket) unsent() bool                          { return false }
func (m *memorySocket) shutdownSend() error                   { return nil }
func (m *memorySocket) detach() error                         { return nil }

func (m *memorySocket) close() {
	if !m.conn.isClosed {
		m.conn.closed(nil)
	}
}

func memoryConn(h Handler, maxRequestBytes int32) (*Conn, *memorySocket) {
	s := &Server{quota: newQuota(0, 0), arrivals: arrivals{limit: limits.NetArrivingBytes}}
	s.config = Config{Listeners: []Listener{{}}, Handler: h, MaxRequestBytes: maxRequestBytes}
	if err := s.config.complete(); err != nil {
		panic(err)
	}
	s.malformed.logger = s.config.Logger
	l := &loop{server: s, vectors: make([][]byte, 0, limits.NetIovecs), restLimit: limits.NetRestBytesPerLoop}
	l.chunk.begin()
	l.woken.Store(true) // there is no loop to wake
	c := &Conn{id: 1, server: s, loop: l}
	m := &memorySocket{conn: c}
	c.socket = m
	s.quota.enter(c.remote.Addr(), nil)
	c.open()
	return c, m
}

// feed is what the engine does with bytes that it has read.
func feed(c *Conn, data []byte, full bool) {
	h := &c.loop.chunk
	c.received(copy(c.loop.engineBuffer(), data), full)
	h.settle()
}

// Connections that are paused, each in the middle of much that came at once, together keep no more than the bound of
// their loop and one engine's read each, and lose nothing.
func TestPausedConnectionsKeepLittle(t *testing.T) {
	t.Parallel()
	const limit, count, frames = 1 << 20, 50, 100
	got := map[*Conn]int{}
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		if want := fmt.Sprintf("%05d", got[c]); string(frame.B[:5]) != want {
			t.Errorf("frame %q, want %s", frame.B[:5], want)
		}
		if got[c]++; got[c]%(frames/2) == 1 {
			c.mutedUntil.Store(math.MaxInt64)
		}
		frame.Release()
		return nil
	}}
	var shared *loop
	left := map[*Conn]*memorySocket{}
	for range count {
		c, socket := memoryConn(h, 1<<20)
		if shared == nil {
			shared = c.loop
			shared.restLimit = limit
		}
		c.loop.remove(c)
		c.loop = shared
		shared.add(c)
		for i := range frames {
			socket.more = append(socket.more, frameOf(fmt.Appendf(nil, "%05d%03000d", i, 0))...)
		}
		left[c] = socket
	}
	readOn := func(c *Conn, socket *memorySocket) {
		for len(socket.more) > 0 && c.rest == nil && c.mayTakeFrame() {
			buffer := len(c.loop.engineBuffer())
			n := min(len(socket.more), buffer)
			data := socket.more[:n]
			socket.more = socket.more[n:]
			feed(c, data, n == buffer)
			c.turn()
		}
	}
	for c, socket := range left {
		c.mutedUntil.Store(0)
		got[c] = 1 // the first frame does not pause: what is kept came behind the frame in the middle
		socket.more = socket.more[4+3005:]
		readOn(c, socket)
	}
	held := 0
	for c := range left {
		if c.rest != nil {
			held += bufpool.Capacity(len(c.rest.B))
		}
	}
	if most := limit + limits.NetRestBytes + count*limits.NetReadBufferLeastBytes; held != shared.restBytes || held > most || held < limit {
		t.Errorf("%d bytes are held, %d counted; at most %d and at least %d", held, shared.restBytes, most, limit)
	}
	for c, socket := range left {
		for len(socket.more) > 0 || c.rest != nil {
			c.mutedUntil.Store(0)
			c.turn()
			readOn(c, socket)
		}
		if got[c] != frames {
			t.Errorf("%d frames came, want %d", got[c], frames)
		}
		c.shut(nil)
	}
	if shared.restBytes != 0 {
		t.Errorf("%d bytes are still counted", shared.restBytes)
	}
}

// FuzzFrames cuts a stream into pieces of arbitrary size, some read by the engine and some directly. What comes out
// must be what a plain decoder finds, and nothing may leak.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03abc\x00\x00\x00\x00\x00\x00\x00\x01z"), []byte{1, 2, 3})
	f.Add([]byte("GET / HTTP/1.1\r\n"), []byte{4})
	f.Add([]byte("\x00\x00\x00\x02ab\x16\x03\x01\x00"), []byte{200})
	f.Add([]byte("\x7f\xff\xff\xff"), []byte{})
	f.Add(append([]byte("\x00\x00\x80\x00"), bytes.Repeat([]byte("q"), 0x8000+9)...), []byte{0x80, 7, 0xff})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		const maxBytes = 60_000
		var got [][]byte
		h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
			got = append(got, bytes.Clone(frame.B))
			return echo(c, frame)
		}}
		c, socket := memoryConn(h, maxBytes)
		if len(cuts)%2 == 1 {
			c.loop.restLimit = 0
		}
		left := stream
		for i := 0; len(left) > 0 && !c.isEnding(); i++ {
			cut := len(left)
			if i < len(cuts) {
				cut = min(cut, 1+int(cuts[i])*37%limits.NetReadBufferBytes)
			}
			cut = min(cut, len(c.loop.engineBuffer()))
			full := i < len(cuts) && cuts[i]&0x80 != 0
			if full {
				socket.more = left[cut:min(len(left), cut+int(cuts[i])*300)]
				piece := len(socket.more)
				feed(c, left[:cut], true)
				left = left[cut+piece-len(socket.more):]
				socket.more = nil
			} else {
				feed(c, left[:cut], false)
				left = left[cut:]
			}
			c.turn()
		}
		var want [][]byte
		bad := false
		for rest := stream; len(rest) >= 4; {
			size := int32(binary.BigEndian.Uint32(rest))
			if bad = size < 0 || size > maxBytes; bad || len(rest)-4 < int(size) {
				break
			}
			want = append(want, rest[4:4+size])
			rest = rest[4+size:]
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d differs", i)
			}
		}
		if c.isEnding() != bad {
			t.Fatalf("closing: %v, want %v", c.isEnding(), bad)
		}
		if !c.isClosed {
			c.shut(nil)
		}
	})
}
