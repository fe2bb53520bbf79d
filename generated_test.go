package kaas

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kaas/admin"
	"kaas/broker"
	"kaas/codec"
	"kaas/internal/crd"
	"kaas/internal/docs"
)

const (
	tableBegin   = "<!-- works today: written by make generate -->\n"
	tableEnd     = "<!-- end of works today -->\n"
	metricsBegin = "<!-- metrics: written by make generate -->\n"
	metricsEnd   = "<!-- end of metrics -->\n"
)

// servedAPIs are all APIs of the program; their handlers are never called here.
func servedAPIs() []codec.API {
	return slices.Concat((&broker.Broker{}).APIs(), (&admin.Admin{}).APIs())
}

func generatedDocuments(t *testing.T) map[string][]byte {
	t.Helper()
	files := crd.Files()
	files["docs/configuration.md"] = docs.Configuration()
	files["docs/protocol.md"] = docs.Protocol(servedAPIs(), docs.Ledger)
	files["docs/running.md"] = between(t, "docs/running.md", metricsBegin, metricsEnd, docs.Metrics())
	files["README.md"] = between(t, "README.md", tableBegin, tableEnd, docs.WorksToday(servedAPIs()))
	return files
}

// between is a file with another text between two marks.
func between(t *testing.T, path, begin, end string, text []byte) []byte {
	t.Helper()
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(have, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has lost its marks %q and %q", path, begin, end)
	}
	return bytes.Join([][]byte{before, []byte(begin), text, []byte(end), after}, nil)
}

// TestGeneratedDocuments fails when a generated document is not what the code
// says now. With KAAS_GENERATE=1 (make generate) it writes them.
func TestGeneratedDocuments(t *testing.T) {
	t.Parallel()
	for path, want := range generatedDocuments(t) {
		if os.Getenv("KAAS_GENERATE") != "" {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, want, 0o644)); err != nil {
				t.Error(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(have, want) {
			t.Errorf("%s is not current: run make generate and commit it", path)
		}
	}
	found, err := filepath.Glob("deploy/crds/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if crd.Files()[filepath.ToSlash(path)] == nil {
			t.Errorf("%s belongs to no kind any more: remove it", path)
		}
	}
}
