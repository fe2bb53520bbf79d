package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// ProducerIDs hands out producer ids. The file (docs/format/producer-ids.md) holds the first id that no process has
// reserved; a block is reserved by replacing it, durably, before an id of the block is used. A crash loses the rest of a
// block, never an id twice.
type ProducerIDs struct {
	fs  vfs.FS
	dir string

	mu       sync.Mutex
	nextID   int64 // owner: mu
	reserved int64 // first id that is not reserved; owner: mu
}

// Open reads the file in a log directory.
func (p *ProducerIDs) Open(fsys vfs.FS, dir string) error {
	p.fs, p.dir = fsys, dir
	name := filepath.Join(dir, ProducerIDsName)
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	version, rest, _ := strings.Cut(strings.TrimRight(string(b), "\n"), "\n")
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || version != "0" || n < 0 {
		return fmt.Errorf("%s holds %q: restore it, or write a number above every producer id that was ever used", name, b)
	}
	p.nextID, p.reserved = n, n
	return nil
}

// Next returns an id that was never returned before.
func (p *ProducerIDs) Next() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nextID == p.reserved {
		reserved := p.reserved + limits.ProducerIDBlock
		if err := vfs.WriteFileAtomic(p.fs, filepath.Join(p.dir, ProducerIDsName), p.dir, fmt.Appendf(nil, "0\n%d\n", reserved)); err != nil {
			return 0, fmt.Errorf("producer ids: %w", err)
		}
		p.reserved = reserved
	}
	id := p.nextID
	p.nextID++
	return id, nil
}
