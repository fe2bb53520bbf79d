package checkpoint

import (
	"errors"
	"fmt"
	"hash/crc32"
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

// Open reads the file in a log directory. false: it is missing or says nothing, so which ids were given out is not known;
// nothing is handed out before StartAbove.
func (p *ProducerIDs) Open(fsys vfs.FS, dir string) (known bool, err error) {
	p.fs, p.dir = fsys, dir
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, ProducerIDsName), limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, ok := parseProducerIDs(b)
	p.nextID, p.reserved = n, n
	return ok, nil
}

// parseProducerIDs takes nothing but the whole file: a number whose last digits are missing, or one of whose digits is another
// one, may be a smaller one. Version 0, of earlier versions, has no checksum.
func parseProducerIDs(b []byte) (next int64, ok bool) {
	lines := strings.Split(string(b), "\n")
	if len(lines) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	text := string(b)
	return n, text == string(encodeProducerIDs(n)) || text == fmt.Sprintf("0\n%d\n", n)
}

func encodeProducerIDs(next int64) []byte {
	text := fmt.Appendf(nil, "1\n%d\n", next)
	return fmt.Appendf(text, "%08x\n", crc32.Checksum(text, castagnoli))
}

// Behind says that an id was given out which the file takes for new.
func (p *ProducerIDs) Behind(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return id >= p.reserved
}

// StartAbove sets the first id where the file did not know it. An error says that the next start will not know it either.
func (p *ProducerIDs) StartAbove(id int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextID, p.reserved = id+1, id+1
	return p.write(p.reserved)
}

// write: owner mu held.
func (p *ProducerIDs) write(reserved int64) error {
	if err := vfs.WriteFileAtomic(p.fs, filepath.Join(p.dir, ProducerIDsName), p.dir, encodeProducerIDs(reserved)); err != nil {
		return fmt.Errorf("producer ids: %w", err)
	}
	return nil
}

// Next returns an id that was never returned before.
func (p *ProducerIDs) Next() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nextID == p.reserved {
		reserved := p.reserved + limits.ProducerIDBlock
		if err := p.write(reserved); err != nil {
			return 0, err
		}
		p.reserved = reserved
	}
	id := p.nextID
	p.nextID++
	return id, nil
}
