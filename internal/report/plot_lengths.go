package report

import (
	"fmt"
	"html/template"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// histogram shows the lengths of the documents on a logarithmic axis: filled, the share of documents; as a line, the share of tokens; and
// the row lengths.
func (r *Report) histogram(width vg.Length) (template.HTML, error) {
	d := r.Lengths
	about := fmt.Sprintf("Document lengths: median %d tokens, 99 %% up to %d, longest %d", d.Median, d.P99, d.Max)
	return render(width, 260, about, func(c draw.Canvas) {
		p := newPlot()
		bins := d.Histogram
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max = bins[0].From, bins[len(bins)-1].To
		// A few lengths all alike still need an axis.
		if p.X.Max < 8*p.X.Min {
			p.X.Min, p.X.Max = p.X.Min/3, p.X.Max*3
		}
		p.X.Max = max(p.X.Max, 1.1*float64(r.largest()))
		p.X.Min = max(0.8, min(p.X.Min, 0.9*float64(r.Rows[0])))
		for _, b := range bins {
			p.Y.Max = max(p.Y.Max, share(b.Documents, int64(d.Documents)), share(b.Tokens, d.Tokens))
		}
		p.Y.Min, p.Y.Max = 0, 1.08*p.Y.Max
		ticks := decades(p.X.Min, p.X.Max, round)
		if len(ticks) < 3 {
			ticks = doublings(p.X.Min, p.X.Max)
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
		p.Y.Tick.Marker = plot.ConstantTicks(steps(p.Y.Max, 5, percentStep))
		p.Y.LineStyle.Width = 0
		p.Add(gridLines(false, true), paintFunc(func(area draw.Canvas, p *plot.Plot) {
			x, y := p.Transforms(&area)
			var tokens []vg.Point
			for _, b := range bins {
				x0, x1 := x(max(b.From, p.X.Min)), x(b.To)
				box(area, mark, x0+0.5, y(0), x1-0.5, y(share(b.Documents, int64(d.Documents))))
				top := y(share(b.Tokens, d.Tokens))
				tokens = append(tokens, vg.Point{X: x0, Y: top}, vg.Point{X: x1, Y: top})
			}
			for _, l := range r.Rows {
				area.StrokeLine2(draw.LineStyle{Color: muted, Width: 1, Dashes: []vg.Length{2, 3}}, x(float64(l)), area.Min.Y, x(float64(l)), area.Max.Y)
			}
			area.StrokeLines(draw.LineStyle{Color: second, Width: 2}, tokens)
			labelRows(draw.Crop(area, 0, 0, 0, lineHeight), r.Rows, x)
		}))
		// The top line is kept for the row lengths.
		p.Draw(draw.Crop(c, 0, -2, 0, -lineHeight))
	})
}

// labelRows writes row lengths above their lines, from the longest on, leaving out what does not fit.
func labelRows(c draw.Canvas, lengths []int, x func(float64) vg.Length) {
	free := c.Max.X
	for i := len(lengths) - 1; i >= 0; i-- {
		s := length(lengths[i])
		if i == 0 && len(lengths) == 1 {
			s = "row " + s
		}
		w := textWidth(s)
		at := min(x(float64(lengths[i])), c.Max.X-w/2)
		if at+w/2 <= free {
			write(c, at, c.Max.Y-lineHeight/2+2, -0.5, muted, s)
			free = at - w/2 - 4
		}
	}
}

// bucketShares shows which rows the slots lie in, for methods with several row lengths.
func (r *Report) bucketShares(width vg.Length) (template.HTML, error) {
	several := several(r.Results)
	m := perMethod{
		about: "Share of the slots in rows of each length", results: several, best: r.Best, scale: plot.LinearScale{}, most: 1,
		figure: func(x Result) string { return "" },
		ticks:  steps(1, 5, percentStep),
		paint: func(c draw.Canvas, res Result, _ color.Color, x func(float64) vg.Length, y vg.Length) {
			from := 0.0
			for k, b := range res.Buckets {
				to := from + share(b.Sequences*int64(b.Length), res.Slots)
				x0, x1 := x(from), x(to)
				col := ramp(k, len(res.Buckets))
				box(c, col, x0, y-8, max(x1-1, x0), y+8)
				if s := fmt.Sprintf("%.0f %%", 100*(to-from)); textWidth(s)+6 < x1-x0 {
					write(c, (x0+x1)/2, y, -0.5, onRamp(col), s)
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

// rampStops run from viridis' blue to its yellow, readable on light and on dark paper and by the color-blind.
var rampStops = []color.RGBA{{0x46, 0x3f, 0x8a, 255}, {0x31, 0x6c, 0x8e, 255}, {0x21, 0x96, 0x8a, 255}, {0x5e, 0xc1, 0x62, 255}, {0xdc, 0xd8, 0x3b, 255}}

// ramp returns color k of n from dark to bright.
func ramp(k, n int) color.RGBA {
	at := float64(k) / float64(max(n-1, 1)) * float64(len(rampStops)-1)
	i := min(int(at), len(rampStops)-2)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (at-float64(i))*(float64(b)-float64(a)))) }
	a, b := rampStops[i], rampStops[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// onRamp is the color of text on c.
func onRamp(c color.RGBA) color.Color {
	if 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) > 120 {
		return color.RGBA{0x11, 0x11, 0x11, 255}
	}
	return color.White
}
