package kaas

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// ban forbids a function of a package outside the directories in except.
type ban struct {
	pkg    string // import path
	calls  []string
	tests  bool     // in tests, too
	except []string // directory trees or files where it belongs
	why    string
}

var bans = []ban{
	{pkg: "fmt", calls: []string{"Print", "Printf", "Println"}, except: []string{"cmd", "bench", "e2e"},
		why: "rooms log with the slog.Logger that they are given"},
	{pkg: "os", calls: []string{"Exit"}, except: []string{"cmd", "bench", "e2e"},
		why: "only the program ends itself; rooms return errors or panic"},
	{pkg: "log", calls: []string{"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln"}, tests: true,
		why: "there is one logger, log/slog"},
	{pkg: "log/slog", calls: []string{"Info", "Warn", "Error", "Debug", "Log", "LogAttrs", "Default", "SetDefault"}, tests: true,
		why: "loggers are passed in; there is no global one"},
	{pkg: "time", calls: []string{"Sleep"}, except: []string{"bench", "e2e"},
		why: "wait for what you wait for: a channel, a condition, a timer that can be stopped"},
	{pkg: "io/ioutil", calls: []string{"ReadAll", "ReadFile", "WriteFile", "ReadDir", "TempDir", "TempFile", "Discard"}, tests: true,
		why: "deprecated"},
	{pkg: "runtime", calls: []string{"GC"}, except: []string{"bench", "e2e", "cmd"},
		why: "a full collection stalls the data path"},
}

// polls are the functions in which a test may sleep: they ask for a condition
// until it holds or a deadline has passed, and take it as a parameter.
var polls = []string{"await", "eventually"}

func TestBannedCalls(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		imports := f.imports()
		ast.Inspect(f.ast, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name, ok := selector.X.(*ast.Ident)
			if !ok || name.Obj != nil { // a local variable of the same name
				return true
			}
			for _, b := range bans {
				if b.forbids(f, imports[name.Name], selector.Sel.Name) {
					t.Errorf("%s: %s.%s: %s", f.set.Position(selector.Pos()), name.Name, selector.Sel.Name, b.why)
				}
			}
			return true
		})
	}
}

func (b ban) forbids(f *sourceFile, pkg, call string) bool {
	if pkg != b.pkg || !slices.Contains(b.calls, call) {
		return false
	}
	if f.test && !b.tests {
		return false
	}
	for _, tree := range b.except {
		if f.path == tree || strings.HasPrefix(f.path, tree+"/") {
			return false
		}
	}
	return true
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if !f.test || f.dir == "e2e" || strings.HasPrefix(f.dir, "bench") {
			continue // they poll other processes
		}
		imports := f.imports()
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && slices.Contains(polls, fn.Name.Name) {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok || selector.Sel.Name != "Sleep" {
					return true
				}
				if name, ok := selector.X.(*ast.Ident); ok && imports[name.Name] == "time" {
					t.Errorf("%s: a test sleeps; wait for the event itself, or poll for a condition in a function named await", f.set.Position(selector.Pos()))
				}
				return true
			})
		}
	}
}
