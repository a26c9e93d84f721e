package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"

	"loaderd/internal/humanize"
	"loaderd/internal/webmodules"
)

//go:embed page
var pageFiles embed.FS

var page = template.Must(template.ParseFS(pageFiles, "page/index.html"))

// pageData is the data of the page's template: texts and tables, the data of the figures, the style sheet and the
// script, both of which the policy names by hash.
type pageData struct {
	*Report
	Setting string
	Facts   [][2]string
	Tables  []pageTable
	Data    template.JS
	Style   template.CSS
	Script  template.JS
	Policy  string
}

// WriteHTML writes the report as one self-contained page: texts and tables as HTML, and figures as the report's JSON
// with the modules that draw them.
func (r *Report) WriteHTML(w io.Writer) error {
	style, script, err := pageAssets()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	data, err := json.Marshal(r) // escapes text that could end the script element
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	policy := fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'", cspHash(style), cspHash(script))
	err = page.Execute(w, pageData{Report: r, Setting: r.describeSetting(), Facts: r.facts(), Tables: r.tables(),
		Data: template.JS(data), Style: template.CSS(style), Script: template.JS(script), Policy: policy})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// pageAssets returns the style sheet and the script of the page.
func pageAssets() (style, script string, err error) {
	own, err := fs.Sub(pageFiles, "page")
	if err != nil {
		return "", "", err
	}
	var sheets bytes.Buffer
	for _, sheet := range []struct {
		folder fs.FS
		name   string
	}{{webmodules.Files, "theme.css"}, {webmodules.Files, "charts.css"}, {own, "report.css"}} {
		b, err := fs.ReadFile(sheet.folder, sheet.name)
		if err != nil {
			return "", "", err
		}
		sheets.Write(b)
	}
	script, err = webmodules.Bundle(own, "main.js")
	return sheets.String(), script, err
}

// cspHash returns the hash of a text for a Content-Security-Policy.
func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// facts describes the documents by pairs of a number and its meaning.
func (r *Report) facts() [][2]string {
	d := r.Lengths
	return [][2]string{
		{humanize.Count(d.Documents), "documents"}, {formatShort(float64(d.Tokens)), "tokens"},
		{humanize.Count(d.Median), "median length"}, {humanize.Count(int64(d.Mean + 0.5)), "mean length"},
		{humanize.Count(d.P99), "99 % are no longer"}, {humanize.Count(d.Max), "longest"},
	}
}

// pageTable is a table of the page with the meanings of its columns.
type pageTable struct {
	Title, First string // First names the first column
	Columns      []column
	Rows         []pageRow
}

type pageRow struct {
	Name  string
	Best  bool // of the chosen method
	Cells []pageCell
}

type pageCell struct {
	Text   string
	Marked bool // best of its column
}

// tables returns all values as tables. Tables without rows are omitted.
func (r *Report) tables() (all []pageTable) {
	for _, t := range []struct {
		title, first string
		columns      []column
		results      []Result
		best         string
	}{
		{"All figures", "method", columns, r.Results, r.Best},
		{"Documents that share a row", "method", relatedColumns, r.relatedResults(), r.Best},
		{"Sources", "source", sourceColumns, r.sourceRows(), ""},
		{"By source", "source, method", mixedColumns, r.sourceMethodRows(), ""},
	} {
		if len(t.results) == 0 {
			continue
		}
		rows := make([]pageRow, len(t.results))
		for i, x := range t.results {
			rows[i] = pageRow{Name: x.Method, Best: t.best != "" && x.Method == t.best}
		}
		for _, c := range t.columns {
			for i, marked := range c.bestResults(t.results) {
				rows[i].Cells = append(rows[i].Cells, pageCell{c.text(c.value(t.results[i])), marked})
			}
		}
		all = append(all, pageTable{t.title, t.first, t.columns, rows})
	}
	return all
}
