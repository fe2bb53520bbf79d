package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Mem is a file system in memory. Files are memfds: FD, mmap and sendfile work as on a disk. Each file costs a descriptor,
// and so does each opening of it.
//
// A recording Mem (NewRecording) also knows what a crash would leave: see Clone.
type Mem struct {
	mu     sync.Mutex
	root   *memNode        // owner: mu, with everything below it
	locks  map[string]bool // owner: mu
	record bool            // immutable
	made   []int           // every memfd of a recording Mem, which closes none before Close; owner: mu
}

// memNode is a file or a directory. Owner: Mem.mu, except for the contents of the memfd.
type memNode struct {
	children   map[string]*memNode // nil: a file
	fd         int                 // the memfd that the node owns; -1 for directories
	modifiedMs int64
	durable    durableState // only when recording
}

// NewMem returns an empty file system in memory.
func NewMem() *Mem { return newMem(false) }

func newMem(record bool) *Mem {
	return &Mem{root: newDirNode(), locks: map[string]bool{}, record: record}
}

func newDirNode() *memNode { return &memNode{children: map[string]*memNode{}, fd: -1} }

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func split(name string) []string {
	name = strings.Trim(filepath.Clean(name), string(filepath.Separator))
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, string(filepath.Separator))
}

// find: owner mu held.
func (m *Mem) find(name string) *memNode {
	n := m.root
	for _, part := range split(name) {
		if n = n.children[part]; n == nil {
			return nil
		}
	}
	return n
}

// parent returns the directory of name and its last element; nil when it is missing. Owner: mu held.
func (m *Mem) parent(name string) (*memNode, string) {
	d := m.find(filepath.Dir(filepath.Clean(name)))
	if d == nil || d.children == nil {
		return nil, ""
	}
	return d, filepath.Base(name)
}

// OpenFile opens or makes a file.
func (m *Mem) OpenFile(name string, flag Flag) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base := m.parent(name)
	if d == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	node := d.children[base]
	switch {
	case node == nil && flag&Create == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case node != nil && flag&Exclusive != 0:
		return nil, pathError("open", name, fs.ErrExist)
	case node != nil && node.children != nil:
		return nil, pathError("open", name, unix.EISDIR)
	case node == nil:
		fd, err := unix.MemfdCreate(base, unix.MFD_CLOEXEC)
		if err != nil {
			return nil, pathError("memfd_create", name, err)
		}
		m.keep(fd)
		node = &memNode{fd: fd, modifiedMs: time.Now().UnixMilli()}
		m.link(d, base, node)
	}
	fd, err := unix.FcntlInt(uintptr(node.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := &memFile{osFile: osFile{fd: fd, name: name, memory: true}, m: m, node: node, direct: flag&Direct != 0}
	if flag&Truncate != 0 {
		if err := f.truncateLocked(0); err != nil {
			return nil, errors.Join(err, f.osFile.Close())
		}
	}
	return f, nil
}

// link and unlink change a directory. Owner: mu held.
func (m *Mem) link(d *memNode, name string, n *memNode) {
	d.children[name] = n
	m.pendDir(d, dirOp{name: name, node: n})
}

func (m *Mem) unlink(d *memNode, name string) {
	delete(d.children, name)
	m.pendDir(d, dirOp{name: name})
}

// memFile is an open file of a Mem.
type memFile struct {
	osFile
	m      *Mem
	node   *memNode
	direct bool
}

// ReadAt and WriteAt are as strict as a disk about what is opened Direct.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if f.direct && !directly(p, off) {
		return 0, f.fail("pread", unix.EINVAL)
	}
	return f.osFile.ReadAt(p, off)
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if f.direct && !directly(p, off) {
		return 0, f.fail("pwrite", unix.EINVAL)
	}
	if !f.m.record {
		return f.osFile.WriteAt(p, off)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	n, err := f.osFile.WriteAt(p, off)
	f.m.pendFile(f.node, fileOp{at: off, data: append([]byte(nil), p[:n]...), direct: f.direct})
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.truncateLocked(size)
}

func (f *memFile) truncateLocked(size int64) error {
	if err := f.osFile.Truncate(size); err != nil {
		return err
	}
	f.m.pendFile(f.node, fileOp{at: size, truncate: true})
	return nil
}

// Allocate is refused: memory would be taken at once.
func (f *memFile) Allocate(int64, int64) error { return f.fail("fallocate", unix.EOPNOTSUPP) }

// MapWindow is refused unless it is recorded: a write to memory is cheap. A write to the window is to the disk what any other
// is, and survives, or not, like one.
func (f *memFile) MapWindow(from, to int64) (Window, error) {
	if !f.m.record {
		return Window{}, f.fail("mmap", unix.EOPNOTSUPP)
	}
	w, err := f.mapWindow(from, to)
	w.Through(func(p []byte, off int64, write func(p []byte, off int64) error) error {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		if err := write(p, off); err != nil {
			return err
		}
		f.m.pendFile(f.node, fileOp{at: off, data: append([]byte(nil), p...)})
		return nil
	})
	return w, err
}

