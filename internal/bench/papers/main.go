// Papers prints the tables of docs/results/papers.md as Markdown: what a paper published and what loaderd does, on lengths drawn from the
// distributions of package lengths.
//
//	go run ./internal/bench/papers                    # all tables
//	go run ./internal/bench/papers seamless           # some; -list names them
//	go run ./internal/bench/papers -large fewer-1     # with 100M documents: minutes, and 8 GiB of memory
//	go run ./internal/bench/papers -page docs/results/papers.md beyond-bucket    # rewrites the page's blocks of these tables
//
// Times are of one core. Lengths are drawn with seed 1, as by loaderd gen-lengths, unless a column says otherwise, so loaderd simulate
// repeats each figure: packers have its defaults.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// table is one table of a paper.
type table struct {
	name  string
	title string
	print func(out io.Writer) error
}

var tables = slices.Concat(fewerTruncations, seamlessPacking, optimizing, beyondFixedLength, bucketMethod, robustness)

// large asks for what takes minutes and gigabytes.
var large = flag.Bool("large", false, "measure 100 million documents too")

func main() {
	list := flag.Bool("list", false, "name the tables")
	page := flag.String("page", "", "rewrite the blocks of this page that the tables have there, and print nothing")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	var err error
	if *page != "" {
		err = rewrite(*page, flag.Args())
	} else {
		err = run(flag.Args(), *list, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

func run(names []string, list bool, out io.Writer) error {
	if list {
		for _, t := range tables {
			fmt.Fprintf(out, "%-18s %s\n", t.name, t.title)
		}
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			return fmt.Errorf("choose tables: no table %q; -list names them", name)
		}
	}
	for _, t := range tables {
		if len(names) > 0 && !slices.Contains(names, t.name) {
			continue
		}
		fmt.Fprintf(out, "## %s\n\n", t.title)
		if err := t.print(out); err != nil {
			return fmt.Errorf("print table %s: %w", t.name, err)
		}
		fmt.Fprintln(out)
	}
	return nil
}

// block matches a table on the page, between two marks that name it.
var block = regexp.MustCompile(`(?s)(<!-- table ([a-z0-9-]+) -->\n).*?(<!-- end of table -->\n)`)

// rewrite prints tables into their blocks of a page: those that are named, else all that have a block.
func rewrite(path string, names []string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	var blocks []string
	for _, b := range block.FindAllSubmatch(page, -1) {
		blocks = append(blocks, string(b[2]))
	}
	for _, name := range names {
		if !slices.Contains(blocks, name) {
			return fmt.Errorf("rewrite %s: it has no block of table %q", path, name)
		}
	}
	var failed error
	page = block.ReplaceAllFunc(page, func(old []byte) []byte {
		b := block.FindSubmatch(old)
		name := string(b[2])
		i := slices.IndexFunc(tables, func(t table) bool { return t.name == name })
		if i < 0 || failed != nil || len(names) > 0 && !slices.Contains(names, name) {
			return old
		}
		out := bytes.NewBuffer(slices.Clone(b[1]))
		if err := tables[i].print(out); err != nil {
			failed = fmt.Errorf("print table %s: %w", name, err)
			return old
		}
		return append(out.Bytes(), b[3]...)
	})
	if failed != nil {
		return failed
	}
	if err := os.WriteFile(path, page, 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// markdown is a Markdown table under construction: its header, then its rows. All columns but the first are numbers.
type markdown [][]string

func (m *markdown) row(cells ...string) { *m = append(*m, cells) }

func (m markdown) print(out io.Writer) error {
	var b strings.Builder
	for i, cells := range m {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| --- |%s\n", strings.Repeat(" ---: |", len(cells)-1))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
