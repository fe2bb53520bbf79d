package broker

import "kaas/codec"

func (b *Broker) describeClusterAPI() codec.API {
	return codec.API{Key: 60, Name: "DescribeCluster", MinVersion: 0, MaxVersion: 2, Class: codec.Inline,
		Handle: func(*codec.Request) { panic("broker: not yet") }}
}
