package report

import (
	_ "embed"
	"fmt"
	"io"

	"golang.org/x/net/html"

	"loaderd/internal/quantity"
)

//go:embed page.css
var styleSheet string

// Widths of a drawing on a screen and on a phone: each is drawn twice, so that its text is readable on both.
const (
	wide   = 600
	narrow = 340
)

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	page := &html.Node{Type: html.DocumentNode}
	page.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	page.AppendChild(element("html", []string{"lang", "en"}, r.head(), tag("body", tag("main", lines(r.body()...)...))))
	if err := html.Render(w, page); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Report) head() *html.Node {
	return tag("head", lines(
		element("meta", []string{"charset", "utf-8"}),
		element("meta", []string{"name", "viewport", "content", "width=device-width, initial-scale=1"}),
		element("meta", []string{"name", "color-scheme", "content", "light dark"}),
		tag("title", text("Packing methods on "+r.Input)),
		tag("style", text(styleSheet)),
	)...)
}

func (r *Report) body() (parts []*html.Node) {
	hero := []*html.Node{r.verdict()}
	var figures []*html.Node
	for i, f := range r.figures() {
		if i == 0 {
			hero = append(hero, f.section())
		} else {
			figures = append(figures, f.section())
		}
	}
	parts = append(parts, classed("div", "grid hero", lines(hero...)...), classed("div", "grid", lines(figures...)...))
	parts = append(parts, r.tables()...)
	for _, s := range r.Skipped {
		parts = append(parts, classed("p", "small", text("Left out: "), tag("code", text(s.Method)), text(": "+s.Reason)))
	}
	return append(parts, classed("p", "small", text("Made with "), tag("code", text(r.Command))))
}

// verdict says which method to take, why, and what the documents are.
func (r *Report) verdict() *html.Node {
	title := tag("h1", text("No method packs into these rows"))
	if r.Best != "" {
		title = tag("h1", text("For these lengths, pack with "), tag("code", text(r.Best)))
	}
	why := classed("p", "why")
	for _, sentence := range r.Why {
		why.AppendChild(text(sentence + " "))
	}
	d := r.Lengths
	facts := classed("ul", "facts")
	for _, f := range [][2]string{
		{quantity.Count(d.Documents), "documents"}, {short(float64(d.Tokens)), "tokens"},
		{quantity.Count(d.Median), "median length"}, {quantity.Count(int64(d.Mean + 0.5)), "mean length"},
		{quantity.Count(d.P99), "99 % are no longer"}, {quantity.Count(d.Max), "longest"},
	} {
		facts.AppendChild(tag("li", tag("b", text(f[0])), tag("span", text(f[1]))))
	}
	return tag("div", lines(title, why, facts, classed("p", "small", text(r.setting()+". Lengths from "+r.Input+".")))...)
}

func (f figure) section() *html.Node {
	parts := []*html.Node{tag("h2", text(f.title)), classed("p", "small", text(f.note))}
	if len(f.legend) > 0 {
		legend := classed("ul", "legend")
		for _, s := range f.legend {
			legend.AppendChild(tag("li", element("i", []string{"style", s.style}), text(s.text)))
		}
		parts = append(parts, legend)
	}
	return tag("section", lines(append(parts, classed("div", "wide", f.draw(wide)), classed("div", "narrow", f.draw(narrow)))...)...)
}

// tables are all figures in numbers. Those without a line are left out.
func (r *Report) tables() (all []*html.Node) {
	add := func(title, first string, columns []column, results []Result) {
		if len(results) > 0 {
			all = append(all, r.tableSection(title, first, columns, results))
		}
	}
	add("All figures", "method", columns, r.Results)
	add("Documents that share a row", "method", relatedColumns, r.related())
	add("Sources", "source", sourceColumns, r.sources())
	add("By source", "source, method", mixedColumns, r.bySource())
	return all
}

// tableSection has a line for every result, which first names, and below it says what the columns are.
func (r *Report) tableSection(title, first string, columns []column, results []Result) *html.Node {
	names := tag("tr", tag("th", text(first)))
	about := tag("dl")
	rows := make([]*html.Node, len(results))
	for i, x := range results {
		rows[i] = tag("tr", tag("td", text(x.Method)))
		if x.Method == r.Best {
			rows[i] = classed("tr", "best", tag("td", text(x.Method)))
		}
	}
	for _, c := range columns {
		names.AppendChild(tag("th", text(c.Name), tag("small", text(c.Unit))))
		about.AppendChild(tag("dt", text(c.title())))
		about.AppendChild(tag("dd", text(c.About)))
		for i, marked := range c.marks(results) {
			cell := tag("td", text(c.text(c.value(results[i]))))
			if marked {
				cell.Attr = []html.Attribute{{Key: "class", Val: "top"}}
			}
			rows[i].AppendChild(cell)
		}
	}
	table := tag("table", tag("thead", names), tag("tbody", lines(rows...)...))
	return tag("section", lines(tag("h2", text(title)), classed("div", "scroll", table), about)...)
}
