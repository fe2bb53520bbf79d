package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// rawServer is the physical limit that a broker is measured against: it reads
// from the socket, checks CRC32C, appends to a file, and sends the file back.
// One thread, one epoll, no promise of any kind: no recovery, no validation,
// no second client that could be slow. With sync it forces each file that was
// appended to before it answers what one epoll round has brought: the limit
// for acknowledgements that mean stable storage.
//
// It understands the frames of frames.go and nothing else, and answers them
// in bytes that the generator cannot tell from a broker's.
//
// Everything belongs to the one goroutine in run.
type rawServer struct {
	epoll      int
	listener   int
	mapped     bool // send by mmap and writev instead of by sendfile
	sync       bool // fdatasync before the answers of a round
	dir        string
	conns      map[int]*rawConn
	partitions []*rawPartition
	answered   []*rawConn // have acks of this round
	waiting    []*rawConn // parked fetches, in order of arrival
}

// rawPartition is one file of batches that all have the same size.
type rawPartition struct {
	fd             int
	bytes          int64 // appended
	visible        int64 // to fetches; behind bytes until the round's end
	batchBytes     int64
	recordsInBatch int64
	view           []byte // mapping of the whole file to come, if mapped
}

// rawConn is one client. in[parsed:filled] has come and is not parsed yet; in
// starts at a frame. out is what could not be sent yet.
type rawConn struct {
	fd     int
	in     []byte
	filled int
	acks   []byte
	out    []rawPiece
	armed  bool   // EPOLLOUT is asked for
	fetch  []byte // the parked request, a copy
}

// rawPiece is bytes, or a range of a file when fd is not 0.
type rawPiece struct {
	b      []byte
	fd     int
	offset int64
	length int
}

const (
	rawInputBytes = 512 << 10
	rawFileBytes  = 64 << 30 // address space for one mapped partition, not memory
)

var errRawClosed = errors.New("the client closed the connection")

// RunRaw serves until the process is killed.
func RunRaw(listen, dir string, partitions int, mapped, sync bool) error {
	runtime.LockOSThread()
	address, err := netip.ParseAddrPort(listen)
	if err != nil {
		return err
	}
	s := &rawServer{mapped: mapped, sync: sync, dir: dir, conns: map[int]*rawConn{}}
	for i := range partitions {
		if err := s.open(i); err != nil {
			return err
		}
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Bind(s.listener, &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}); err != nil {
		return err
	}
	if err := unix.Listen(s.listener, 128); err != nil {
		return err
	}
	if err := s.watch(unix.EPOLL_CTL_ADD, s.listener, unix.EPOLLIN); err != nil {
		return err
	}
	return s.run()
}

func (s *rawServer) open(partition int) error {
	file, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%d.log", partition)))
	if err != nil {
		return err
	}
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	p := &rawPartition{fd: fd}
	if s.mapped {
		// Pages beyond the end of the file are never touched.
		if p.view, err = unix.Mmap(fd, 0, rawFileBytes, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
			return fmt.Errorf("map partition %d: %w", partition, err)
		}
	}
	s.partitions = append(s.partitions, p)
	return nil
}

func (s *rawServer) watch(operation, fd int, events uint32) error {
	return unix.EpollCtl(s.epoll, operation, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (s *rawServer) run() error {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, event := range events[:max(n, 0)] {
			if int(event.Fd) == s.listener {
				if err := s.accept(); err != nil {
					return err
				}
				continue
			}
			c := s.conns[int(event.Fd)]
			if err := s.serve(c, event.Events); err != nil {
				s.drop(c)
				if !errors.Is(err, errRawClosed) {
					return err
				}
			}
		}
		if err := s.commit(); err != nil {
			return err
		}
		if err := s.answerWaiting(); err != nil {
			return err
		}
	}
}

// commit ends a round: what it has appended becomes visible and is answered.
func (s *rawServer) commit() error {
	if len(s.answered) == 0 {
		return nil
	}
	for i, p := range s.partitions {
		if p.visible == p.bytes {
			continue
		}
		if s.sync {
			if err := unix.Fdatasync(p.fd); err != nil {
				return fmt.Errorf("sync partition %d: %w", i, err)
			}
		}
		p.visible = p.bytes
	}
	for _, c := range s.answered {
		c.out = append(c.out, rawPiece{b: c.acks})
		c.acks = nil
		if err := s.flush(c); err != nil {
			s.drop(c)
		}
	}
	s.answered = s.answered[:0]
	return nil
}

func (s *rawServer) accept() error {
	fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	s.conns[fd] = &rawConn{fd: fd, in: make([]byte, rawInputBytes)}
	return s.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN)
}

