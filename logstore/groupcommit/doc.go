// Package groupcommit runs the commits of many logs: each log has at most one that runs, what is appended meanwhile is
// gathered for the next. The logs of a group are committed together, in rounds; what a round hands over, and logs without a
// group, are committed one by one, several at the same time.
//
// It is not the commit: what is synced, and who hears of it, is its owner's (logstore).
//
// It owns its workers, started on demand up to a bound, one goroutine for each group and one timer. Committer.mu is a leaf:
// nothing is taken under it, and it may be taken under a partition's lock.
package groupcommit
