package architecture_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Limits on what a reader has to keep in mind.
const (
	maxPackageLines     = 5000
	maxFields           = 20
	maxMethods          = 30
	maxInterfaceMethods = 8
	maxComplexity       = 20  // cyclomatic, of a function
	maxColumns          = 120 // of a line; a tab is one
)

// beyond are the types and parsers that exceed a limit, with the reason. Each entry is the current number, which may
// only decrease.
var beyond = map[string]int{
	"complexity internal/corpus/csvtable.Source.Documents":     24, // parser
	"complexity internal/corpus/jsonvalue.Reader.readValue":    28, // parser
	"complexity internal/corpus/jsonvalue.Reader.startValue":   25, // parser
	"complexity loader/mixture.Mixture.RestoreState":           24, // parser
	"complexity stream/docstream.decodeJSON":                   26, // parser
	"complexity stream/docstream.decoder.decode":               41, // parser
	"complexity stream/docstream.decoder.readBatch":            26, // parser
	"complexity tokenizer/internal/pattern.parser.parseEscape": 22, // parser
	"fields internal/api.Status":                               31, // the JSON of the status
	"fields internal/daemon.Daemon":                            22, // the parts of a process
	"fields internal/demo.Summary":                             35, // JSON
	"fields internal/publishing.Summary":                       25, // JSON
	"fields internal/simulation.Result":                        26, // JSON
	"fields loader.Stats":                                      44, // figures of a run
	"fields loader/state.Report":                               24, // JSON, from a leader to other daemons
	"fields loader/planview.View":                              21, // one lock guards what changes together
	"fields stream.Config":                                     24, // settings
	"fields stream/publish.Publisher":                          22, // settings, and a lock for each of three stages
	"methods arrowout/internal/session.budget":                 32, // one lock; each condition of the queue has a method
	"methods internal/natstest.Cluster":                        35, // faults that tests inject
	"methods loader.Run":                                       40, // the facade of a run
	"methods loader/diagnosis.wait":                            39, // a method for each cause
	"methods loader/mixture.Mixture":                           45, // one state machine, half of it queries
	"methods loader/planner.Planner":                           89, // one state machine, restored as a whole
	"methods loader/planview.View":                             35, // the plan for all readers, behind one lock
	"methods packonline.bucket":                                31, // one packing method
	"methods packonline.splice":                                39, // one packing method
	"methods stream.Store":                                     47, // settings and streams of a run, one method for each
	"methods stream/docstream.Log":                             35, // a document.Source with its stages
}

func TestLimits_AreKept(t *testing.T) {
	t.Chdir(root)
	got := map[string]int{}
	sizes, err := measure(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range sizes {
		if limit := limitOf(name); n > limit {
			got[name] = n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if n, known := beyond[name]; !known {
			t.Errorf("%s: %d, at most %d are permitted", name, got[name], limitOf(name))
		} else if got[name] > n {
			t.Errorf("%s: %d, it had %d", name, got[name], n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(beyond)) {
		if got[name] == 0 {
			t.Errorf("%s is within its limit: remove it from beyond", name)
		}
	}
}

// limitOf returns the limit of a measure by its kind, the first word of its name.
func limitOf(name string) int {
	kind, _, _ := strings.Cut(name, " ")
	return map[string]int{
		"lines": maxPackageLines, "fields": maxFields, "methods": maxMethods, "interface": maxInterfaceMethods,
		"complexity": maxComplexity,
	}[kind]
}

// measure counts, below a folder and outside tests: "lines PACKAGE", "fields TYPE" and "methods TYPE" of structs,
// "interface TYPE" for its methods, and "complexity FUNCTION".
func measure(root string) (map[string]int, error) {
	sizes := map[string]int{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != root && (strings.HasPrefix(name, ".") || name == "testdata" || isModule(file)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(file))
		sizes["lines "+pkg] += set.File(f.Pos()).LineCount()
		for _, d := range f.Decls {
			count(sizes, pkg, d)
		}
		return nil
	})
	return sizes, err
}

// count adds the counts of a declaration to sizes.
func count(sizes map[string]int, pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := pkg + "." + d.Name.Name
		if d.Recv != nil {
			of := receiver(d.Recv.List[0].Type)
			sizes[fmt.Sprintf("methods %s.%s", pkg, of)]++
			name = fmt.Sprintf("%s.%s.%s", pkg, of, d.Name.Name)
		}
		sizes["complexity "+name] = complexity(d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			switch x := spec.Type.(type) {
			case *ast.StructType:
				sizes[fmt.Sprintf("fields %s.%s", pkg, spec.Name)] = x.Fields.NumFields()
			case *ast.InterfaceType:
				sizes[fmt.Sprintf("interface %s.%s", pkg, spec.Name)] = x.Methods.NumFields()
			}
		}
	}
}

// complexity returns the cyclomatic complexity of a function with its function literals: the number of branches plus
// 1.
func complexity(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			n += min(len(x.List), 1) // default is no branch
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// receiver returns the name of the type of a receiver.
func receiver(x ast.Expr) string {
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}

// No line exceeds maxColumns, except in raw strings, preformatted comments, and generated files.
func TestLineWidth_IsBounded(t *testing.T) {
	t.Chdir(root)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || file != "." && strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if path.Ext(file) != ".go" {
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil || bytes.Contains(source, []byte("DO NOT EDIT")) {
			return err
		}
		for _, line := range longLines(source) {
			t.Errorf("%s:%d has more than %d columns", file, line, maxColumns)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// longLines returns the numbers of the lines of a Go file that are too long.
func longLines(source []byte) (long []int) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	exempt := map[int]bool{}
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		raw := kind == token.STRING && strings.HasPrefix(text, "`")
		if raw || kind == token.COMMENT && strings.HasPrefix(text, "//\t") {
			first := file.Line(pos)
			for line := first; line <= first+strings.Count(text, "\n"); line++ {
				exempt[line] = true
			}
		}
	}
	number := 0
	for line := range bytes.Lines(source) {
		number++
		if utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))) > maxColumns && !exempt[number] {
			long = append(long, number)
		}
	}
	return long
}

func TestLineWidth_LongLinesAreDetected(t *testing.T) {
	t.Chdir(root)
	long := strings.Repeat("x", maxColumns)
	source := "package p\n\n// " + long + "\nvar a = \"" + long + "\"\n\n//\t" + long + "\nvar b = `\n" + long + "x\n`\n"
	if diff := cmp.Diff([]int{3, 4}, longLines([]byte(source))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// measure counts correctly in a small package.
func TestLimits_Count(t *testing.T) {
	t.Chdir(root)
	const source = `package p
type s struct { a, b int; t }
type t[V any] struct { V }
func (*s) f() {}
func (t[V]) g() {}
func (t[V]) h() {}
type i interface { a(); b() }
func u(n int) {
	for n > 0 && n < 9 || n == 11 {
		switch n { case 1, 2: n++; default: n-- }
		func() { if n > 5 { n = 0 } }()
	}
}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, d := range f.Decls {
		count(got, "p", d)
	}
	want := map[string]int{"fields p.s": 3, "fields p.t": 1, "methods p.s": 1, "methods p.t": 2, "interface p.i": 2,
		"complexity p.s.f": 1, "complexity p.t.g": 1, "complexity p.t.h": 1, "complexity p.u": 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
