package broker

import "kaas/codec"

const apiVersionsKey = 18

// servedAPIs is the registry with what is derived from it once.
type servedAPIs struct {
	*codec.Registry
}

func newServedAPIs(r *codec.Registry) *servedAPIs { return &servedAPIs{Registry: r} }

func (b *Broker) apiVersionsAPI() codec.API {
	return codec.API{Key: apiVersionsKey, Name: "ApiVersions", MinVersion: 0, MaxVersion: 4, Class: codec.Inline,
		Handle: func(*codec.Request) { panic("broker: not yet") }}
}
