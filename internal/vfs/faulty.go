package vfs

import "fmt"

// OpKind is a kind of operation that Faulty can see.
type OpKind uint8

// Kinds of operations.
const (
	OpOpen OpKind = iota
	OpCreate
	OpWrite
	OpTruncate
	OpAllocate
	OpMap
	OpAsk // a write to a window that asks first whether the file system takes it
	OpDatasync
	OpSyncDir
	OpRename
	OpRemove
	OpMkdir
)

// Op is one operation that is about to be made.
type Op struct {
	Kind   OpKind
	Name   string // the file or directory; of a rename, the old name
	Offset int64  // of a write, an allocation or a map, or the size of a truncation
	Len    int    // of a write, an allocation or a map
}

// ShortWrite is an error that a hook returns to let a write store its first Len bytes and then fail with Err.
type ShortWrite struct {
	Len int
	Err error
}

func (e *ShortWrite) Error() string { return fmt.Sprintf("after %d bytes: %v", e.Len, e.Err) }
func (e *ShortWrite) Unwrap() error { return e.Err }

// Faulty is a file system that asks a hook before each operation that changes something. The hook may return an error
// (injection), wait (delay) or look at the file system below (a crash point). It runs on the caller's goroutine, with no
// lock held, and may be called from several at once.
type Faulty struct {
	FS
	Before func(Op) error
}

func (f *Faulty) OpenFile(name string, flag Flag) (File, error) {
	kind := OpOpen
	if flag&(Create|Truncate) != 0 {
		kind = OpCreate
	}
	if err := f.before(Op{Kind: kind, Name: name}); err != nil {
		return nil, pathError("open", name, err)
	}
	file, err := f.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f, name}, nil
}

func (f *Faulty) before(op Op) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(op)
}

func (f *Faulty) Rename(from, to string) error {
	if err := f.before(Op{Kind: OpRename, Name: from}); err != nil {
		return pathError("rename", from, err)
	}
	return f.FS.Rename(from, to)
}

func (f *Faulty) Remove(name string) error {
	if err := f.before(Op{Kind: OpRemove, Name: name}); err != nil {
		return pathError("remove", name, err)
	}
	return f.FS.Remove(name)
}

func (f *Faulty) RemoveAll(name string) error {
	if err := f.before(Op{Kind: OpRemove, Name: name}); err != nil {
		return pathError("remove", name, err)
	}
	return f.FS.RemoveAll(name)
}

func (f *Faulty) Mkdir(name string) error {
	if err := f.before(Op{Kind: OpMkdir, Name: name}); err != nil {
		return pathError("mkdir", name, err)
	}
	return f.FS.Mkdir(name)
}

func (f *Faulty) SyncDir(dir string) error {
	if err := f.before(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return pathError("sync", dir, err)
	}
	return f.FS.SyncDir(dir)
}

type faultyFile struct {
	File
	f    *Faulty
	name string
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	return f.write(p, off, f.File.WriteAt)
}

// write asks the hook before each write, by whatever way.
func (f *faultyFile) write(p []byte, off int64, write func(p []byte, off int64) (int, error)) (int, error) {
	err := f.f.before(Op{Kind: OpWrite, Name: f.name, Offset: off, Len: len(p)})
	if err == nil {
		return write(p, off)
	}
	n := 0
	if short, ok := err.(*ShortWrite); ok {
		n, _ = write(p[:min(short.Len, len(p))], off) // the injected error is the one to report
	}
	return n, pathError("pwrite", f.name, err)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.f.before(Op{Kind: OpTruncate, Name: f.name, Offset: size}); err != nil {
		return pathError("truncate", f.name, err)
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Allocate(from, to int64) error {
	if err := f.f.before(Op{Kind: OpAllocate, Name: f.name, Offset: from, Len: int(to - from)}); err != nil {
		return pathError("fallocate", f.name, err)
	}
	return f.File.Allocate(from, to)
}

// MapWindow: a write to the window is an OpWrite, with an OpAsk in it where it asks.
func (f *faultyFile) MapWindow(from, to int64) (Window, error) {
	if err := f.f.before(Op{Kind: OpMap, Name: f.name, Offset: from, Len: int(to - from)}); err != nil {
		return Window{}, pathError("mmap", f.name, err)
	}
	w, err := f.File.MapWindow(from, to)
	if w.through == nil { // else asks come with a lock of Mem
		w.asks = func() error { return f.f.before(Op{Kind: OpAsk, Name: f.name}) }
	}
	w.Through(func(p []byte, off int64, write func(p []byte, off int64) error) error {
		_, err := f.write(p, off, func(p []byte, off int64) (int, error) { return len(p), write(p, off) })
		return err
	})
	return w, err
}

func (f *faultyFile) Datasync() error {
	if err := f.f.before(Op{Kind: OpDatasync, Name: f.name}); err != nil {
		return pathError("fdatasync", f.name, err)
	}
	return f.File.Datasync()
}

// WriteSync has a crash point between its two halves.
func (f *faultyFile) WriteSync(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Datasync()
}
