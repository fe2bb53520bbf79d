// Package quota enforces client quotas (KIP-13, KIP-124): bytes a second that a
// user may produce and consume, and the share of a thread that its requests may
// take. It says for how long a client is to be throttled; it knows no connection
// and no request, so it mutes nobody.
//
// A bucket holds up to one second's worth. What a request takes beyond it is a
// debt that later requests find, so the average over time is the quota however
// large the requests are.
//
// The quotas of a user are what its resource says, an override there included
// (AlterClientQuotas). Those of a user without a resource live in memory: they end
// with the process, and when the user gets a resource.
//
// There are no goroutines. Lock order: Manager.mu before bucket.mu; each is held
// for memory operations only. A charge on a user without that quota takes no lock.
package quota
