package admin

import (
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
	for _, dir := range []string{".", "../kube", "../meta", "../meta/config", "../broker", "../auth", "../auth/sasl", "../auth/scram", "../quota", "../policy", "../codec", "../cmd/kaas", "../logstore", "../e2e", ".."} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(content)
		}
	}
	for _, name := range regexp.MustCompile(`\x60((Test|Fuzz)\w+)\x60`).FindAllSubmatch(document, -1) {
		if !strings.Contains(sources.String(), "func "+string(name[1])+"(") {
			t.Errorf("the document names %s, which does not exist", name[1])
		}
	}
}
