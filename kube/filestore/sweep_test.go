package filestore

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a crash left half-written goes at the next start, by its name; whatever else lies
// beside the resources is somebody's.
func TestOnlyHalfWrittenFilesAreSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := filepath.Join(dir, "team")
	if err := os.Mkdir(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	swept := []string{tempName(filepath.Join(dir, "kafkatopic-a.yaml")), tempName(filepath.Join(deep, "b.yaml"))}
	kept := []string{filepath.Join(dir, ".gitignore"), filepath.Join(dir, ".kafkatopic-a.yaml.swp"), filepath.Join(dir, "notes.tmp"), filepath.Join(dir, ".other.tmp"),
		filepath.Join(deep, "README.md"), filepath.Join(dir, "kafkatopic-a.yaml~"), filepath.Join(dir, "foreign.yaml")}
	for _, path := range slices.Concat(swept, kept) {
		if err := os.WriteFile(path, []byte("kind: Other\napiVersion: example.org/v1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), NoNotify: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range swept {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
