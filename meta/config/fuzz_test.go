package config

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzServerProperties: no file makes the broker panic, and what is taken can
// be described.
func FuzzServerProperties(f *testing.F) {
	for _, seed := range []string{
		kraftFile, "", "=", "a", "listeners=PLAINTEXT://", "listeners=://:1,", "listener.security.protocol.map=:", "log.dirs=,", "num.partitions=\\u0031",
		"log.retention.hours=2147483647", "log.retention.minutes=-1", "http.address=[::1]:0", "advertised.listeners=PLAINTEXT://[::]:1", "broker.id=-1\nnode.id=3",
		"log.cleaner.min.cleanable.ratio=1e400", "a=${b}\nb=${a}", "listener.name.a.b.c=1", "\xff\xfe=1", "log.roll.hours=9223372036854775807",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(dir, "server.properties")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		b, _, err := LoadBroker([]string{file}, nil, nil)
		if err != nil {
			return
		}
		if len(b.Listeners) == 0 || len(b.LogDirs) == 0 || b.TopicDefaults.SegmentBytes <= 0 {
			t.Fatalf("taken: %+v", b)
		}
		b.Describe()
		if _, err := ParseTopic(b, nil); err != nil {
			t.Fatal(err)
		}
		b.DescribeTopic(nil)
	})
}
