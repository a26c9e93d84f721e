package report

import (
	"fmt"

	"golang.org/x/net/html"
)

// histogram shows the lengths of the documents on a logarithmic axis: filled, the share of documents; as a line, the share of tokens; and
// the row lengths.
func (r *Report) histogram(width float64) *html.Node {
	d := r.Lengths
	p := plot{drawing: newDrawing(width, 260, fmt.Sprintf("Document lengths: median %d tokens, 99 %% up to %d, longest %d", d.Median, d.P99, d.Max))}
	p.x = r.lengthAxis()
	for _, b := range d.Histogram {
		p.y.most = max(p.y.most, share(b.Documents, int64(d.Documents)), share(b.Tokens, d.Tokens))
	}
	p.y = axis{most: 1.08 * p.y.most, place: linear}
	p.y.ticks = steps(p.y.most, 5, percentStep)
	p.frame(lineHeight)
	p.gridY()
	var tokens []point
	for _, b := range d.Histogram {
		x0, x1 := p.x.at(max(b.From, p.x.least)), p.x.at(b.To)
		p.box(mark, x0+0.5, p.y.from, max(x1-0.5, x0+0.5), p.y.at(share(b.Documents, int64(d.Documents))))
		top := p.y.at(share(b.Tokens, d.Tokens))
		tokens = append(tokens, point{x0, top}, point{x1, top})
	}
	for _, l := range r.Rows {
		x := p.x.at(float64(l))
		p.line(muted, 1, x, p.y.from, x, p.y.to, "stroke-dasharray", "2 3")
	}
	p.border()
	p.labelX()
	p.curve(second, 2, tokens)
	p.labelRows(r.Rows)
	return p.svg
}

// lengthAxis is a logarithmic axis that holds all documents and rows.
func (r *Report) lengthAxis() axis {
	bins := r.Lengths.Histogram
	x := axis{least: bins[0].From, most: bins[len(bins)-1].To, place: logarithmic}
	// A few lengths all alike still need an axis.
	if x.most < 8*x.least {
		x.least, x.most = x.least/3, x.most*3
	}
	x.most = max(x.most, 1.1*float64(r.largest()))
	x.least = max(0.8, min(x.least, 0.9*float64(r.Rows[0])))
	if x.ticks = decades(x.least, x.most, round); len(x.ticks) < 3 {
		x.ticks = doublings(x.least, x.most)
	}
	return x
}

// labelRows writes row lengths above their lines, from the longest on, leaving out what does not fit.
func (p *plot) labelRows(lengths []int) {
	free := p.width
	for i := len(lengths) - 1; i >= 0; i-- {
		s := length(lengths[i])
		if i == 0 && len(lengths) == 1 {
			s = "row " + s
		}
		w := textWidth(s)
		at := min(p.x.at(float64(lengths[i])), p.width-w/2)
		if at+w/2 <= free {
			p.write(at, lineHeight/2-2, centered, muted, s)
			free = at - w/2 - 4
		}
	}
}

// bucketShares shows which rows the slots lie in, for methods with several row lengths.
func (r *Report) bucketShares(width float64) *html.Node {
	several := several(r.Results)
	m := perMethod{
		about: "Share of the slots in rows of each length", results: several, best: r.Best, scale: linear, most: 1,
		figure: func(x Result) string { return "" },
		ticks:  steps(1, 5, percentStep),
		paint: func(d *drawing, res Result, _ string, x func(float64) float64, y float64) {
			from := 0.0
			for k, b := range res.Buckets {
				to := from + share(b.Sequences*int64(b.Length), res.Slots)
				x0, x1 := x(from), x(to)
				color := ramp(k, len(res.Buckets))
				d.box(color.String(), x0, y-8, max(x1-1, x0), y+8)
				if s := fmt.Sprintf("%.0f %%", 100*(to-from)); textWidth(s)+6 < x1-x0 {
					d.write((x0+x1)/2, y, centered, color.text(), s)
				}
				from = to
			}
		},
	}
	return m.draw(width)
}

func several(results []Result) (some []Result) {
	for _, x := range results {
		if len(x.Buckets) > 1 {
			some = append(some, x)
		}
	}
	return some
}
