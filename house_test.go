package kaas

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// sourceFile is one Go file of the module, whatever its build tags.
type sourceFile struct {
	path string // slash-separated, relative to the root
	dir  string // package directory, "." for the root
	test bool
	set  *token.FileSet
	ast  *ast.File
}

// imports maps the local name of each import to its path.
func (f *sourceFile) imports() map[string]string {
	m := make(map[string]string, len(f.ast.Imports))
	for _, spec := range f.ast.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		m[name] = path
	}
	return m
}

var parsedSources = sync.OnceValues(func() ([]*sourceFile, error) {
	var files []*sourceFile
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			skip := path != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "kaas-data" || path == "tools" || path == "bin")
			if skip {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, &sourceFile{filepath.ToSlash(path), filepath.ToSlash(filepath.Dir(path)), strings.HasSuffix(name, "_test.go"), set, parsed})
		return nil
	})
	return files, err
})

// sources returns every Go file of this module (tools/ is a module of its own).
func sources(t *testing.T) []*sourceFile {
	t.Helper()
	files, err := parsedSources()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// packageDirs returns the directories that hold Go files, sorted.
func packageDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, f := range sources(t) {
		dirs = append(dirs, f.dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
