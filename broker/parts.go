package broker

import "kaas/codec"

// Parts of Broker that belong to other files of the room, each with its own
// state and its own start and stop. Whoever writes the file moves the type there
// and deletes it here.

// partitionPurgatory is embedded in each partitionState: the parked fetches.
type partitionPurgatory struct{}

// dataPart is the state of produce and fetch: fetch sessions, slow-read workers.
type dataPart struct{}

// start runs at the end of New; it registers hooks with b.hooks. stop runs in Close.
func (d *dataPart) start(b *Broker) error { return nil }
func (d *dataPart) stop()                 {}

// groupPart is the state of the group handlers: the coordinators.
type groupPart struct{}

func (g *groupPart) start(b *Broker) error { return nil }
func (g *groupPart) stop()                 {}

// dataAPIs and groupAPIs are the lists that APIs joins.
func (b *Broker) dataAPIs() []codec.API  { return nil }
func (b *Broker) groupAPIs() []codec.API { return nil }
