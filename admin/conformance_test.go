package admin

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConformanceNamesTests: each test that the document names exists.
func TestConformanceNamesTests(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/admin-conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		sources.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\x60((Test|Fuzz)\w+)\x60`).FindAllSubmatch(document, -1) {
		if !strings.Contains(sources.String(), "func "+string(name[1])+"(") {
			t.Errorf("the document names %s, which does not exist", name[1])
		}
	}
}
