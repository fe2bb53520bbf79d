package kaas

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// userDocuments are what a reader is sent to; they say only what is true now.
func userDocuments(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md"}
	err := filepath.WalkDir("docs", func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	namedTest = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w+`)
	link      = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

func TestDocumentsNameOnlyTestsThatExist(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	for _, f := range sources(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				exists[fn.Name.Name] = true
			}
		}
	}
	for _, path := range userDocuments(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedTest.FindAllString(string(text), -1) {
			if !exists[name] {
				t.Errorf("%s names %s, and there is no such test", path, name)
			}
		}
	}
}

// Parts of a room are named, too: who looks for a package finds what it is for.
func TestArchitectureNamesEveryRoom(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range packageDirs(t) {
		if dir != "." && !strings.Contains(string(text), "`"+dir+"`") {
			t.Errorf("docs/architecture.md does not name %s", dir)
		}
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, path := range userDocuments(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), match[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, match[1], err)
			}
		}
	}
}
