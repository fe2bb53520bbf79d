package broker

import "kaas/codec"

func (b *Broker) describeTopicPartitionsAPI() codec.API {
	return codec.API{Key: 75, Name: "DescribeTopicPartitions", MinVersion: 0, MaxVersion: 0, Class: codec.Inline,
		Handle: func(*codec.Request) { panic("broker: not yet") }}
}
