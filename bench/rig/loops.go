package rig

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"
)

// RunEcho serves a bare gnet echo until the process is killed: what comes goes
// back, nothing is looked at. It is the limit for requests whose bytes do not
// matter.
func RunEcho(listen string) error {
	return gnet.Run(&echo{}, "tcp://"+listen, gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)), gnet.WithReuseAddr(true), gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithLogger(quietLogger()))
}

type echo struct{ gnet.BuiltinEventEngine }

func (*echo) OnTraffic(c gnet.Conn) gnet.Action {
	data, err := c.Next(-1)
	if err == nil {
		_, err = c.Write(data)
	}
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}

type silent struct{ *slog.Logger }

func (s silent) Debugf(string, ...any) {}
func (s silent) Infof(string, ...any)  {}
func (s silent) Warnf(string, ...any)  {}
func (s silent) Errorf(string, ...any) {}
func (s silent) Fatalf(string, ...any) {}

func quietLogger() logging.Logger {
	return silent{slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// Synced appends 4 KB to a file and forces it to stable storage, over and over
// for a time: the limit for an acknowledgement that means stable storage.
func Synced(dir string, length time.Duration) (found Latencies, err error) {
	file, err := os.Create(filepath.Join(dir, "synced"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	block, fd := make([]byte, 4096), int(file.Fd())
	for i := range block {
		block[i] = byte(i)
	}
	for begin := time.Now(); time.Since(begin) < length; {
		at := time.Now()
		if _, err := unix.Write(fd, block); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(fd); err != nil {
			return nil, err
		}
		found = append(found, time.Since(at))
	}
	slices.Sort(found)
	return found, nil
}

// Appends writes so many blocks to the ends of files in turn and returns the
// processor time of one pwrite: what the kernel asks for the same writes that a
// broker makes for requests to as many partitions. Each file has a directory of
// its own, and two blocks before it counts.
func Appends(dir string, files, writes, blockBytes int) (each time.Duration, err error) {
	dir, err = os.MkdirTemp(dir, "appends")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	opened := make([]*os.File, files)
	for i := range opened {
		if opened[i], err = createBelow(filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return 0, err
		}
		defer opened[i].Close()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	block := make([]byte, blockBytes)
	var from, to unix.Rusage
	for i := range 2*files + writes {
		if i == 2*files {
			if err := unix.Getrusage(unix.RUSAGE_THREAD, &from); err != nil {
				return 0, err
			}
		}
		if _, err := unix.Pwrite(int(opened[i%files].Fd()), block, int64(i/files)*int64(blockBytes)); err != nil {
			return 0, err
		}
	}
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &to); err != nil {
		return 0, err
	}
	used := to.Utime.Nano() + to.Stime.Nano() - from.Utime.Nano() - from.Stime.Nano()
	return time.Duration(used / int64(writes)), nil
}

func createBelow(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, "0.log"))
}
