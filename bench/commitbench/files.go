package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// parallel is how many syncs run at once, as in the log store (limits.FlushWorkers).
const parallel = 64

// appended are n files that grow together.
type appended struct {
	files []*os.File
	at    int64
	limit int64 // of pre-written files: begin again there
	data  []byte
}

// openAppended makes the files; those that are pre-written have their blocks allocated, filled and synced.
func openAppended(dir string, n, size int, prewritten int64) (*appended, error) {
	a := &appended{data: randomBytes(size), limit: prewritten}
	for i := range n {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i, ".log")))
		if err != nil {
			return nil, err
		}
		a.files = append(a.files, f)
		for at := int64(0); at < prewritten; at += 64 << 10 {
			if _, err := f.WriteAt(make([]byte, 64<<10), at); err != nil {
				return nil, err
			}
		}
	}
	return a, syncAll(dir)
}

func (a *appended) append() error {
	if a.limit > 0 && a.at+int64(len(a.data)) > a.limit {
		a.at = 0
	}
	for _, f := range a.files {
		if _, err := f.WriteAt(a.data, a.at); err != nil {
			return err
		}
	}
	a.at += int64(len(a.data))
	return nil
}

func (a *appended) close() error {
	var errs []error
	for _, f := range a.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (a *appended) run(commit func() error) *run {
	return &run{close: a.close, round: func() error {
		if err := a.append(); err != nil {
			return err
		}
		return commit()
	}}
}

func (a *appended) syncSerial() error {
	for _, f := range a.files {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
	}
	return nil
}

func (a *appended) syncParallel() error {
	var wg sync.WaitGroup
	next := make(chan *os.File, len(a.files))
	for _, f := range a.files {
		next <- f
	}
	close(next)
	errs := make(chan error, len(a.files))
	for range min(parallel, len(a.files)) {
		wg.Go(func() {
			for f := range next {
				errs <- unix.Fdatasync(int(f.Fd()))
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func serialSync(dir string, n, size int) (*run, error) {
	a, err := openAppended(dir, n, size, 0)
	if err != nil {
		return nil, err
	}
	return a.run(a.syncSerial), nil
}

func parallelSync(dir string, n, size int) (*run, error) {
	a, err := openAppended(dir, n, size, 0)
	if err != nil {
		return nil, err
	}
	return a.run(a.syncParallel), nil
}

func prewrittenParallel(dir string, n, size int) (*run, error) {
	a, err := openAppended(dir, n, size, 2<<20)
	if err != nil {
		return nil, err
	}
	return a.run(a.syncParallel), nil
}

// prewrittenRange writes the pages of all files and flushes the device once, by the fdatasync of one of them. The blocks
// are written already, so that no metadata has to follow; only a local disk has one cache for all files.
func prewrittenRange(dir string, n, size int) (*run, error) {
	a, err := openAppended(dir, n, size, 2<<20)
	if err != nil {
		return nil, err
	}
	return a.run(func() error {
		for _, flags := range []int{unix.SYNC_FILE_RANGE_WRITE, unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER} {
			for _, f := range a.files {
				if err := unix.SyncFileRange(int(f.Fd()), a.at-int64(len(a.data)), int64(len(a.data)), flags); err != nil {
					return err
				}
			}
		}
		return unix.Fdatasync(int(a.files[0].Fd()))
	}), nil
}

func fileSystemSync(dir string, n, size int) (*run, error) {
	a, err := openAppended(dir, n, size, 0)
	if err != nil {
		return nil, err
	}
	return a.run(func() error { return unix.Syncfs(int(a.files[0].Fd())) }), nil
}
