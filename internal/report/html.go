package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"loaderd/internal/quantity"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// Widths of a drawing on a screen and on a phone: each is drawn twice, so that its text is readable on both.
const (
	wide   = 600
	narrow = 340
)

type cell struct {
	Text string
	Best bool
}

type pageRow struct {
	Method string
	Best   bool
	Cells  []cell
}

type pageTable struct {
	Title   string
	First   string // what a line is about
	Columns []column
	Rows    []pageRow
}

func (r *Report) pageTable(title, first string, columns []column, results []Result) pageTable {
	t := pageTable{Title: title, First: first, Columns: columns}
	for _, x := range results {
		t.Rows = append(t.Rows, pageRow{Method: x.Method, Best: x.Method == r.Best})
	}
	for _, c := range columns {
		for i, marked := range c.marks(results) {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cell{c.text(c.value(results[i])), marked})
		}
	}
	return t
}

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	tables := []pageTable{r.pageTable("All figures", "method", columns, r.Results)}
	if related := r.related(); len(related) > 0 {
		tables = append(tables, r.pageTable("Documents that share a row", "method", relatedColumns, related))
	}
	if sources := r.sources(); len(sources) > 0 {
		tables = append(tables, r.pageTable("Sources", "source", sourceColumns, sources), r.pageTable("By source", "source, method", mixedColumns, r.bySource()))
	}
	d := r.Lengths
	err = page.Execute(w, map[string]any{
		"Report": r, "Setting": r.setting(), "Hero": figures[:min(1, len(figures))], "Figures": figures[min(1, len(figures)):], "Tables": tables,
		"Facts": [][2]string{
			{quantity.Count(d.Documents), "documents"}, {short(float64(d.Tokens)), "tokens"},
			{quantity.Count(d.Median), "median length"}, {quantity.Count(int64(d.Mean + 0.5)), "mean length"},
			{quantity.Count(d.P99), "99 % are no longer"}, {quantity.Count(d.Max), "longest"},
		},
	})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// figures draws all plots.
func (r *Report) figures() (out []figure, err error) {
	for _, f := range r.plots() {
		if f.Wide, err = f.draw(wide); err != nil {
			return nil, err
		}
		if f.Narrow, err = f.draw(narrow); err != nil {
			return nil, err
		}
		out = append(out, f.figure)
	}
	return out, nil
}
