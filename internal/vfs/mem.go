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

// NewMem returns an empty file system in memory. Files are memfds: FD, mmap and sendfile work. Each open file and each
// name costs a descriptor.
func NewMem() *Mem {
	return &Mem{nodes: map[string]*memNode{}, locks: map[string]bool{}}
}

// Mem is a file system in memory. Directories that are not there come into being with their first entry.
type Mem struct {
	mu    sync.Mutex
	nodes map[string]*memNode // by clean path; owner: mu
	locks map[string]bool     // owner: mu
}

type memNode struct {
	dir        bool
	fd         int // a memfd that the node owns; -1 for directories
	modifiedMs int64
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func (m *Mem) OpenFile(name string, flag Flag) (File, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.nodes[name]
	switch {
	case node == nil && flag&Create == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case node != nil && flag&Exclusive != 0:
		return nil, pathError("open", name, fs.ErrExist)
	case node != nil && node.dir:
		return nil, pathError("open", name, unix.EISDIR)
	case node == nil:
		if err := m.checkParent(name); err != nil {
			return nil, pathError("open", name, err)
		}
		fd, err := unix.MemfdCreate(filepath.Base(name), unix.MFD_CLOEXEC)
		if err != nil {
			return nil, pathError("memfd_create", name, err)
		}
		node = &memNode{fd: fd, modifiedMs: time.Now().UnixMilli()}
		m.nodes[name] = node
	}
	if flag&Truncate != 0 {
		if err := unix.Ftruncate(node.fd, 0); err != nil {
			return nil, pathError("truncate", name, err)
		}
	}
	fd, err := unix.FcntlInt(uintptr(node.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{osFile{fd: fd, name: name}}, nil
}

// memFile is a descriptor whose memory is as durable as it gets.
type memFile struct{ osFile }

func (*memFile) Datasync() error { return nil }

// checkParent: owner mu held.
func (m *Mem) checkParent(name string) error {
	parent := m.nodes[filepath.Dir(name)]
	if parent == nil {
		return fs.ErrNotExist
	}
	if !parent.dir {
		return unix.ENOTDIR
	}
	return nil
}

func (m *Mem) MkdirAll(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if node := m.nodes[name]; node != nil && !node.dir {
			return pathError("mkdir", name, unix.ENOTDIR)
		} else if node == nil {
			m.nodes[name] = &memNode{dir: true, fd: -1}
		}
		parent := filepath.Dir(name)
		if parent == name {
			return nil
		}
		name = parent
	}
}

func (m *Mem) Mkdir(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[name] != nil {
		return pathError("mkdir", name, fs.ErrExist)
	}
	if err := m.checkParent(name); err != nil {
		return pathError("mkdir", name, err)
	}
	m.nodes[name] = &memNode{dir: true, fd: -1}
	return nil
}

func (m *Mem) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.nodes[from]
	if node == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	if err := m.checkParent(to); err != nil {
		return pathError("rename", to, err)
	}
	if from == to {
		return nil
	}
	if old := m.nodes[to]; old != nil {
		if old.dir != node.dir || (old.dir && m.hasChildren(to)) {
			return pathError("rename", to, fs.ErrExist)
		}
		if err := old.close(); err != nil {
			return err
		}
	}
	delete(m.nodes, from)
	m.nodes[to] = node
	if node.dir {
		m.moveChildren(from, to)
	}
	return nil
}

// moveChildren: owner mu held.
func (m *Mem) moveChildren(from, to string) {
	prefix := from + string(filepath.Separator)
	moved := map[string]*memNode{}
	for name, node := range m.nodes {
		if strings.HasPrefix(name, prefix) {
			moved[filepath.Join(to, name[len(prefix):])] = node
			delete(m.nodes, name)
		}
	}
	for name, node := range moved {
		m.nodes[name] = node
	}
}

// hasChildren: owner mu held.
func (m *Mem) hasChildren(dir string) bool {
	prefix := dir + string(filepath.Separator)
	for name := range m.nodes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (n *memNode) close() error {
	if n.fd < 0 {
		return nil
	}
	return unix.Close(n.fd)
}

func (m *Mem) Remove(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.nodes[name]
	if node == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if node.dir && m.hasChildren(name) {
		return pathError("remove", name, unix.ENOTEMPTY)
	}
	delete(m.nodes, name)
	return node.close()
}

func (m *Mem) RemoveAll(name string) error {
	name = filepath.Clean(name)
	prefix := name + string(filepath.Separator)
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for other, node := range m.nodes {
		if other == name || strings.HasPrefix(other, prefix) {
			delete(m.nodes, other)
			errs = append(errs, node.close())
		}
	}
	return errors.Join(errs...)
}

func (m *Mem) List(dir string) ([]Entry, error) {
	dir = filepath.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if node := m.nodes[dir]; node == nil || !node.dir {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	var out []Entry
	for name, node := range m.nodes {
		if name != dir && filepath.Dir(name) == dir {
			out = append(out, Entry{Name: filepath.Base(name), Dir: node.dir})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (m *Mem) Stat(name string) (Entry, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.nodes[name]
	if node == nil {
		return Entry{}, pathError("stat", name, fs.ErrNotExist)
	}
	e := Entry{Name: filepath.Base(name), Dir: node.dir, ModifiedMs: node.modifiedMs}
	if !node.dir {
		var st unix.Stat_t
		if err := unix.Fstat(node.fd, &st); err != nil {
			return Entry{}, pathError("stat", name, err)
		}
		e.SizeBytes = st.Size
	}
	return e, nil
}

func (m *Mem) SyncDir(dir string) error {
	_, err := m.Stat(dir)
	return err
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
