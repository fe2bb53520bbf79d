package netio

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"kaas/internal/bufpool"
)

func threadCPU(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkSendWays measures the sender's CPU for one gigabyte of file ranges of one size: sendfile, writev from a
// mapping, and writev from the heap, over loopback, sockets with the system's buffers, non-blocking as netio's. It is
// one half of why mapped ranges
// leave from their mapping; the other is BenchmarkDrain.
func BenchmarkSendWays(b *testing.B) {
	file, _, mapping := testFile(b, 64<<20)
	heap := append([]byte(nil), mapping...)
	for _, size := range []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20} {
		ways := []struct {
			name string
			send func(buffers *ioBuffers, fd, offset, n int) (int, error)
		}{
			{"sendfile", func(_ *ioBuffers, fd, offset, n int) (int, error) {
				return sendfile(fd, int(file.Fd()), int64(offset), n)
			}},
			{"mapping", func(buffers *ioBuffers, fd, offset, n int) (int, error) {
				return buffers.sendmsg(fd, [][]byte{mapping[offset : offset+n]}, false)
			}},
			{"header+sendfile", func(buffers *ioBuffers, fd, offset, n int) (int, error) {
				if n == size { // the reply begins
					if _, err := buffers.sendmsg(fd, [][]byte{heap[:100]}, true); err != nil {
						return 0, err
					}
				}
				return sendfile(fd, int(file.Fd()), int64(offset), n)
			}},
			{"header+mapping", func(buffers *ioBuffers, fd, offset, n int) (int, error) {
				if n == size {
					k, err := buffers.sendmsg(fd, [][]byte{heap[:100], mapping[offset : offset+n]}, false)
					return max(k-100, 0), err
				}
				return buffers.sendmsg(fd, [][]byte{mapping[offset : offset+n]}, false)
			}},
			{"heap", func(buffers *ioBuffers, fd, offset, n int) (int, error) {
				return buffers.sendmsg(fd, [][]byte{heap[offset : offset+n]}, false)
			}},
		}
		for _, way := range ways {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, way.name), func(b *testing.B) {
				fd := drainedSocket(b)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				buffers := new(ioBuffers)
				poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
				begun := threadCPU(b)
				var sent, calls int64
				for i := 0; b.Loop(); i++ {
					base := i * size % len(mapping)
					for n := 0; n < size; {
						k, err := way.send(buffers, fd, base+n, size-n)
						calls++
						n += k
						if err == unix.EAGAIN {
							if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
								b.Fatal(err)
							}
						} else if err != nil {
							b.Fatal(err)
						}
					}
					sent += int64(size)
				}
				b.ReportMetric((threadCPU(b)-begun).Seconds()/(float64(sent)/1e9), "cpu-s/GB")
				b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
				b.SetBytes(int64(size))
			})
		}
	}
}

// drainedSocket returns a non-blocking socket whose peer, a process of its own where possible, discards what comes.
func drainedSocket(b *testing.B) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		raw, _ := peer.(*net.TCPConn).File()
		peer.Close()
		fd := int(raw.Fd())
		unix.SetNonblock(fd, false)
		buf := make([]byte, 256<<10)
		for {
			if n, err := unix.Read(fd, buf); n <= 0 && err != unix.EINTR {
				raw.Close()
				return
			}
		}
	}()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		b.Fatal(err)
	}
	c.Close()
	fd := int(f.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return fd
}

// BenchmarkEcho sends 64-byte frames on 50 connections, one in flight on each, to netio and to a bare gnet echo of the
// same bytes in turn: the price of framing, slots and the reply queue.
func BenchmarkEcho(b *testing.B) {
	b.Run("netio", func(b *testing.B) {
		_, addr := startServer(b, &testHandler{frame: echo}, nil)
		benchmarkClients(b, addr)
	})
	b.Run("gnet", func(b *testing.B) {
		benchmarkClients(b, startGnetEcho(b))
	})
	b.Run("netio-other-goroutine", func(b *testing.B) {
		slots := make(chan *Slot, 1000)
		b.Cleanup(func() { close(slots) })
		go func() {
			for s := range slots {
				s.Bytes(bufpool.Get(68))
				s.Done()
			}
		}()
		h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			slots <- c.Reserve()
			return nil
		}}
		_, addr := startServer(b, h, nil)
		benchmarkClients(b, addr)
	})
}

