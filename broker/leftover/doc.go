// Package leftover decides, once at the start, what becomes of partition directories
// that no topic resource claims: the data of a topic that is known as deleted is
// removed, anything else is renamed and kept, and nothing is touched while the
// resources are not all readable.
//
// It serves no partition and makes none: that is the broker's observer, on whose
// goroutine it runs. It has no goroutines and no locks of its own. Its tests are
// the observer's, which start a broker over such directories.
package leftover
