// Papers prints the tables of docs/results/papers.md as Markdown: what a paper published and what loaderd does, on lengths drawn from the
// distributions of package lengths.
//
//	go run ./internal/bench/papers                    # all tables
//	go run ./internal/bench/papers seamless           # some; -list names them
//	go run ./internal/bench/papers -large fewer-1     # with 100M documents: minutes, and 8 GiB of memory
//
// Times are of one core. Lengths are drawn with seed 1, as by loaderd gen-lengths, unless a column says otherwise, so loaderd simulate
// repeats each figure.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
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
	flag.Parse()
	runtime.GOMAXPROCS(1)
	if err := run(flag.Args(), *list, os.Stdout); err != nil {
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
