// Package docs writes the documents that are generated from code: the list of
// configuration keys from meta/config, the list of API keys from the registry
// and the table of metrics from obs. A test in the root compares what it writes with what is committed;
// `make generate` commits the difference to disk.
//
// It is not linked into the program.
//
// Goroutines and locks: none.
package docs
