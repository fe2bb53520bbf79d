package main

import (
	"testing"
	"time"

	"kaas/codec"
	"kaas/obs"
)

// BenchmarkRequestEnded is what the metrics cost a request, with all processors
// at the same API.
func BenchmarkRequestEnded(b *testing.B) {
	registry := obs.NewRegistry()
	m := newRequestMetrics(registry)
	apis, err := codec.NewRegistry(codec.API{Key: 0, Name: "Produce", Handle: func(*codec.Request) {}})
	if err != nil {
		b.Fatal(err)
	}
	m.serves(registry, apis)
	api := apis.All()[0]
	for name, run := range map[string]func(*testing.B){
		"alone": func(b *testing.B) {
			for b.Loop() {
				m.RequestEnded(&api, 8, 200, 50, 30*time.Microsecond)
			}
		},
		"all": func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					m.RequestEnded(&api, 8, 200, 50, 30*time.Microsecond)
				}
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			run(b)
		})
	}
}
