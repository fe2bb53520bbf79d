package kaas

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

const minDocLines = 4

func TestEveryPackageHasADocument(t *testing.T) {
	t.Parallel()
	docs := map[string]*ast.CommentGroup{}
	for _, f := range sources(t) {
		if path.Base(f.path) == "doc.go" {
			docs[f.dir] = f.ast.Doc
		}
	}
	for _, dir := range packageDirs(t) {
		doc, ok := docs[dir]
		switch {
		case !ok:
			t.Errorf("%s has no doc.go", dir)
		case doc == nil:
			t.Errorf("%s/doc.go has no package comment", dir)
		case strings.Count(strings.TrimSpace(doc.Text()), "\n")+1 < minDocLines:
			t.Errorf("%s/doc.go: the package comment is shorter than %d lines: it says what the package is, what it is not, who owns its goroutines and its lock order", dir, minDocLines)
		}
	}
}
