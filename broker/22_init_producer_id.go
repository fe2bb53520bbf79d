package broker

import "kaas/codec"

func (b *Broker) initProducerIDAPI() codec.API {
	return codec.API{Key: 22, Name: "InitProducerId", MinVersion: 0, MaxVersion: 5, Class: codec.Pool,
		Handle: func(*codec.Request) { panic("broker: not yet") }}
}
