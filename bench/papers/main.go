// Papers prints the tables of docs/results/papers.md as Markdown: a paper's published figures and loaderd's, on
// lengths drawn from the distributions of package lengths.
//
//	bin/papers                    # all tables
//	bin/papers seamless           # some; -list names them
//	bin/papers -large fewer-1     # with 100M documents: minutes, and 8 GiB of memory
//	bin/papers -write             # rewrites the page: make bench-papers
//
// Lengths are drawn with seed 1, as by loaderd gen-lengths, unless a column has another one, so loaderd simulate
// repeats each figure: packers have its defaults. Times are of one core and have separate tables; all other tables are
// the same in every run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"loaderd/bench/page"
	"loaderd/bench/record"
)

// report is the page that holds the tables.
type report struct {
	*page.Page
	draws bool // figures are drawn into files next to it
}

// table is a table of the page.
type table struct {
	name  string
	title string
	// command prints or measures the table; "" means this program with the table's name.
	command string
	// rows are loaderd commands that print the figures of single rows.
	rows []string
	// timed tables have times, and the machine. Another run gives other figures.
	timed bool
	print func(p *report, out io.Writer) error
}

// tables are all tables in writing order; the summary reads the others.
var tables = slices.Concat(fewerTruncations, seamlessPacking, optimizing, beyondFixedLength, bucketMethod, robustness,
	speed, splice, summary)

// large enables measurements that take minutes and gigabytes.
var large = flag.Bool("large", false, "measure 100 million documents too")

func main() {
	list := flag.Bool("list", false, "name the tables")
	at := flag.String("page", "docs/results/papers.md", "page with the tables, next to the records of make bench-splice")
	write := flag.Bool("write", false, "rewrite the tables on the page, and its figure, and print nothing")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	if err := run(*at, flag.Args(), *list, *write, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

func run(path string, names []string, list, write bool, out io.Writer) error {
	for _, name := range names {
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			return fmt.Errorf("choose tables: no table %q; -list names them", name)
		}
	}
	if list {
		for _, t := range tables {
			fmt.Fprintf(out, "%-18s %s\n", t.name, t.title)
		}
		return nil
	}
	if write && *large {
		return errors.New("-large excludes -write: the command on the page prints no row of 100 million documents")
	}
	onPage, err := page.Read(path)
	if err != nil {
		return err
	}
	chosen := tables
	if len(names) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(tables), func(t table) bool { return !slices.Contains(names, t.name) })
	}
	if write {
		if err := onPage.CheckNames(namesOf(tables), namesOf(chosen)); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(chosen, func(t table) bool { return t.timed }) {
		record.WarnOfLoad(os.Stderr)
	}
	p := &report{Page: onPage, draws: write}
	for _, t := range chosen {
		text, err := t.block(p)
		if err != nil {
			return err
		}
		if write {
			if err := p.Replace(t.name, text); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(out, "## %s\n\n%s", t.title, text); err != nil {
			return err
		}
	}
	return nil
}

func namesOf(tables []table) (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

// block returns the block of the table: the table and its commands.
func (t table) block(p *report) (string, error) {
	var b strings.Builder
	if err := t.print(p, &b); err != nil {
		return "", fmt.Errorf("print table %s: %w", t.name, err)
	}
	return page.Content(b.String(), t.commands()...), nil
}

func (t table) commands() []string {
	command := t.command
	if command == "" {
		command = "bin/papers " + t.name
	}
	return append([]string{command}, t.rows...)
}
