package kube

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/kube/filestore"
	"kaas/meta"
)

func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

func logTo(out *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, nil))
}

// openStore opens a store that looks at its files only when look is called.
func openStore(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(filestore.Options{Dir: dir, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// look scans as the notifier would, at a moment after the given time has passed.
func look(s *filestore.Store, later time.Duration) { s.Rescan(time.Now().Add(later)) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func mustTopic(t *testing.T, s meta.ResourceStore, name string) *meta.KafkaTopic {
	t.Helper()
	object, err := s.Get(t.Context(), meta.KindTopic, name)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*meta.KafkaTopic)
}
