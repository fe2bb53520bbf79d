// Package admin is the control plane: the handlers of Kafka's admin requests and
// the bounded pool of workers that they run on.
//
// A handler that changes something creates, patches or deletes a resource
// through the port meta.ResourceStore and then waits, at most the request's
// timeout, until this broker's image shows the result. It does not touch
// partitions itself; DeleteRecords and DescribeLogDirs, which are about the data
// on this broker, use the log store.
//
// It is not the data plane (package broker) and knows neither how resources are
// kept nor how topics are made from them (package kube).
//
// # Goroutines
//
// Pool starts one goroutine per accepted request, at most Workers+Queue at a
// time; at most Workers of them run, the others wait for their turn or, parked,
// for the image. Nothing else is started. Pool.Close ends them.
//
// # Lock order
//
// Pool.mu is a leaf. Handlers hold no lock.
package admin