type gnetEcho struct {
	gnet.BuiltinEventEngine
	booted chan gnet.Engine
}

func (g *gnetEcho) OnBoot(e gnet.Engine) gnet.Action { g.booted <- e; return gnet.None }
func (g *gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	data, _ := c.Next(-1)
	if _, err := c.Write(data); err != nil {
		return gnet.Close
	}
	return gnet.None
}

func startGnetEcho(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	g := &gnetEcho{booted: make(chan gnet.Engine, 1)}
	done := make(chan error, 1)
	go func() {
		done <- gnet.Run(g, "tcp://"+addr, gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)), gnet.WithReuseAddr(true), gnet.WithLogger(gnetLogger{slog.New(slog.DiscardHandler)}))
	}()
	engine := <-g.booted
	b.Cleanup(func() {
		if err := engine.Stop(b.Context()); err != nil {
			b.Log(err)
		}
		<-done
	})
	return addr
}

func processCPU(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchmarkClients runs b.N requests over 50 connections from one thread outside the scheduler's network poller: client
// and server share the process, so what is compared is the sum of both.
func benchmarkClients(b *testing.B, addr string) {
	const connections = 50
	var fds []int
	for range connections {
		var c net.Conn
		await(b, "the server answers", func() (ok bool) {
			var err error
			c, err = net.Dial("tcp", addr)
			return err == nil
		})
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
		b.Cleanup(func() { f.Close() })
		if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
			b.Fatal(err)
		}
		fds = append(fds, int(f.Fd()))
	}
	request, answer := frameOf(make([]byte, 64)), make([]byte, 68)
	b.ReportAllocs()
	b.ResetTimer()
	begun := processCPU(b)
	var group sync.WaitGroup
	group.Go(func() {
		for sent := 0; sent < b.N; sent += connections {
			n := min(connections, b.N-sent)
			for _, fd := range fds[:n] {
				if _, err := unix.Write(fd, request); err != nil {
					panic(err)
				}
			}
			for _, fd := range fds[:n] {
				if k, err := unix.Read(fd, answer); err != nil || k != len(answer) {
					panic(fmt.Sprint(k, err))
				}
			}
		}
	})
	group.Wait()
	b.ReportMetric(float64((processCPU(b)-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkReceive measures the server's CPU for one gigabyte of frames of one size that are thrown away: the whole
// process less the sending thread.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			_, addr := startServer(b, &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
				frame.Release()
				c.Reserve().Drop()
				return nil
			}}, nil)
			socket := dial(b, addr)
			f, err := socket.(*net.TCPConn).File()
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			fd := int(f.Fd())
			if err := unix.SetNonblock(fd, false); err != nil {
				b.Fatal(err)
			}
			frame := frameOf(make([]byte, size))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			begun, begunThread := processCPU(b), threadCPU(b)
			for b.Loop() {
				for left := frame; len(left) > 0; {
					n, err := unix.Write(fd, left)
					if err != nil {
						b.Fatal(err)
					}
					left = left[n:]
				}
			}
			used := processCPU(b) - begun - (threadCPU(b) - begunThread)
			b.ReportMetric(used.Seconds()/(float64(size)*float64(b.N)/1e9), "cpu-s/GB")
		})
	}
}

