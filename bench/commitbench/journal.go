package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A journal takes the batches of a round in one write and one fdatasync; its blocks were written before. The files are
// written through the page cache, and synced when half of the journal is full, before that half is used again.
const journalHalfBytes = 32 << 20

type journal struct {
	*appended
	file   *os.File
	at     int64
	buffer []byte
	back   func(*appended) error // nil: nothing is written back
	done   chan error            // of the write-back that runs, nil: none
}

func openJournal(dir string, n, size, flags int, back func(*appended) error) (*run, error) {
	a, err := openAppended(dir, n, size, 0)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "journal")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	zero := make([]byte, 1<<20)
	for at := int64(0); at < 2*journalHalfBytes; at += int64(len(zero)) {
		if _, err := f.WriteAt(zero, at); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if f, err = os.OpenFile(name, os.O_RDWR|flags, 0); err != nil {
		return nil, err
	}
	j := &journal{appended: a, file: f, back: back, buffer: aligned((n*(size+40) + 4095) &^ 4095)}
	copy(j.buffer, randomBytes(len(j.buffer)))
	return &run{round: j.round, close: j.close}, nil
}

// aligned is a buffer that O_DIRECT takes.
func aligned(size int) []byte {
	b := make([]byte, size+4096)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 4095)
	return b[skip : skip+size]
}

func (j *journal) round() error {
	if err := j.append(); err != nil {
		return err
	}
	for i, f := range j.files { // what a commit copies
		if _, err := f.ReadAt(j.buffer[i*len(j.data):(i+1)*len(j.data)], j.appended.at-int64(len(j.data))); err != nil {
			return err
		}
	}
	size := int64(len(j.buffer))
	if half := j.at / journalHalfBytes; (j.at+size)/journalHalfBytes != half {
		if j.done != nil {
			if err := <-j.done; err != nil {
				return err
			}
			j.done = nil
		}
		if j.at = journalHalfBytes; half == 1 {
			j.at = 0
		}
		if j.back != nil {
			done := make(chan error, 1)
			j.done = done
			go func() { done <- j.back(j.appended) }()
		}
	}
	n, err := unix.Pwritev2(int(j.file.Fd()), [][]byte{j.buffer}, j.at, unix.RWF_DSYNC)
	if err == nil && n < len(j.buffer) {
		err = io.ErrShortWrite
	}
	j.at += size
	return err
}

func (j *journal) close() error {
	var err error
	if j.done != nil {
		err = <-j.done
	}
	return errors.Join(err, j.file.Close(), j.appended.close())
}

func journalOnly(dir string, n, size int) (*run, error) {
	return openJournal(dir, n, size, 0, nil)
}

func journalSerial(dir string, n, size int) (*run, error) {
	return openJournal(dir, n, size, 0, (*appended).syncSerial)
}

func journalPaced(dir string, n, size int) (*run, error) {
	return openJournal(dir, n, size, 0, (*appended).syncPaced)
}

func journalDirect(dir string, n, size int) (*run, error) {
	return openJournal(dir, n, size, unix.O_DIRECT, (*appended).syncSerial)
}

func journalDirectOnly(dir string, n, size int) (*run, error) {
	return openJournal(dir, n, size, unix.O_DIRECT, nil)
}

// syncPaced rests as long as each sync took.
func (a *appended) syncPaced() error {
	for _, f := range a.files {
		started := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		time.Sleep(time.Since(started))
	}
	return nil
}
