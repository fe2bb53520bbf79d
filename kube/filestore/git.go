package filestore

import (
	"path/filepath"
	"strings"

	"kaas/internal/limits"
)

// Git takes files away and brings them back while it works: a rebase, and with it
// git pull --rebase, puts the other side's files in place first and adds one's own
// commit by commit; a conflict stops it half-way, for as long as it takes its user. So
// nothing is deleted for a missing file while a work tree is in such a state.

// gitStates are the files and directories in .git that say so.
var gitStates = []string{"index.lock", "rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"}

// gitAtWork returns what says that git is in the middle of something in the work tree
// that the directory belongs to; "": nothing.
func (s *Store) gitAtWork() string {
	for dir := filepath.Clean(s.options.Dir); ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if entry, err := s.fs.Stat(git); err == nil {
			if !entry.Dir {
				git = s.gitDirOf(git)
			}
			for _, state := range gitStates {
				if path := filepath.Join(git, state); s.exists(path) {
					return path
				}
			}
			return ""
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

func (s *Store) exists(path string) bool {
	_, err := s.fs.Stat(path)
	return err == nil
}

// gitDirOf follows the file that stands for .git in a linked work tree.
func (s *Store) gitDirOf(path string) string {
	content, err := readFile(s.fs, path, limits.ResourceFileBytes)
	to, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "gitdir: ")
	if err != nil || !ok {
		return path
	}
	if filepath.IsAbs(to) {
		return to
	}
	return filepath.Join(filepath.Dir(path), to)
}

// heldByGit says whether deletions wait for git, and that in the log when it begins.
// +checklocks:s.writeMu
func (s *Store) heldByGit() bool {
	state := s.gitAtWork()
	if state != "" && s.gitLogged != state {
		s.logger.Warn("git is in the middle of something: resources whose files are missing are not deleted before it is done", "dir", s.options.Dir, "state", state)
	}
	s.gitLogged = state
	return state != ""
}
