package vfs

// FS is what the store needs of a file system. Names are paths; errors are *fs.PathError and match fs.ErrNotExist etc.
type FS interface {
	OpenFile(name string, flag Flag) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(name string) error
	Mkdir(name string) error
	List(dir string) ([]Entry, error) // sorted by name
	Stat(name string) (Entry, error)
	SyncDir(dir string) error // makes creations, renames and removals in dir durable
	Lock(name string) (Lock, error)
	Usage(dir string) (totalBytes, usableBytes int64, err error)
}

// Flag says how a file is opened; it is always readable and writable unless ReadOnly.
type Flag uint8

// Flags of OpenFile.
const (
	Create    Flag = 1 << iota // make it when it is missing
	Exclusive                  // with Create: fail with fs.ErrExist when it is there
	Truncate                   // empty it
	ReadOnly
	// Direct goes past the page cache: memory, position and length of each read and write are multiples of
	// DirectAlignment (AlignedBytes). A file system that can't do it refuses it at the opening or at the first write
	// (Refused). It promises nothing about durability: that is still Datasync's.
	Direct
)

// DirectAlignment is in bytes; the sectors of no disk in use are larger.
const DirectAlignment = 4096

// Entry is one name in a directory.
type Entry struct {
	Name       string
	Dir        bool
	Link       bool  // List only: a symbolic link; Dir tells of what it leads to
	Irregular  bool  // Stat only: neither file nor directory: a named pipe, socket or device
	SizeBytes  int64 // Stat only
	ModifiedMs int64 // Stat only
}

// File is an open file. All positions are explicit; there is no cursor.
type File interface {
	FD() int // for pread, sendfile, mmap, mincore; valid until Close
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	// Allocate reserves room on the disk for [from, to) behind the end of the file, whose size and contents stay as they are;
	// Truncate to the size gives it back. AllocatedBytes is the room that the file has, which may be less than its size.
	Allocate(from, to int64) error
	AllocatedBytes() (int64, error)
	Datasync() error // contents and the size; on error the caller must assume the pages are lost
	// WriteSync is WriteAt and then Datasync, which is about p at least, in one system call where that is possible: a disk
	// that takes single writes past its cache needs no flush.
	WriteSync(p []byte, off int64) error
	Linked() (bool, error) // whether the file still has a name
	Size() (int64, error)
	Map(length int) ([]byte, error) // read-only, shared; length may be larger than the file, touching beyond it is SIGBUS
	Unmap(b []byte) error
	// MapWindow maps [from, to), multiples of WindowPage, to be written; the part behind the end of the file may be touched
	// when the file has it. EOPNOTSUPP: it is not worth it here.
	MapWindow(from, to int64) (Window, error)
	Close() error
}

// Lock is an exclusive advisory lock on a file.
type Lock interface{ Unlock() error }
