package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"loaderd/internal/humanize"
	"loaderd/packonline"
)

// tableWidth is the maximum number of characters per line, for a narrow terminal.
const tableWidth = 80

// WriteTable writes the report as a table with at most tableWidth characters per line. A * marks the best value of a
// column.
func (r *Report) WriteTable(w io.Writer) error {
	d := r.Lengths
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", wrap(fmt.Sprintf("%s documents, %s tokens: median %s, mean %s, 99 %% up to %s, longest %s",
		humanize.Count(d.Documents),
		formatShort(float64(d.Tokens)),
		humanize.Count(d.Median), humanize.Count(int64(d.Mean+0.5)), humanize.Count(d.P99), humanize.Count(d.Max)),
		tableWidth))
	fmt.Fprintf(&b, "%s\n\n", wrap(r.describeSetting()+".", tableWidth))
	if len(r.Results) > 0 {
		b.WriteString(table("method", columns, r.Results))
		if related := r.relatedResults(); len(related) > 0 {
			b.WriteString("\nDocuments that share a row:\n\n" + table("method", relatedColumns, related))
		}
		if sources := r.sourceRows(); len(sources) > 0 {
			b.WriteString("\nSources:\n\n" + table("source", sourceColumns, sources) + "\nBy source:\n\n" +
				table("source, method", mixedColumns, r.sourceMethodRows()))
		}
		b.WriteString("\n* best of its column\n")
		if len(r.sampledResults()) > 0 {
			fmt.Fprintf(&b, "%s\n", wrap("sample: how far "+r.describeSamples()+" is off in the worst twentieth of the run",
				tableWidth))
		}
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "%s\n", wrap("left out: "+s.Method+": "+s.Reason, tableWidth))
	}
	if len(r.Why) > 0 {
		fmt.Fprintf(&b, "\n%s\n", wrap(strings.Join(r.Why, " "), tableWidth))
	}
	if r.Best != "" {
		fmt.Fprintf(&b, "\n%s", r.settings())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// settings returns the recommended settings as YAML for a configuration file.
func (r *Report) settings() string {
	rows := r.Rows
	if !packonline.IsMultiBucket(r.Best) {
		rows = rows[len(rows)-1:]
	}
	text := fmt.Sprintf("packing:\n  method: %s\n  buckets: %s\n", r.Best, strings.ReplaceAll(fmt.Sprint(rows), " ", ", "))
	if r.Pool > 0 && slices.Contains(packonline.Parameters(r.Best), "pool") {
		text += fmt.Sprintf("  pool: %d\n", r.Pool)
	}
	if r.MaxAge > 0 {
		text += fmt.Sprintf("  max_age: %d\n", r.MaxAge)
	}
	return text
}

// describeSetting describes the bounds under which the methods ran.
func (r *Report) describeSetting() string {
	s := fmt.Sprintf("Rows of %s tokens", formatRows(r.Rows))
	if len(r.Rows) > 1 {
		s += fmt.Sprintf(" (methods with one row length: %s)", humanize.Count(r.longestRow()))
	}
	if r.Pool == 0 {
		s += "; the whole input waits at once"
	} else {
		s += fmt.Sprintf("; a pool of %s pieces", humanize.Count(r.Pool))
	}
	if r.MaxAge == 0 {
		return s + ", ages without a bound set"
	}
	return s + fmt.Sprintf(", ages up to %s documents", humanize.Count(r.MaxAge))
}

// table formats a row for every result, with the title first for the column of names. Columns that exceed the width
// follow in further tables below.
func table(first string, columns []column, results []Result) string {
	cells := [][]string{{first}, {""}}
	for _, x := range results {
		cells = append(cells, []string{x.Method})
	}
	for _, c := range columns {
		cells[0] = append(cells[0], cmp.Or(c.short, c.Name)+" ")
		cells[1] = append(cells[1], c.Unit+" ")
		for i, marked := range c.bestResults(results) {
			mark := " "
			if marked {
				mark = "*"
			}
			cells[2+i] = append(cells[2+i], strings.TrimSuffix(c.text(c.value(results[i])), " %")+mark)
		}
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for k, cell := range line {
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	from := 1
	for _, to := range splitColumns(widths) {
		if from > 1 {
			b.WriteByte('\n')
		}
		for _, line := range cells {
			text := fmt.Sprintf("%-*s", widths[0], line[0])
			for k := from; k < to; k++ {
				text += fmt.Sprintf(" %*s", widths[k], line[k])
			}
			b.WriteString(strings.TrimRight(text, " ") + "\n")
		}
		from = to
	}
	return b.String()
}

// splitColumns splits columns into tables and returns the end index of each. Every table repeats the first column. The
// number of tables is the smallest for tableWidth, and their widths are about equal.
func splitColumns(widths []int) (ends []int) {
	for most := tableWidth; ; most-- {
		var tried []int
		width := widths[0]
		for k, w := range widths[1:] {
			if width += 1 + w; width > most && k > 0 {
				tried = append(tried, 1+k)
				width = widths[0] + 1 + w
			}
			if width > most && most < tableWidth {
				return ends
			}
		}
		tried = append(tried, len(widths))
		if ends != nil && len(tried) > len(ends) {
			return ends
		}
		ends = tried
	}
}

// wrap splits a text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > width:
			b.WriteByte('\n')
			at = 0
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
