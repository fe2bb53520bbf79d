package broker

import "kaas/codec"

func (b *Broker) findCoordinatorAPI() codec.API {
	return codec.API{Key: 10, Name: "FindCoordinator", MinVersion: 0, MaxVersion: 6, Class: codec.TwoPhase,
		Handle: func(*codec.Request) { panic("broker: not yet") }}
}