func (s *rawServer) drop(c *rawConn) {
	delete(s.conns, c.fd)
	_ = unix.Close(c.fd) // the client is gone anyway
	c.fetch = nil
}

func (s *rawServer) serve(c *rawConn, events uint32) error {
	if events&unix.EPOLLOUT != 0 {
		if err := s.flush(c); err != nil {
			return err
		}
	}
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return nil
	}
	n, err := unix.Read(c.fd, c.in[c.filled:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil || n == 0:
		return errRawClosed
	}
	c.filled += n
	parsed := 0
	for c.filled-parsed >= 4 {
		length := 4 + int(binary.BigEndian.Uint32(c.in[parsed:]))
		if length > len(c.in) {
			return fmt.Errorf("a frame of %d bytes is more than the raw loop takes", length)
		}
		if c.filled-parsed < length {
			break
		}
		if err := s.handle(c, c.in[parsed:parsed+length]); err != nil {
			return err
		}
		parsed += length
	}
	copy(c.in, c.in[parsed:c.filled])
	c.filled -= parsed
	if len(c.acks) > 0 {
		s.answered = append(s.answered, c)
	}
	return nil
}

func (s *rawServer) handle(c *rawConn, request []byte) error {
	key := int16(binary.BigEndian.Uint16(request[4:]))
	body := 14 + len(clientID)
	switch key {
	case keyProduce:
		return s.produce(c, request, body)
	case keyFetch:
		c.fetch = append(c.fetch[:0], request...)
		s.waiting = append(s.waiting, c)
		return nil
	case keyAPIVersions:
		a := frame{b: c.acks}
		a.int32(4 + 2 + 4).int32(int32(binary.BigEndian.Uint32(request[8:]))).int16(0).int32(0) // no error, no keys
		c.acks = a.b
		return nil
	}
	return fmt.Errorf("the raw loop has no API key %d", key)
}

// produce appends and answers; the layout is that of ProduceFrame.
func (s *rawServer) produce(c *rawConn, request []byte, body int) error {
	be := binary.BigEndian
	at := body + 2 + 2 + 4 + 4 // transactional id, acks, timeout, number of topics
	topic := request[at : at+2+int(be.Uint16(request[at:]))]
	at += len(topic) + 4
	partition := int(be.Uint32(request[at:]))
	batch := request[at+8:]
	p := s.partitions[partition]
	if crc32.Checksum(batch[21:], castagnoli) != be.Uint32(batch[17:]) {
		return fmt.Errorf("partition %d: a batch with a wrong CRC", partition)
	}
	if p.bytes == 0 {
		p.batchBytes = int64(len(batch))
		p.recordsInBatch = int64(be.Uint32(batch[57:]))
	}
	base := p.bytes / p.batchBytes * p.recordsInBatch
	be.PutUint64(batch, uint64(base))
	be.PutUint32(batch[12:], 0)
	if n, err := unix.Write(p.fd, batch); err != nil || n != len(batch) {
		return fmt.Errorf("append to partition %d: %d bytes, %w", partition, n, err)
	}
	p.bytes += int64(len(batch))

	a := frame{b: c.acks}
	start := len(a.b)
	a.int32(0).int32(int32(be.Uint32(request[8:]))).int32(1)
	a.b = append(a.b, topic...)
	a.int32(1).int32(int32(partition)).int16(0).int64(base).int64(-1).int64(0)
	a.int32(0).int16(-1).int32(0) // no record errors, no message, no throttling
	be.PutUint32(a.b[start:], uint32(len(a.b)-start-4))
	c.acks = a.b
	return nil
}

// answerWaiting answers each parked fetch for which there is something now.
func (s *rawServer) answerWaiting() error {
	kept := s.waiting[:0]
	for _, c := range s.waiting {
		if c.fetch == nil {
			continue // the client has gone
		}
		done, err := s.answerFetch(c)
		switch {
		case errors.Is(err, errRawClosed):
			s.drop(c)
		case err != nil:
			return err
		case !done:
			kept = append(kept, c)
		}
	}
	s.waiting = kept
	return nil
}

