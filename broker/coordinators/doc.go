// Package coordinators is the broker's side of the group and the transaction
// coordinators: it decodes and authorises their requests, resolves topics, routes to
// the shard of package group or txn, and brings these machines their logs, markers
// and producer ids. One API key is one file, NN_name.go.
//
// What it is not: it decides nothing about a group or a transaction; the machines do
// that. It serves no topic and knows no socket: the broker, which stands above it,
// hands in what it serves ([Topics]) and says what comes and goes.
//
// # Goroutines
//
// Handlers run on event loops, or on the worker pool where their class says so.
// Machines run on the shards' goroutines of coord, which Close ends; markers and
// replies run there too. The package starts no goroutine itself.
//
// # Lock order
//
// gather.mu and Order.mu are leaves: none is held while anything else is called.
package coordinators
