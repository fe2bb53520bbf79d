// Package meta holds what the cluster is: the resources as users write them
// (KafkaTopic, KafkaUser), the immutable image that readers load with one
// atomic, and the ports behind which resources live (ResourceStore) and topics
// are made on demand (TopicCreator).
//
// It is not a store, a reconciler or a parser of files: those are package kube.
// It does no I/O and starts no goroutine.
//
// Ownership: an Image and everything reachable from it is immutable from the
// moment it is handed to Images.Store. Objects that a ResourceStore returns
// belong to the caller, who may change them; objects given to a store are
// copied by it.
//
// Lock order: Images.mu is a leaf.
package meta
