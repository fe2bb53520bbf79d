package filestore

import (
	"fmt"
	"log/slog"
	"testing"

	"kaas/kube"
	"kaas/meta"
)

// What a start costs with 1,000 topics.
func BenchmarkOpenThousandTopics(b *testing.B) {
	dir := b.TempDir()
	open := func() *Store {
		s, err := Open(Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), NoNotify: true})
		if err != nil {
			b.Fatal(err)
		}
		r, err := kube.StartReconciler(b.Context(), kube.ReconcilerOptions{Store: s, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		return s
	}
	s := open()
	for i := range 1000 {
		topic := meta.NewKafkaTopic(fmt.Sprint("topic-", i))
		topic.Spec.Config = map[string]any{"retention.ms": 600000}
		if _, err := s.Create(b.Context(), topic); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if err := open().Close(); err != nil { // mints the ids
		b.Fatal(err)
	}
	for b.Loop() {
		if err := open().Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A topic from Create to Ready, on the file system of the temporary directory.
func BenchmarkCreateAndReconcile(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler), NoNotify: true})
	if err != nil {
		b.Fatal(err)
	}
	r, err := kube.StartReconciler(b.Context(), kube.ReconcilerOptions{Store: s, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	events, err := s.Watch(b.Context(), meta.KindTopic, "")
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i++
		if _, err := s.Create(b.Context(), meta.NewKafkaTopic(fmt.Sprint("topic-", i))); err != nil {
			b.Fatal(err)
		}
		for event := range events {
			if topic, ok := event.Object.(*meta.KafkaTopic); ok && topic.Ready() {
				break
			}
		}
	}
	r.Close()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
