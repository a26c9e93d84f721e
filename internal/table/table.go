// Package table formats the tables of commands.
package table

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a table: columns two spaces apart, numbers aligned right, no blanks at the end of a line.
type Table struct {
	// NoHeader omits the header.
	NoHeader bool

	header []string
	rows   [][]string
}

// New returns a table without rows. Names of columns are in capitals.
func New(columns ...string) *Table { return &Table{header: columns} }

// Row adds a row, with a cell for each column.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// IsEmpty reports whether the table has no rows.
func (t *Table) IsEmpty() bool { return len(t.rows) == 0 }

// number matches the cells that are aligned right, such as 1,024, 12.5 %, 3.2 GiB or -.
var number = regexp.MustCompile(`^(-|[0-9][0-9.,]*( ?(%|[kMGT]?i?B(/s)?|[kMGT]))?)?$`)

// Write writes the table.
func (t *Table) Write(w io.Writer) error {
	lines := t.rows
	if !t.NoHeader {
		lines = append([][]string{t.header}, t.rows...)
	}
	widths, isNumber := make([]int, len(t.header)), make([]bool, len(t.header))
	for k := range t.header {
		for _, cells := range lines {
			widths[k] = max(widths[k], utf8.RuneCountInString(cells[k]))
		}
		hasText := func(cells []string) bool { return !number.MatchString(cells[k]) }
		hasNumber := func(cells []string) bool { return cells[k] != "" && cells[k] != "-" }
		isNumber[k] = slices.ContainsFunc(t.rows, hasNumber) && !slices.ContainsFunc(t.rows, hasText)
	}
	var b strings.Builder
	for _, cells := range lines {
		var line strings.Builder
		for k, cell := range cells {
			if k > 0 {
				line.WriteString("  ")
			}
			blanks := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell))
			if isNumber[k] {
				cell = blanks + cell
			} else {
				cell += blanks
			}
			line.WriteString(cell)
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
