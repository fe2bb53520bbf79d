package broker

import "kaas/codec"

func (b *Broker) metadataAPI() codec.API {
	return codec.API{Key: 3, Name: "Metadata", MinVersion: 0, MaxVersion: 13, Class: codec.TwoPhase,
		Handle: func(*codec.Request) { panic("broker: not yet") }}
}
