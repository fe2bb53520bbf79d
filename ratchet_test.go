package kaas

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"testing"
)

// Code lines: lines that hold at least one token other than a comment.
const (
	maxPackageLines  = 4000 // without tests
	maxFileLines     = 800  // tests too
	maxFunctionLines = 70   // without tests
)

// exceptions are what is larger, each with its reason. A number may only go
// down: the test fails when it could be lowered by a tenth or the line could go.
var exceptions = map[string]struct {
	lines  int
	reason string
}{}

func TestSizeRatchets(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	check := func(what string, lines, limit int) {
		e, listed := exceptions[what]
		used[what] = true
		switch {
		case listed && lines <= limit:
			t.Errorf("%s has %d lines and needs no exception any more", what, lines)
		case listed && lines < e.lines*9/10:
			t.Errorf("%s has shrunk to %d lines: lower its exception from %d", what, lines, e.lines)
		case listed && lines > e.lines:
			t.Errorf("%s has grown to %d lines, its exception is %d (%s)", what, lines, e.lines, e.reason)
		case !listed && lines > limit:
			t.Errorf("%s has %d code lines, the limit is %d: split it", what, lines, limit)
		}
	}
	packages := map[string]int{}
	for _, f := range sources(t) {
		code := codeLines(t, f.path)
		check(f.path, count(code, 1, len(code)), maxFileLines)
		if f.test {
			continue
		}
		packages[f.dir] += count(code, 1, len(code))
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				from, to := f.set.Position(fn.Pos()).Line, f.set.Position(fn.End()).Line
				check(f.path+":"+functionName(fn), count(code, from, to), maxFunctionLines)
			}
		}
	}
	for dir, lines := range packages {
		check("package "+dir, lines, maxPackageLines)
	}
	for what := range exceptions {
		if !used[what] {
			t.Errorf("exception for %s, which does not exist", what)
		}
	}
}

func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// codeLines says for each line of a file (index 0 is line 1) whether it holds
// code. A raw string counts with every line that it spans.
func codeLines(t *testing.T, path string) []bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file := set.AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	var lines []bool
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		from := file.Line(pos)
		to := from
		for i := range len(literal) {
			if literal[i] == '\n' {
				to++
			}
		}
		for len(lines) < to {
			lines = append(lines, false)
		}
		for line := from; line <= to; line++ {
			lines[line-1] = true
		}
	}
}

func count(code []bool, from, to int) int {
	n := 0
	for line := from; line <= to && line <= len(code); line++ {
		if code[line-1] {
			n++
		}
	}
	return n
}
