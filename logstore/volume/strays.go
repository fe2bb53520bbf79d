package volume

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// Strays are the directories of partitions that were set aside and may come back. They are found by name without a look at
// the disk, because each partition that is made asks.
type Strays struct {
	mu     sync.Mutex
	byName map[string][]Stray // by layout.StrayStem; owner: mu
}

// Stray is one of them.
type Stray struct {
	Dir  *Dir
	Path string
}

// Add notes the directory of a name that AsideDir made; others are nobody's.
func (s *Strays) Add(d *Dir, name string) {
	stem, ok := layout.ParseStrayDir(name)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string][]Stray{}
	}
	s.byName[stem] = append(s.byName[stem], Stray{d, filepath.Join(d.Path, name)})
}

// Find returns those of a partition that belong to the topic id, by what they say now. One that the disk does not give is an
// error: it may be the one.
func (s *Strays) Find(fsys vfs.FS, key checkpoint.Key, topicID [16]byte) (found []Stray, err error) {
	s.mu.Lock()
	candidates := append([]Stray(nil), s.byName[layout.StrayStem(key.Topic, key.Partition)]...)
	s.mu.Unlock()
	for _, c := range candidates {
		id, err := checkpoint.ReadPartitionMetadata(fsys, c.Path)
		if errors.Is(err, checkpoint.ErrDamaged) { // a new topic of the name must not wait for it
			c.Dir.logger.Warn("set aside, and does not say of which topic", "dir", c.Path, "reason", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if id == topicID && id != [16]byte{} {
			found = append(found, c)
		}
	}
	return found, nil
}

// Remove forgets one that has come back.
func (s *Strays) Remove(stray Stray) {
	stem, _ := layout.ParseStrayDir(filepath.Base(stray.Path))
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []Stray
	for _, other := range s.byName[stem] {
		if other != stray {
			left = append(left, other)
		}
	}
	if s.byName[stem] = left; left == nil {
		delete(s.byName, stem)
	}
}

// isStray says that a directory was set aside.
func isStray(name string) bool { return strings.HasSuffix(name, layout.StrayDirSuffix) }
