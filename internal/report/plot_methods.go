package report

import (
	"cmp"
	"math"

	"golang.org/x/net/html"

	"loaderd/internal/quantity"
)

// perMethod is a plot with a line for every method: its name, its marks along the x axis, and its figure in words at the end.
type perMethod struct {
	about   string
	results []Result
	best    string
	figure  func(Result) string
	height  float64 // of a line; lineHeight unless something else is said
	scale   scale
	least   float64 // of the x axis
	most    float64
	ticks   []tick // those for which there is room are shown
	// paint draws the marks of a result at height y; x gives places on the x axis.
	paint func(d *drawing, r Result, color string, x func(float64) float64, y float64)
}

const lineHeight = 22

// draw draws the plot as wide as that.
func (m perMethod) draw(width float64) *html.Node {
	each := cmp.Or(m.height, lineHeight)
	p := plot{drawing: newDrawing(width, float64(len(m.results))*each+axisHeight, m.about)}
	var names, figures float64
	for _, r := range m.results {
		names, figures = max(names, textWidth(r.Method)), max(figures, textWidth(m.figure(r)))
	}
	p.x = axis{least: m.least, most: m.most, place: m.scale, ticks: m.ticks}
	p.y.from = p.height - axisHeight
	p.span(names+10, width-figures-12)
	p.x.ticks = fit(m.ticks, p.x.at)
	p.gridX()
	for i, r := range m.results {
		y := (float64(i) + 0.5) * each
		color, words := mark, muted
		if r.Method == m.best {
			color, words = accent, ink
		}
		p.write(names, y, before, words, r.Method)
		m.paint(p.drawing, r, color, p.x.at, y)
		p.write(width, y, before, words, m.figure(r))
	}
	return p.svg
}

// median marks it in a bar.
func (d *drawing) median(x, y float64) {
	d.dot(paper, 4, x, y)
	d.dot(ink, 2.5, x, y)
}

// values finds the range of a figure over all results.
func values(results []Result, value func(Result) float64) (least, most float64) {
	least = math.Inf(1)
	for _, r := range results {
		if v := value(r); v > 0 {
			least = min(least, v)
		}
		most = max(most, value(r))
	}
	return least, most
}

// lollipops shows shares, which lie decades apart, as dots on a logarithmic scale that knows zero.
func (r *Report) lollipops(about string, value func(Result) float64) perMethod {
	least, most := values(r.Results, value)
	least = math.Pow10(int(math.Floor(math.Log10(min(least, 0.01) * 1.0000001))))
	most = max(most, 10*least)
	return perMethod{
		about: about, results: r.Results, best: r.Best, scale: logFromZero(least), most: most,
		figure: func(x Result) string { return percent(value(x)) },
		ticks:  append([]tick{{label: "0"}}, decades(least, most, percentTick)...),
		paint: func(d *drawing, res Result, color string, x func(float64) float64, y float64) {
			at := x(value(res))
			d.line(color, 1.5, x(0), y, at, y)
			d.dot(color, 4.5, at, y)
		},
	}
}

// bars shows a figure as bars from zero.
func (r *Report) bars(about string, value func(Result) float64, text func(float64) string) perMethod {
	_, most := values(r.Results, value)
	if most == 0 {
		most = 1
	}
	return perMethod{
		about: about, results: r.Results, best: r.Best, scale: linear, most: most,
		figure: func(x Result) string { return text(value(x)) },
		ticks:  steps(most, 8, round),
		paint: func(d *drawing, res Result, color string, x func(float64) float64, y float64) {
			d.box(color, x(0), y-6, x(value(res)), y+6)
		},
	}
}

// costs shows what attention costs with the document mask, a full dot, and without, a ring.
func (r *Report) costs() perMethod {
	least, most := values(r.Results, Result.attention)
	_, dense := values(r.Results, Result.unmasked)
	least, most = math.Exp2(math.Floor(math.Log2(min(least, most)))), max(dense, 2)
	if !(least > 0 && least < most) {
		least = most / 2
	}
	return perMethod{
		about: "Tokens that a token attends to, with and without the document mask", results: r.Results, best: r.Best,
		scale: logarithmic, least: least, most: most,
		figure: func(x Result) string { return percent(ratio(x.AttentionCost, x.AttentionCostUnmasked)) },
		ticks:  doublings(least, most),
		paint: func(d *drawing, res Result, color string, x func(float64) float64, y float64) {
			if res.Tokens == 0 {
				return
			}
			from, to := x(res.attention()), x(res.unmasked())
			d.line(grid, 3, from, y, to, y)
			d.ring(second, 5, to, y)
			d.dot(color, 4.5, from, y)
		},
	}
}

// ages shows how long documents wait: nine of ten (95 % to 5 %) within the bar, half within the thick one, the median as a dot, the
// oldest as a line.
func (r *Report) ages() perMethod {
	_, most := values(r.Results, func(x Result) float64 { return float64(x.AgeMax) })
	most = max(most, 10)
	return perMethod{
		about: "Documents that arrive while one waits: quantiles", results: r.Results, best: r.Best, scale: logFromZero(1), most: most,
		figure: func(x Result) string { return quantity.Count(x.AgeMedian) + " / " + quantity.Count(x.AgeMax) },
		ticks:  append([]tick{{label: "0"}}, decades(1, most, round)...),
		paint: func(d *drawing, res Result, color string, x func(float64) float64, y float64) {
			at := func(share float64) float64 { return x(float64(res.AgeQuantile(share))) }
			d.line(color, 1.5, at(0), y, at(1), y)
			d.box(color, at(0.05), y-2.5, at(0.95), y+2.5)
			d.box(color, at(0.25), y-6, at(0.75), y+6)
			d.line(color, 2, at(1), y-6, at(1), y+6)
			d.median(at(0.5), y)
		},
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// percentTick is a power of ten as a percentage.
func percentTick(share float64) string {
	return significant(100*share, 1) + " %"
}