// Datasync has nothing to wait for; memory is as durable as it gets.
func (f *memFile) Datasync() error {
	if f.m.record {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		f.node.durable.syncFile()
	}
	return nil
}

func (f *memFile) WriteSync(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Datasync()
}

// Linked knows renames from the name of the opening only.
func (f *memFile) Linked() (bool, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.m.find(f.name) == f.node, nil
}

// MkdirAll makes name and what is missing above it.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, part := range split(name) {
		child := n.children[part]
		if child == nil {
			child = newDirNode()
			m.link(n, part, child)
		}
		if child.children == nil {
			return pathError("mkdir", name, unix.ENOTDIR)
		}
		n = child
	}
	return nil
}

// Mkdir makes one directory.
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base := m.parent(name)
	if d == nil {
		return pathError("mkdir", name, fs.ErrNotExist)
	}
	if d.children[base] != nil {
		return pathError("mkdir", name, fs.ErrExist)
	}
	m.link(d, base, newDirNode())
	return nil
}

// Rename replaces a file or an empty directory.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fromDir, fromBase := m.parent(from)
	toDir, toBase := m.parent(to)
	if fromDir == nil || toDir == nil || fromDir.children[fromBase] == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	node, old := fromDir.children[fromBase], toDir.children[toBase]
	if node == old {
		return nil
	}
	if old != nil && ((old.children == nil) != (node.children == nil) || len(old.children) > 0) {
		return pathError("rename", to, fs.ErrExist)
	}
	delete(fromDir.children, fromBase)
	toDir.children[toBase] = node
	if fromDir == toDir {
		m.pendDir(toDir, dirOp{name: toBase, node: node, from: fromBase}) // one step, also in a crash
	} else {
		m.pendDir(toDir, dirOp{name: toBase, node: node})
		m.pendDir(fromDir, dirOp{name: fromBase})
	}
	return m.drop(old)
}

func (m *Mem) keep(fd int) {
	if m.record {
		m.made = append(m.made, fd)
	}
}

// drop closes the memfds of what is not reachable any more; a recording Mem keeps them for Clone. Owner: mu held.
func (m *Mem) drop(n *memNode) error {
	if n == nil || m.record {
		return nil
	}
	var errs []error
	for _, child := range n.children {
		errs = append(errs, m.drop(child))
	}
	if n.fd >= 0 {
		errs = append(errs, unix.Close(n.fd))
	}
	return errors.Join(errs...)
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base := m.parent(name)
	if d == nil || d.children[base] == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	node := d.children[base]
	if len(node.children) > 0 {
		return pathError("remove", name, unix.ENOTEMPTY)
	}
	m.unlink(d, base)
	return m.drop(node)
}

// RemoveAll removes name with everything below it; nothing there is no error.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base := m.parent(name)
	if d == nil || d.children[base] == nil {
		return nil
	}
	node := d.children[base]
	m.unlink(d, base)
	return m.drop(node)
}

// List returns the entries of a directory by name.
func (m *Mem) List(dir string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(dir)
	if node == nil || node.children == nil {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	out := make([]Entry, 0, len(node.children))
	for name, child := range node.children {
		out = append(out, Entry{Name: name, Dir: child.children != nil})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// Stat describes one name.
func (m *Mem) Stat(name string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(name)
	if node == nil {
		return Entry{}, pathError("stat", name, fs.ErrNotExist)
	}
	e := Entry{Name: filepath.Base(name), Dir: node.children != nil, ModifiedMs: node.modifiedMs}
	if !e.Dir {
		var st unix.Stat_t
		if err := unix.Fstat(node.fd, &st); err != nil {
			return Entry{}, pathError("stat", name, err)
		}
		e.SizeBytes = st.Size
	}
	return e, nil
}

// SyncDir makes the directory's entries survive a crash.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(dir)
	if node == nil || node.children == nil {
		return pathError("sync", dir, fs.ErrNotExist)
	}
	node.durable.syncDir()
	return nil
}

// Usage is the machine's memory.
func (m *Mem) Usage(string) (totalBytes, usableBytes int64, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, 0, err
	}
	return int64(info.Totalram) * int64(info.Unit), int64(info.Freeram) * int64(info.Unit), nil
}

type memLock struct {
	m    *Mem
	name string
}

// Lock excludes other holders of this Mem.
func (m *Mem) Lock(name string) (Lock, error) {
	f, err := m.OpenFile(name, Create)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, &LockedError{Name: name}
	}
	m.locks[name] = true
	return &memLock{m, name}, nil
}

func (l *memLock) Unlock() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.name)
	return nil
}

// Close gives every memfd back; open files stay usable.
func (m *Mem) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, fd := range m.made {
		errs = append(errs, unix.Close(fd))
	}
	m.made = nil
	if !m.record {
		errs = append(errs, m.drop(m.root))
	}
	m.root = newDirNode()
	return errors.Join(errs...)
}
