package netio

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
)

// socket is the seam between a connection and what moves its bytes. Plaintext is a gnet connection (gnetSocket); a TLS
// engine of goroutines implements it over a crypto/tls connection and calls the same Conn methods (received, turn,
// closed) while it holds that connection's turn. Every method is called by the connection's owner only.
type socket interface {
	// receive reads into the first, then the second slice without blocking. errWouldBlock: nothing there now. An error
	// or an end is not reported: it returns 0, and the engine notices and closes by itself.
	receive(first, second []byte) int
	// send writes the vectors in order without blocking. more: something follows at once, do not push a short segment.
	send(vectors [][]byte, more bool) (int, error)
	// sendFile sends up to count bytes of the file from offset without blocking.
	sendFile(file int, offset int64, count int) (int, error)
	// awaitWritable arranges for one call of Conn.writableAgain when the socket takes bytes again.
	awaitWritable() error
	// setReading pauses or resumes the calls of received.
	setReading(on bool) error
	// unsent says whether the system still holds bytes that the peer has not acknowledged.
	unsent() bool
	// shutdownSend tells the peer that nothing more comes, behind what was sent.
	shutdownSend() error
	// detach keeps the socket for replies although the engine, which has read the peer's end, closes its connection.
	detach() error
	// close ends the connection; Conn.closed follows, at once or when the running event returns.
	close()
}

// errWouldBlock is what a socket returns when it takes no bytes now.
const errWouldBlock = unix.EAGAIN

// ioBuffers are the system call arguments of one event loop. The kernel gets pointers into them, so they live on the
// heap once instead of escaping for each call. Owner: the loop.
type ioBuffers struct {
	vectors [limits.NetIovecs]unix.Iovec
	message unix.Msghdr
}

// readv reads into first, then second; (n, errno) as the system call says, retried when interrupted.
func (b *ioBuffers) readv(fd int, first, second []byte) (int, error) {
	if len(first) == 0 {
		first, second = second, nil
	}
	b.vectors[0].Base = unsafe.SliceData(first)
	b.vectors[0].SetLen(len(first))
	count := 1
	if len(second) > 0 {
		b.vectors[1].Base = unsafe.SliceData(second)
		b.vectors[1].SetLen(len(second))
		count = 2
	}
	for {
		n, _, errno := unix.Syscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&b.vectors[0])), uintptr(count))
		if errno == unix.EINTR {
			continue
		}
		b.vectors[0].Base, b.vectors[1].Base = nil, nil
		runtime.KeepAlive(first)
		runtime.KeepAlive(second)
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}

// sendmsg sends the vectors, at most limits.NetIovecs of them; retried when interrupted.
func (b *ioBuffers) sendmsg(fd int, vectors [][]byte, more bool) (int, error) {
	flags := unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	if more {
		flags |= unix.MSG_MORE
	}
	if len(vectors) == 1 {
		return sendto(fd, vectors[0], flags)
	}
	count := min(len(vectors), limits.NetIovecs)
	for i, v := range vectors[:count] {
		b.vectors[i].Base = unsafe.SliceData(v)
		b.vectors[i].SetLen(len(v))
	}
	b.message.Iov = &b.vectors[0]
	b.message.SetIovlen(count)
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.message)), uintptr(flags))
		if errno == unix.EINTR {
			continue
		}
		for i := range b.vectors[:count] {
			b.vectors[i].Base = nil // the loop must not keep a peer's buffers alive
		}
		runtime.KeepAlive(vectors)
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}

// sendto is sendmsg of one vector, without the arrays that the system would have to copy.
func sendto(fd int, p []byte, flags int) (int, error) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(flags), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}

func sendfile(fd, file int, offset int64, count int) (int, error) {
	for {
		n, err := unix.Sendfile(fd, file, &offset, count)
		if err == unix.EINTR {
			continue
		}
		return max(n, 0), err
	}
}
