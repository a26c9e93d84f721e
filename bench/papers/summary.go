package main

import (
	"fmt"
	"io"
	"strings"

	"loaderd/bench/page"
)

var summary = []table{{
	name: "summary", title: "What the papers publish, and the figures of the tables below",
	command: "bin/papers -write summary",
	print:   printSummary,
}}

// summaryRow is a line of the summary: the comparison, the paper's figures, and figures of the page.
type summaryRow struct {
	paper, anchor, figure string
	published, here       []figureCell
}

// figureCell is the figure of a table in a row and a column, or only text without a table.
type figureCell struct{ table, row, column, text string }

// figuresOf returns the figures of several rows in one column.
func figuresOf(table, column string, rows ...string) (cells []figureCell) {
	for _, row := range rows {
		cells = append(cells, figureCell{table: table, row: row, column: column})
	}
	return cells
}

// qualityCells returns the figures of a method in Table 1 of Beyond Fixed Length.
func qualityCells(whose, row string) (cells []figureCell) {
	for _, figure := range []string{"r_pad", "r_tru", "r_cat"} {
		cells = append(cells, figureCell{table: "beyond-1", row: row, column: figure + ", " + whose})
	}
	return cells
}

var (
	nearestRow = "BucketLLM, S = 100000, P = 0.025"
	bucketRow  = "bucket (ours), S = 4096, max age 8192"
	stages     = []string{"pubmed, documents under windows", "pubmed, dropped"}
	stepRows   = []string{"32, 256", "64, 256", "128, 128"}
)

var summaryRows = []summaryRow{
	{"Fewer Truncations", "fewer-truncations",
		"`bfd`: rows beyond those of concatenation, in %; published: offline, here: pool of 4,096",
		figuresOf("fewer-2", "published", "web, 2048, 10M"), figuresOf("fewer-2", "bfd, pool 4k, age 16k", "web, 2048, 10M")},
	{"Seamless Packing", "seamless-packing", "PubMed: documents under windows; tokens dropped",
		figuresOf("seamless", "published", stages...), figuresOf("seamless", "offline, mean of 10 draws", stages...)},
	{"Optimizing Packing and Shuffling", "optimizing-packing-and-shuffling-strategies",
		"steps of padding by those of concatenation, rows of 32, 64, 128",
		figuresOf("optimizing-3", "pad / concat, published", stepRows...),
		figuresOf("optimizing-3", "pad / concat, ours", stepRows...)},
	{"SPLICE", "splice", "exponent of token counts (deviation): concatenation; related documents, pool of 16,384",
		[]figureCell{{text: "C: 1.593 (.025); 1.512 (.055)"}, {text: "StackExchange: 1.664 (.013); 1.643 (.026)"}},
		figuresOf("splice-16384", "exponent, MLE", "concat (example packing)", "splice")},
	{"Beyond Fixed Length", "beyond-fixed-length", "padding; truncation; documents per row",
		qualityCells("published", nearestRow), qualityCells("ours", nearestRow)},
	{"", "", "the same of `bucket`, loaderd's own", nil, qualityCells("ours", bucketRow)},
}

// printSummary takes its figures from the page, to which the other tables were written before.
func printSummary(p *report, out io.Writer) error {
	var m page.Markdown
	m.Row("paper", "figure", "published", "here")
	for _, r := range summaryRows {
		cells := []string{"", r.figure}
		if r.paper != "" {
			cells[0] = fmt.Sprintf("[%s](#%s)", r.paper, r.anchor)
		}
		for _, column := range [][]figureCell{r.published, r.here} {
			var figures []string
			for _, x := range column {
				if x.table != "" {
					var err error
					if x.text, err = p.Cell(x.table, x.row, x.column); err != nil {
						return err
					}
				}
				figures = append(figures, x.text)
			}
			cells = append(cells, strings.Join(figures, "; "))
		}
		m.Row(cells...)
	}
	return m.Print(out)
}
