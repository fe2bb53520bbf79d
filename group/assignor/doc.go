// Package assignor plans which member of a consumer group owns which partition:
// the server-side assignors of KIP-848, uniform and range. It matches what Kafka's
// UniformAssignor and RangeAssignor promise: plans are balanced, keep what a member
// has where balance allows, and are the same for the same input. Their every choice
// is Kafka's, too, but for the order of members and topics (sorted, not that of a hash)
// and uniform plans for different subscriptions.
//
// What it is not: it knows no group, no epoch and no protocol; it keeps no state.
//
// # Goroutines and locks
//
// None: pure functions over their arguments, which they do not keep or change.
package assignor
