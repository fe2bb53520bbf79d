// Package tools pins the linters in a module of its own, so that what checks
// kaas is no dependency of kaas. `make lint` builds and runs them:
//
//	staticcheck  honnef.co/go/tools
//	checklocks   gvisor.dev/gvisor, for the lock annotations in comments
//
// Goroutines and locks: none; there is no code here.
package tools
