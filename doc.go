// Package kaas is empty: this directory holds the tests that guard the house
// as a whole.
//
//	layers_test.go     which package may import which, and why
//	pkgdoc_test.go     every package says what it is and who owns its goroutines
//	ratchet_test.go    size limits of packages, files and functions
//	banned_test.go     calls that do not belong where they stand
//	generated_test.go  generated documents are current (make generate writes them)
//	docs_test.go       documents name only files and tests that exist, and every room
//
// The program is cmd/kaas; docs/architecture.md describes the rooms.
//
// Goroutines and locks: none.
package kaas
