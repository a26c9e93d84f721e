package report

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/net/html"
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
	var ticks []tick
	for v := least; v < most+0.001; v += 0.05 {
		ticks = append(ticks, tick{v, fmt.Sprintf("%.2f", v)})
	}
	return perMethod{
		about: "Zipf's exponent of the token counts of single rows: quantiles", results: results, best: r.burstiest(),
		scale: linear, least: least, most: most,
		figure: func(x Result) string { return thousandths(x.Related.ZipfMLE.Mean) },
		ticks:  ticks,
		paint: func(d *drawing, res Result, color string, x func(float64) float64, y float64) {
			at := func(share float64) float64 { return x(quantile(res.Related.Zipfs, share)) }
			d.box(color, at(0.05), y-2.5, at(0.95), y+2.5)
			d.box(color, at(0.25), y-6, at(0.75), y+6)
			d.median(at(0.5), y)
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
func (r *Report) tokenCounts(width float64) *html.Node {
	results := r.related()
	best := r.burstiest()
	curves := make([][]float64, len(results))
	for i, x := range results {
		curves[i] = atLeast(x.Related.Counts)
	}
	least, most := seen(curves)
	p := plot{drawing: newDrawing(width, 300, "Share of a row's distinct tokens by how often they come in it")}
	p.x = axis{least: 1, most: float64(max(most, 2)), place: logarithmic}
	p.y = axis{least: min(least, 0.5), most: 1, place: logarithmic}
	p.x.ticks, p.y.ticks = decades(1, p.x.most, round), decades(p.y.least, 1, percentTick)
	p.frame(textSize)
	p.gridY()
	p.gridX()
	for i, res := range results {
		if res.Method != best {
			p.descent(curves[i], mark, 1.5)
		}
	}
	for i, res := range results {
		if res.Method == best {
			p.descent(curves[i], accent, 2.5)
		}
	}
	return p.svg
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

// descent draws the part of a curve over counts from 1 on that is within the plot's axes.
func (p *plot) descent(curve []float64, color string, width float64) {
	var points []point
	for k, v := range curve {
		if v < p.y.least || float64(k+1) > p.x.most {
			continue
		}
		next := point{p.x.at(float64(k + 1)), p.y.at(v)}
		if n := len(points); n == 0 || k+1 == len(curve) || math.Abs(next.x-points[n-1].x)+math.Abs(next.y-points[n-1].y) >= 0.5 {
			points = append(points, next) // nearer ones cannot be told apart
		}
	}
	if len(points) > 1 {
		p.curve(color, width, points)
	}
}
