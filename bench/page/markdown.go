package page

import (
	"fmt"
	"io"
	"strings"
)

// Markdown is a Markdown table under construction: its header, then its rows. All columns but the first are numbers.
type Markdown [][]string

// Row adds the header, then rows.
func (m *Markdown) Row(cells ...string) { *m = append(*m, cells) }

// Values adds a row of values as fmt.Sprint writes them.
func (m *Markdown) Values(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	m.Row(row...)
}

// Print writes the table, and below it notes, such as the machine of times.
func (m Markdown) Print(out io.Writer, notes ...fmt.Stringer) error {
	var b strings.Builder
	for i, cells := range m {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| --- |%s\n", strings.Repeat(" ---: |", len(cells)-1))
		}
	}
	for _, note := range notes {
		fmt.Fprintf(&b, "\n%v\n", note)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
