package vfs

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// What a recording Mem assumes of a disk and its file system, the weakest that POSIX allows and that real ones come close
// to (docs/format/disks.md):
//
//   - contents of a file survive up to its last Datasync; of the writes and truncations after it any subset survives, a
//     write also as a prefix or as zeroes of its length, and one of a file that is opened Direct, which reaches the disk in
//     pieces of any order, as a suffix;
//   - entries of a directory survive up to its last SyncDir; of the changes after it a prefix survives; a rename within one
//     directory is one step;
//   - syncing a file does not make its name durable, and the other way round.
type durableState struct {
	content []byte              // of a file at its last Datasync
	fileOps []fileOp            // since then
	entries map[string]*memNode // of a directory at its last SyncDir
	dirOps  []dirOp             // since then
}

type fileOp struct {
	at       int64
	data     []byte
	truncate bool // to at
	direct   bool
}

// kinds is how many outcomes an operation has that was not synced.
func (op fileOp) kinds() int {
	switch {
	case op.truncate:
		return whole + 1
	case op.direct:
		return suffix + 1
	}
	return zeroes + 1
}

// dirOp puts node at name (nil: takes it away) and takes from away, in one step.
type dirOp struct {
	name, from string
	node       *memNode
}

// NewRecording returns an empty file system that remembers what was synced.
func NewRecording() *Mem { return newMem(true) }

// pendFile and pendDir note a change that is not yet durable. Owner: Mem.mu held.
func (m *Mem) pendFile(n *memNode, op fileOp) {
	if m.record {
		n.durable.fileOps = append(n.durable.fileOps, op)
	}
}

func (m *Mem) pendDir(n *memNode, op dirOp) {
	if m.record {
		n.durable.dirOps = append(n.durable.dirOps, op)
	}
}

func (d *durableState) syncFile() {
	for _, op := range d.fileOps {
		d.content = op.apply(d.content, whole)
	}
	d.fileOps = nil
}

func (d *durableState) syncDir() {
	if d.entries == nil {
		d.entries = map[string]*memNode{}
	}
	for _, op := range d.dirOps {
		op.apply(d.entries)
	}
	d.dirOps = nil
}

// What may become of a write that was not synced.
const (
	absent = iota
	whole
	prefix
	zeroes
	suffix
)

func (op fileOp) apply(content []byte, outcome int) []byte {
	if outcome == absent {
		return content
	}
	if op.truncate {
		if op.at <= int64(len(content)) {
			return content[:op.at:op.at]
		}
		return append(content, make([]byte, op.at-int64(len(content)))...)
	}
	data, at := op.data, op.at
	switch outcome {
	case prefix:
		data = data[:len(data)/2]
	case zeroes:
		data = make([]byte, len(data))
	case suffix:
		at, data = at+int64(len(data)/2), data[len(data)/2:]
	}
	if end := at + int64(len(data)); end > int64(len(content)) {
		content = append(content, make([]byte, end-int64(len(content)))...)
	}
	copy(content[at:], data)
	return content
}

func (op dirOp) apply(entries map[string]*memNode) {
	if op.from != "" {
		delete(entries, op.from)
	}
	if op.node == nil {
		delete(entries, op.name)
	} else {
		entries[op.name] = op.node
	}
}

// LosePages is what a failed sync of a file may do: what was written since the last good one stays readable, but no later sync
// makes it durable.
func (m *Mem) LosePages(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.find(name); n != nil {
		n.durable.fileOps = nil
	}
}

// Clone is what a crash at this moment leaves. choose(n) returns a number below n and decides over everything that was not
// synced, so that a test can enumerate the outcomes or draw them; nil: nothing of it survives. The clone records too, and
// everything in it is durable. The receiver goes on unharmed.
func (m *Mem) Clone(choose func(n int) int) (*Mem, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.record {
		panic("vfs: Clone of a Mem that does not record")
	}
	if choose == nil {
		choose = func(int) int { return absent }
	}
	c := NewRecording()
	made := map[*memNode]*memNode{}
	var err error
	c.root, err = cloneNode(m.root, choose, made)
	for _, n := range made {
		if n.fd >= 0 {
			c.keep(n.fd)
		}
	}
	return c, err
}

func cloneNode(n *memNode, choose func(int) int, made map[*memNode]*memNode) (*memNode, error) {
	if c := made[n]; c != nil {
		return c, nil
	}
	if n.children == nil {
		return cloneFile(n, choose, made)
	}
	c := newDirNode()
	made[n] = c
	entries := maps.Clone(n.durable.entries)
	if entries == nil {
		entries = map[string]*memNode{}
	}
	if ops := n.durable.dirOps; len(ops) > 0 {
		for _, op := range ops[:choose(len(ops)+1)] {
			op.apply(entries)
		}
	}
	for name, child := range sortedEntries(entries) {
		var err error
		if c.children[name], err = cloneNode(child, choose, made); err != nil {
			return nil, err
		}
	}
	c.durable.entries = maps.Clone(c.children)
	return c, nil
}

func cloneFile(n *memNode, choose func(int) int, made map[*memNode]*memNode) (*memNode, error) {
	content := append([]byte(nil), n.durable.content...)
	for _, op := range n.durable.fileOps {
		content = op.apply(content, choose(op.kinds()))
	}
	fd, err := unix.MemfdCreate("clone", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := osFile{fd: fd, name: "clone", memory: true}
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, err
	}
	c := &memNode{fd: fd, modifiedMs: n.modifiedMs}
	c.durable.content = content
	made[n] = c
	return c, nil
}

// sortedEntries yields in the order of names, so that equal choices make equal clones.
func sortedEntries(entries map[string]*memNode) func(yield func(string, *memNode) bool) {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return func(yield func(string, *memNode) bool) {
		for _, name := range names {
			if !yield(name, entries[name]) {
				return
			}
		}
	}
}
