package broker

import (
	"context"

	"kaas/meta"
)

// observer makes the broker serve what the topic resources say.
type observer struct{ broker *Broker }

func (o *observer) init(b *Broker)                  { o.broker = b }
func (o *observer) start(ctx context.Context) error { panic("broker: not yet") }
func (o *observer) stop()                           {}

// EnsureTopic implements meta.TopicCreator in dev mode.
func (o *observer) EnsureTopic(ctx context.Context, name string, partitions int32, config map[string]string) error {
	panic("broker: not yet")
}

var _ meta.TopicCreator = (*observer)(nil)
