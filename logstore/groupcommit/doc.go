// Package groupcommit runs the commits of many logs: each log has at most one that runs, what is appended meanwhile is
// gathered for the next, and several logs are committed at the same time.
//
// It is not the commit: what is synced, and who hears of it, is its owner's (logstore's Partition.commit).
//
// It owns its workers, started on demand up to a bound, and one timer. Committer.mu is a leaf: nothing is taken under it, and
// it may be taken under a partition's lock.
package groupcommit
