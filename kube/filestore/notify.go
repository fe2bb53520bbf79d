package filestore

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"kaas/internal/limits"
)

// notifier is the goroutine that looks for edits by hand: soon after a
// notification, and every RescanInterval for volumes that send none. Its fields
// belong to that goroutine; stop may be called once, from any.
type notifier struct {
	store   *Store
	watcher *fsnotify.Watcher // nil: rescans only
	watched map[string]bool
	unseen  bool // the first watches came after the first look
	quit    chan struct{}
	done    chan struct{}
}

func (s *Store) startNotifier() {
	n := &notifier{store: s, watched: make(map[string]bool), quit: make(chan struct{}), done: make(chan struct{})}
	s.notifier = n
	if !s.options.NoNotify {
		watcher, err := fsnotify.NewWatcher()
		if err != nil {
			s.logger.Warn("no file notifications; edits by hand are seen by the periodic look only", "every", s.options.RescanInterval, "error", err)
		}
		n.watcher = watcher
	}
	s.writeMu.Lock()
	dirs := append([]string(nil), s.dirs...)
	s.writeMu.Unlock()
	n.unseen = n.watchDirs(dirs)
	go n.run()
}

func (n *notifier) stop() {
	close(n.quit)
	<-n.done
}

// watchDirs adds notifications for directories that have none, and says whether
// there were any: what happened in them before is to be looked for.
func (n *notifier) watchDirs(dirs []string) (added bool) {
	if n.watcher == nil {
		return false
	}
	present := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		present[dir] = true
		if n.watched[dir] {
			continue
		}
		err := n.watcher.Add(dir)
		if err == nil {
			n.watched[dir], added = true, true
		} else if !errors.Is(err, fs.ErrNotExist) {
			n.store.logger.Warn("no file notifications for a directory of resources", "dir", dir, "error", err)
		}
	}
	for dir := range n.watched {
		if !present[dir] {
			delete(n.watched, dir) // the kernel dropped the watch with the directory
		}
	}
	return added
}

func (n *notifier) run() {
	defer close(n.done)
	var events chan fsnotify.Event
	var failures chan error
	if n.watcher != nil {
		events, failures = n.watcher.Events, n.watcher.Errors
		defer func() {
			if err := n.watcher.Close(); err != nil {
				n.store.logger.Warn("file notifications can't be closed", "error", err)
			}
		}()
	}
	rescan := n.store.options.RescanInterval
	timer := time.NewTimer(rescan)
	defer timer.Stop()
	due := time.Now().Add(rescan)
	schedule := func(in time.Duration) {
		if next := time.Now().Add(in); next.Before(due) {
			due = next
			timer.Reset(in)
		}
	}
	if n.unseen {
		schedule(n.store.options.Debounce)
	}
	for {
		select {
		case <-n.quit:
			return
		case event := <-events:
			if n.matters(event) {
				schedule(n.store.options.Debounce)
			}
		case err := <-failures:
			n.store.logger.Warn("file notifications were lost; all files are looked at", "error", err)
			schedule(n.store.options.Debounce)
		case <-timer.C:
			again := n.look()
			if again == 0 {
				again = rescan
			}
			due = time.Now().Add(again)
			timer.Reset(again)
		}
	}
}

func (n *notifier) look() time.Duration {
	s := n.store
	s.writeMu.Lock()
	again := s.scan(s.options.Clock())
	dirs := append([]string(nil), s.dirs...)
	s.writeMu.Unlock()
	if n.watchDirs(dirs) && (again == 0 || s.options.Debounce < again) {
		again = s.options.Debounce
	}
	return again
}

// matters says whether a notification may be an edit by hand: the store's own
// writes are known by size and time, temporary files by their names.
func (n *notifier) matters(event fsnotify.Event) bool {
	base := filepath.Base(event.Name)
	if base[0] == '.' {
		return false
	}
	if !isResourceFileName(base) {
		// Perhaps a directory that was made, moved here or removed.
		info, err := os.Lstat(event.Name)
		return err != nil || info.IsDir()
	}
	s := n.store
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	file := s.files[event.Name]
	stat, err := s.fs.Stat(event.Name)
	if err != nil {
		return file != nil
	}
	if file == nil || file.sizeBytes != stat.SizeBytes || file.modifiedMs != stat.ModifiedMs {
		return true
	}
	// Most likely the echo of an own write. An edit of the same length within the
	// same millisecond looks alike, so the content decides.
	content, err := readFile(s.fs, event.Name, limits.ResourceFileBytes)
	return err != nil || sha256.Sum256(content) != file.sum
}