func (s *rawServer) answerFetch(c *rawConn) (done bool, err error) {
	be := binary.BigEndian
	request := c.fetch
	at := 14 + len(clientID)
	room := int64(be.Uint32(request[at+12:])) // replica, wait and least size stand before it
	at += 17 + 8 + 4                          // wait and sizes, session, number of topics
	topic := request[at : at+2+int(be.Uint16(request[at:]))]
	at += len(topic)
	count := int(be.Uint32(request[at:]))
	at += 4
	head := frame{b: make([]byte, 4, 64)}
	head.int32(int32(be.Uint32(request[8:]))).int32(0).int16(0).int32(0).int32(1)
	head.b = append(head.b, topic...)
	head.int32(int32(count))
	pieces := []rawPiece{{b: head.b}}
	size, records := len(head.b)-4, 0
	for range count {
		index, offset, most := int(be.Uint32(request[at:])), int64(be.Uint64(request[at+8:])), int64(be.Uint32(request[at+24:]))
		at += 28
		p := s.partitions[index]
		position, length := int64(0), int64(0)
		if p.bytes > 0 {
			position = offset / p.recordsInBatch * p.batchBytes
			length = min(p.visible-position, max(most/p.batchBytes, 1)*p.batchBytes, (room+p.batchBytes-1)/p.batchBytes*p.batchBytes)
			room = max(room-length, 0)
		}
		part := frame{b: make([]byte, 0, fetchPartitionHeaderBytes)}
		end := int64(0)
		if p.bytes > 0 {
			end = p.visible / p.batchBytes * p.recordsInBatch
		}
		part.int32(int32(index)).int16(0).int64(end).int64(end).int64(0).int32(-1).int32(-1).int32(int32(length))
		pieces = append(pieces, rawPiece{b: part.b})
		size += len(part.b) + int(length)
		records += int(length)
		switch {
		case length == 0:
		case s.mapped:
			pieces = append(pieces, rawPiece{b: p.view[position : position+length]})
		default:
			pieces = append(pieces, rawPiece{fd: p.fd, offset: position, length: int(length)})
		}
	}
	if records == 0 {
		return false, nil
	}
	be.PutUint32(pieces[0].b, uint32(size))
	c.fetch = c.fetch[:0]
	c.out = append(c.out, pieces...)
	return true, s.flush(c)
}

// flush sends until everything has left or the socket is full.
func (s *rawServer) flush(c *rawConn) error {
	for len(c.out) > 0 {
		var n int
		var err error
		if c.out[0].fd != 0 {
			n, err = unix.Sendfile(c.fd, c.out[0].fd, &c.out[0].offset, c.out[0].length)
			c.out[0].length -= max(n, 0)
			if c.out[0].length == 0 {
				c.out = c.out[1:]
			}
		} else {
			_, err = s.flushBytes(c)
		}
		if errors.Is(err, unix.EAGAIN) {
			return s.arm(c, true)
		}
		if err != nil {
			return errRawClosed
		}
	}
	c.out = nil
	return s.arm(c, false)
}

// flushBytes sends the bytes before the next range of a file.
func (s *rawServer) flushBytes(c *rawConn) (int, error) {
	var vector [][]byte
	for _, piece := range c.out {
		if piece.fd != 0 || len(vector) == 64 {
			break
		}
		vector = append(vector, piece.b)
	}
	flags := 0
	if len(vector) < len(c.out) {
		flags = unix.MSG_MORE // the head of a partition leaves together with its records
	}
	n, err := unix.SendmsgBuffers(c.fd, vector, nil, nil, flags|unix.MSG_NOSIGNAL)
	for left := max(n, 0); left > 0; {
		if left < len(c.out[0].b) {
			c.out[0].b = c.out[0].b[left:]
			return n, err
		}
		left -= len(c.out[0].b)
		c.out = c.out[1:]
	}
	return n, err
}

func (s *rawServer) arm(c *rawConn, writable bool) error {
	if c.armed == writable {
		return nil
	}
	c.armed = writable
	events := uint32(unix.EPOLLIN)
	if writable {
		events |= unix.EPOLLOUT
	}
	return s.watch(unix.EPOLL_CTL_MOD, c.fd, events)
}
