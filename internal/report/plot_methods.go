package report

import (
	"cmp"
	"html/template"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"loaderd/internal/quantity"
)

// perMethod is a plot with a line for every method: its name, its marks along the x axis, and its figure in words at the end.
type perMethod struct {
	about   string
	results []Result
	best    string
	figure  func(Result) string
	height  vg.Length // of a line; lineHeight unless something else is said
	scale   plot.Normalizer
	least   float64 // of the x axis
	most    float64
	ticks   []plot.Tick // those for which there is room are shown
	// paint draws the marks of a result at height y; x gives places on the x axis.
	paint func(c draw.Canvas, r Result, col color.Color, x func(float64) vg.Length, y vg.Length)
}

const (
	lineHeight = 22
	axisHeight = 26
)

// draw draws the plot as wide as that.
func (m perMethod) draw(width vg.Length) (template.HTML, error) {
	n := len(m.results)
	height := vg.Length(n)*cmp.Or(m.height, lineHeight) + axisHeight
	return render(width, height, m.about, func(c draw.Canvas) {
		var names, figures vg.Length
		for _, r := range m.results {
			names, figures = max(names, textWidth(r.Method)), max(figures, textWidth(m.figure(r)))
		}
		left, right := c.Min.X+names+10, c.Max.X-figures-12
		p := newPlot()
		p.HideY()
		p.X.Scale, p.X.Min, p.X.Max = m.scale, m.least, m.most
		p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
		p.X.LineStyle.Width = 0
		p.X.Tick.Marker = plot.ConstantTicks(fit(m.ticks, func(v float64) vg.Length {
			return left + vg.Length(m.scale.Normalize(m.least, m.most, v))*(right-left)
		}))
		p.Add(gridLines(true, false), paintFunc(func(area draw.Canvas, p *plot.Plot) {
			x, y := p.Transforms(&area)
			for i, r := range m.results {
				at := y(float64(n - 1 - i))
				col, text := color.Color(mark), color.Color(muted)
				if r.Method == m.best {
					col, text = accent, ink
				}
				write(area, left-10, at, -1, text, r.Method)
				m.paint(area, r, col, x, at)
				write(area, c.Max.X, at, -1, text, m.figure(r))
			}
		}))
		p.Draw(draw.Crop(c, left, right-c.Max.X, 0, 0))
	})
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
		about: about, results: r.Results, best: r.Best, scale: logFromZero{least}, most: most,
		figure: func(x Result) string { return percent(value(x)) },
		ticks:  append([]plot.Tick{{Label: "0"}}, decades(least, most, percentTick)...),
		paint: func(c draw.Canvas, res Result, col color.Color, x func(float64) vg.Length, y vg.Length) {
			at := x(value(res))
			line(c, col, 1.5, x(0), y, at, y)
			dot(c, col, 4.5, at, y)
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
		about: about, results: r.Results, best: r.Best, scale: plot.LinearScale{}, most: most,
		figure: func(x Result) string { return text(value(x)) },
		ticks:  steps(most, 8, round),
		paint: func(c draw.Canvas, res Result, col color.Color, x func(float64) vg.Length, y vg.Length) {
			box(c, col, x(0), y-6, x(value(res)), y+6)
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
		scale: plot.LogScale{}, least: least, most: most,
		figure: func(x Result) string { return percent(ratio(x.AttentionCost, x.AttentionCostUnmasked)) },
		ticks:  doublings(least, most),
		paint: func(c draw.Canvas, res Result, col color.Color, x func(float64) vg.Length, y vg.Length) {
			if res.Tokens == 0 {
				return
			}
			from, to := x(res.attention()), x(res.unmasked())
			line(c, grid, 3, from, y, to, y)
			ring(c, second, 5, to, y)
			dot(c, col, 4.5, from, y)
		},
	}
}

// ages shows how long documents wait: nine of ten (95 % to 5 %) within the bar, half within the thick one, the median as a dot, the
// oldest as a line.
func (r *Report) ages() perMethod {
	_, most := values(r.Results, func(x Result) float64 { return float64(x.AgeMax) })
	most = max(most, 10)
	return perMethod{
		about: "Documents that arrive while one waits: quantiles", results: r.Results, best: r.Best, scale: logFromZero{1}, most: most,
		figure: func(x Result) string { return quantity.Count(x.AgeMedian) + " / " + quantity.Count(x.AgeMax) },
		ticks:  append([]plot.Tick{{Label: "0"}}, decades(1, most, round)...),
		paint: func(c draw.Canvas, res Result, col color.Color, x func(float64) vg.Length, y vg.Length) {
			at := func(share float64) vg.Length { return x(float64(res.AgeQuantile(share))) }
			line(c, col, 1.5, at(0), y, at(1), y)
			box(c, col, at(0.05), y-2.5, at(0.95), y+2.5)
			box(c, col, at(0.25), y-6, at(0.75), y+6)
			line(c, col, 2, at(1), y-6, at(1), y+6)
			dot(c, paper, 4, at(0.5), y)
			dot(c, ink, 2.5, at(0.5), y)
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
