// Package page rewrites the tables of a page of docs/results: each is between two marks, with the commands that
// print it.
//
//	<!-- table NAME -->
//	| ... |
//
//	    command
//
//	<!-- end of table -->
package page

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is prose with blocks.
type Page struct {
	path string
	text string
}

// Block is the text between two marks: a table and its commands.
type Block struct{ Name, Content string }

// marks match a block.
var marks = regexp.MustCompile(`(?s)<!-- table ([a-z0-9-]+) -->\n(.*?)<!-- end of table -->\n`)

// Read reads a page.
func Read(path string) (*Page, error) {
	p := &Page{path: path}
	return p, p.read()
}

func (p *Page) read() error {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	p.text = string(text)
	return nil
}

// PathNextTo returns the path of a file in the folder of the page.
func (p *Page) PathNextTo(name ...string) string {
	return filepath.Join(append([]string{filepath.Dir(p.path)}, name...)...)
}

// Blocks returns all blocks in their order.
func (p *Page) Blocks() (blocks []Block) {
	for _, m := range marks.FindAllStringSubmatch(p.text, -1) {
		blocks = append(blocks, Block{Name: m[1], Content: m[2]})
	}
	return blocks
}

// CheckNames returns an error if a block of the page has a name that is not among tables, or if the page lacks a block
// with one of names. Programs call it before they measure.
func (p *Page) CheckNames(tables, names []string) error {
	var errs []error
	for _, b := range p.Blocks() {
		if !slices.Contains(tables, b.Name) {
			errs = append(errs, fmt.Errorf("%s has a block of an unknown table %q", p.path, b.Name))
		}
	}
	for _, name := range names {
		if _, _, err := p.find(name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Prose returns the page without its blocks.
func (p *Page) Prose() string { return marks.ReplaceAllString(p.text, "") }

// Replace writes the content of a block into the file. It reads the file again, which may have changed while the table
// was made.
func (p *Page) Replace(name, content string) error {
	if err := p.read(); err != nil {
		return err
	}
	from, to, err := p.find(name)
	if err != nil {
		return err
	}
	p.text = p.text[:from] + content + p.text[to:]
	if err := os.WriteFile(p.path, []byte(p.text), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// find returns where the content of a block begins and ends.
func (p *Page) find(name string) (from, to int, err error) {
	for _, m := range marks.FindAllStringSubmatchIndex(p.text, -1) {
		if p.text[m[2]:m[3]] == name {
			return m[4], m[5], nil
		}
	}
	return 0, 0, fmt.Errorf("%s has no block of table %q", p.path, name)
}

// Cell returns the content of a table's cell, by the names of its row and column.
func (p *Page) Cell(name, row, column string) (string, error) {
	from, to, err := p.find(name)
	if err != nil {
		return "", err
	}
	k := -1
	for line := range strings.Lines(p.text[from:to]) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), " | ")
		switch {
		case k < 0:
			if k = slices.Index(cells, column); k < 0 {
				return "", fmt.Errorf("table %s has no column %q", name, column)
			}
		case cells[0] == row && k < len(cells):
			return cells[k], nil
		}
	}
	return "", fmt.Errorf("table %s has no row %q", name, row)
}

var command = regexp.MustCompile(`(?m)^    (.*)$`)

// Commands returns the commands of a block.
func (b Block) Commands() (commands []string) {
	for _, m := range command.FindAllStringSubmatch(b.Content, -1) {
		commands = append(commands, m[1])
	}
	return commands
}

// Content returns the content of a block: what was printed, and commands.
func Content(printed string, commands ...string) string {
	var b strings.Builder
	b.WriteString(printed + "\n")
	for _, c := range commands {
		b.WriteString("    " + c + "\n")
	}
	b.WriteString("\n")
	return b.String()
}
