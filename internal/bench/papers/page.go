package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// page is docs/results/papers.md: prose, and blocks that tables write.
type page struct {
	path  string
	text  string
	draws bool // figures are drawn into files next to the page
}

// marks match a block: the mark with the name of a table, what the table wrote, and the mark of its end.
var marks = regexp.MustCompile(`(?s)<!-- table ([a-z0-9-]+) -->\n(.*?)<!-- end of table -->\n`)

func readPage(path string) (*page, error) {
	p := &page{path: path}
	return p, p.read()
}

func (p *page) read() error {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	p.text = string(text)
	return nil
}

// beside returns the path of a file in the folder of the page.
func (p *page) beside(name ...string) string {
	return filepath.Join(append([]string{filepath.Dir(p.path)}, name...)...)
}

// find returns where the content of a table's block begins and ends.
func (p *page) find(table string) (from, to int, err error) {
	for _, m := range marks.FindAllStringSubmatchIndex(p.text, -1) {
		if p.text[m[2]:m[3]] == table {
			return m[4], m[5], nil
		}
	}
	return 0, 0, fmt.Errorf("%s has no block of table %q", p.path, table)
}

// replace writes the content of a table's block into the file. It reads the file again, which may have changed while the table was made.
func (p *page) replace(table, content string) error {
	if err := p.read(); err != nil {
		return err
	}
	from, to, err := p.find(table)
	if err != nil {
		return err
	}
	p.text = p.text[:from] + content + p.text[to:]
	if err := os.WriteFile(p.path, []byte(p.text), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// cell returns what a table of the page has in the row and the column of these names.
func (p *page) cell(table, row, column string) (string, error) {
	from, to, err := p.find(table)
	if err != nil {
		return "", err
	}
	k := -1
	for line := range strings.Lines(p.text[from:to]) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), " | ")
		switch {
		case k < 0:
			if k = slices.Index(cells, column); k < 0 {
				return "", fmt.Errorf("table %s has no column %q", table, column)
			}
		case cells[0] == row && k < len(cells):
			return cells[k], nil
		}
	}
	return "", fmt.Errorf("table %s has no row %q", table, row)
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
