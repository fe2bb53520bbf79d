package broker

import "kaas/codec"

// Parts of Broker that belong to other files of the room, each with its own
// state and its own start and stop. Whoever writes the file moves the type there
// and deletes it here.

// groupPart is the state of the group handlers: the coordinators.
type groupPart struct{}

func (g *groupPart) start(b *Broker) error { return nil }
func (g *groupPart) stop()                 {}

// groupAPIs is a list that APIs joins.
func (b *Broker) groupAPIs() []codec.API { return nil }
