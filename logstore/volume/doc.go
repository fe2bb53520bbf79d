// Package volume is a log directory as a whole, an element of log.dirs: its lock, its meta.properties, what its checkpoint
// files said at the start, which partition directories are in it, which log directories are missing, and moves between two of them
// that a stop interrupted.
// docs/format/directory.md has the names.
//
// It is not what is in a partition's directory (recovery, logstore), and it decides nothing about topics.
//
// It owns no goroutines. A Dir's fields are immutable once OpenAll has returned; sharedSync.turn is held across one sync of
// the directory and comes before sharedSync.mu, and who waits for it holds no other lock of these. Known.mu and
// Strays.mu are leaves.
package volume
