// Package describe answers what the cluster image says: the brokers, the topics and
// their partitions, in the requests Metadata, DescribeCluster and
// DescribeTopicPartitions.
//
// What it is not: it changes no image and knows no log. Topics that Metadata makes on
// first use it asks for through Options.
//
// # Goroutines and locks
//
// None. A handler reads one image, which is immutable, on the event loop or, when the
// reply is large or has to wait, on the worker pool.
package describe
