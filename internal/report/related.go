package report

import (
	"fmt"
	"html/template"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// relatedColumns are the figures that say how much the documents of a row have to do with one another. They are there when documents
// were packed, not lengths.
var relatedColumns = []column{
	{Name: "neighbours", Unit: "cosine", About: "how alike documents next to each other are: the mean cosine of their tf-idf vectors",
		value: func(x Result) float64 { return x.Related.NeighbourCosine }, text: thousandths, most: true},
	{Name: "same", Unit: "folder", About: "neighbours from the same folder", value: func(x Result) float64 { return x.Related.SameFolder }, text: percent,
		most: true},
	{Name: "same", Unit: "file", About: "neighbours from the same file", value: func(x Result) float64 { return x.Related.SameFile }, text: percent, most: true},
	{Name: "near", Unit: "duplicates", About: "documents that have a cosine above .9 with one of the 128 before them in the row",
		value: func(x Result) float64 { return x.Related.NearDuplicates }, text: percent},
	{Name: "exponent", Unit: "MLE", About: "Zipf's exponent of the token counts of a row, 1 + n / sum ln(f / .5): lower is burstier",
		value: func(x Result) float64 { return x.Related.ZipfMLE.Mean }, text: thousandths},
	{Name: "", Unit: "std", About: "its standard deviation over rows", value: func(x Result) float64 { return x.Related.ZipfMLE.Std }, text: thousandths,
		neutral: true},
	{Name: "exponent", Unit: "zeta", About: "the same exponent by maximum likelihood with the zeta function",
		value: func(x Result) float64 { return x.Related.ZipfZeta.Mean }, text: thousandths},
	{Name: "", Unit: "std", About: "its standard deviation over rows", value: func(x Result) float64 { return x.Related.ZipfZeta.Std }, text: thousandths,
		neutral: true},
}

func thousandths(v float64) string { return fmt.Sprintf("%.3f", v) }

// related are the results of methods that packed documents, not lengths.
func (r *Report) related() (some []Result) {
	for _, x := range r.Results {
		if x.Related != nil && x.Related.Rows > 0 {
			some = append(some, x)
		}
	}
	return some
}

// zipfs shows the exponents of single rows: nine of ten within the bar, half within the thick one, the median as a dot.
func (r *Report) zipfs() perMethod {
	results := r.related()
	least, most := math.Inf(1), 0.0
	for _, x := range results {
		slices.Sort(x.Related.Zipfs)
		least, most = min(least, quantile(x.Related.Zipfs, 0.05)), max(most, quantile(x.Related.Zipfs, 0.95))
	}
	least, most = math.Floor(20*least)/20, math.Ceil(20*most+0.01)/20
	var ticks []plot.Tick
	for v := least; v < most+0.001; v += 0.05 {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.2f", v)})
	}
	return perMethod{
		about: "Zipf's exponent of the token counts of single rows: quantiles", results: results, best: r.burstiest(),
		scale: plot.LinearScale{}, least: least, most: most,
		figure: func(x Result) string { return thousandths(x.Related.ZipfMLE.Mean) },
		ticks:  ticks,
		paint: func(c draw.Canvas, res Result, col color.Color, x func(float64) vg.Length, y vg.Length) {
			at := func(share float64) vg.Length { return x(quantile(res.Related.Zipfs, share)) }
			box(c, col, at(0.05), y-2.5, at(0.95), y+2.5)
			box(c, col, at(0.25), y-6, at(0.75), y+6)
			dot(c, paper, 4, at(0.5), y)
			dot(c, ink, 2.5, at(0.5), y)
		},
	}
}

func quantile(sorted []float64, share float64) float64 {
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// burstiest is the method with the lowest exponent.
func (r *Report) burstiest() string {
	results := r.related()
	return slices.MinFunc(results, func(a, b Result) int {
		if a.Related.ZipfMLE.Mean < b.Related.ZipfMLE.Mean {
			return -1
		}
		return 1
	}).Method
}

// tokenCounts shows which share of a row's distinct tokens comes so often in it or more, on logarithmic axes: a power law is a line, and
// the flatter it is the burstier are the rows.
func (r *Report) tokenCounts(width vg.Length) (template.HTML, error) {
	results := r.related()
	best := r.burstiest()
	curves := make([][]float64, len(results))
	for i, x := range results {
		curves[i] = atLeast(x.Related.Counts)
	}
	least, most := seen(curves)
	return render(width, 300, "Share of a row's distinct tokens by how often they come in it", func(c draw.Canvas) {
		p := newPlot()
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Min, p.X.Max = 1, float64(max(most, 2))
		p.Y.Min, p.Y.Max = min(least, 0.5), 1
		p.X.Tick.Marker = plot.ConstantTicks(decades(1, p.X.Max, round))
		p.Y.Tick.Marker = plot.ConstantTicks(decades(p.Y.Min, 1, percentTick))
		p.Add(gridLines(true, true), paintFunc(func(area draw.Canvas, p *plot.Plot) {
			for i, res := range results {
				if res.Method != best {
					strokeCurve(area, p, curves[i], draw.LineStyle{Color: mark, Width: 1.5})
				}
			}
			for i, res := range results {
				if res.Method == best {
					strokeCurve(area, p, curves[i], draw.LineStyle{Color: accent, Width: 2.5})
				}
			}
		}))
		p.Draw(draw.Crop(c, 0, -8, 0, -8))
	})
}

// atLeast sums shares from behind: of counts k+1 ([k]) those of k+1 or more.
func atLeast(shares []float64) []float64 {
	sums, sum := make([]float64, len(shares)), 0.0
	for k := len(shares) - 1; k >= 0; k-- {
		sum += shares[k]
		sums[k] = sum
	}
	return sums
}

// seen is the least share of the curves that is large enough to be seen, and the greatest count that has such a one.
func seen(curves [][]float64) (least float64, most int) {
	least, most = 1, 1
	for _, curve := range curves {
		for k, v := range curve {
			if v >= 1e-4 {
				least, most = min(least, v), max(most, k+1)
			}
		}
	}
	return least, most
}

// strokeCurve draws the part of a curve over counts from 1 on that is within the plot's axes.
func strokeCurve(area draw.Canvas, p *plot.Plot, curve []float64, style draw.LineStyle) {
	x, y := p.Transforms(&area)
	var points []vg.Point
	for k, v := range curve {
		if v >= p.Y.Min && float64(k+1) <= p.X.Max {
			points = append(points, vg.Point{X: x(float64(k + 1)), Y: y(v)})
		}
	}
	if len(points) > 1 {
		area.StrokeLines(style, points)
	}
}