// BenchmarkDrain measures the server's CPU for one gigabyte of replies of a header and a file range, asked for on two
// connections by one thread that throws them away; "raw" is a goroutine per connection with a blocking sendfile loop.
func BenchmarkDrain(b *testing.B) {
	file, _, mapping := testFile(b, 1<<30)
	for _, size := range []int{16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20} {
		offset := 0
		next := func() int { offset = (offset + size) % len(mapping); return offset }
		for _, mem := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dKiB/netio/mapped=%v", size>>10, mem), func(b *testing.B) {
				server, addr := startServer(b, &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
					frame.Release()
					s := c.Reserve()
					s.Bytes(bufpool.Get(100))
					r := FileRange{FD: int(file.Fd()), Offset: int64(next()), Len: size}
					if mem {
						r.Mem = mapping[r.Offset : int(r.Offset)+size]
					}
					s.File(r)
					s.Done()
					return nil
				}}, func(c *Config) { c.NumNetworkThreads = 1 })
				drainFrom(b, addr, size)
				b.ReportMetric(float64(server.Stats().Wakes)/float64(b.N), "wakes/op")
			})
		}
		b.Run(fmt.Sprintf("%dKiB/raw", size>>10), func(b *testing.B) {
			drainFrom(b, rawSendfileServer(b, file, len(mapping), size), size)
		})
	}
}

func rawSendfileServer(b *testing.B, file *os.File, fileBytes, size int) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				f, err := c.(*net.TCPConn).File()
				if err != nil {
					panic(err)
				}
				c.Close()
				fd := int(f.Fd())
				defer f.Close()
				unix.SetNonblock(fd, false)
				buffers, header, request := new(ioBuffers), make([]byte, 100), make([]byte, 100)
				for offset := 0; ; offset = (offset + size) % fileBytes {
					if n, err := unix.Read(fd, request); n <= 0 || err != nil {
						return
					}
					if _, err := buffers.sendmsg(fd, [][]byte{header}, true); err != nil {
						return
					}
					for n := 0; n < size; {
						k, err := sendfile(fd, int(file.Fd()), int64(offset+n), size-n)
						if n += k; err != nil {
							unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
						}
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func drainFrom(b *testing.B, addr string, size int) {
	var fds [2]int
	for i := range fds {
		f, err := dial(b, addr).(*net.TCPConn).File()
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		fds[i] = int(f.Fd())
		if err := unix.SetNonblock(fds[i], false); err != nil {
			b.Fatal(err)
		}
	}
	request, buf := frameOf(make([]byte, 60)), make([]byte, 1<<20)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.SetBytes(2 * int64(size))
	begun, begunThread := processCPU(b), threadCPU(b)
	for b.Loop() {
		for _, fd := range fds {
			if _, err := unix.Write(fd, request); err != nil {
				b.Fatal(err)
			}
		}
		for _, fd := range fds {
			for left := size + 100; left > 0; {
				n, err := unix.Read(fd, buf[:min(left, len(buf))])
				if err != nil || n == 0 {
					b.Fatal(n, err)
				}
				left -= n
			}
		}
	}
	used := processCPU(b) - begun - (threadCPU(b) - begunThread)
	b.ReportMetric(used.Seconds()/(2*float64(size)*float64(b.N)/1e9), "cpu-s/GB")
}

// BenchmarkConnect opens a connection, asks once and closes, as tools and probes do.
func BenchmarkConnect(b *testing.B) {
	_, addr := startServer(b, &testHandler{frame: echo}, nil)
	request, answer := frameOf(make([]byte, 64)), make([]byte, 68)
	begun := processCPU(b)
	for b.Loop() {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
	b.ReportMetric(float64((processCPU(b)-begun).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkEchoAmongIdle is BenchmarkEcho's netio while so many other connections are open and silent.
func BenchmarkEchoAmongIdle(b *testing.B) {
	for _, idle := range []int{0, 1000, 5000} {
		b.Run(fmt.Sprint(idle), func(b *testing.B) {
			_, addr := startServer(b, &testHandler{frame: echo}, nil)
			for range idle {
				dial(b, addr)
			}
			benchmarkClients(b, addr)
		})
	}
}
