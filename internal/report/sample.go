package report

import (
	"fmt"
	"math"

	"loaderd/internal/quantity"
)

// sampleHeight is the height of a method's line in the plot of samples, which goes up and down; fairBand is what is drawn behind it: a
// deviation that passes for a fair sample. What is off by more than mostOff is drawn as far as that.
const (
	sampleHeight = 34
	fairBand     = 0.1
	mostOff      = 1
)

// deviation is how far the worst twentieth of the run is off, NaN where the run is too short to tell.
func (x Result) deviation() float64 {
	if x.Sample == nil {
		return math.NaN()
	}
	return x.Sample.Deviation
}

// sampled are the results that tell how fair a sample every part of their run is.
func (r *Report) sampled() (some []Result) {
	for _, x := range r.Results {
		if x.Sample != nil {
			some = append(some, x)
		}
	}
	return some
}

// aboutSamples says what is compared.
func (r *Report) aboutSamples() string {
	return fmt.Sprintf("the share of tokens that are of documents shorter than %s", quantity.Count(r.sampled()[0].Sample.Below))
}

// samples shows for every method how far the share of short documents goes up and down along its run, all on one scale.
func (r *Report) samples() perMethod {
	results := r.sampled()
	_, most := values(results, Result.deviation)
	most = min(max(most, 2*fairBand), mostOff)
	return perMethod{
		about: "Share of tokens of short documents in every twentieth of the run, against the whole run's", results: results, best: r.Best,
		height: sampleHeight, scale: linear, most: 1,
		figure: func(x Result) string { return percent(x.deviation()) },
		ticks:  steps(1, 5, percentStep),
		paint: func(d *drawing, res Result, color string, x func(float64) float64, y float64) {
			off := func(v float64) float64 {
				return y - min(max(v, -most), most)/most*(sampleHeight/2-3)
			}
			d.box(grid, x(0), off(-fairBand), x(1), off(fairBand))
			d.line(muted, 0.5, x(0), y, x(1), y)
			var points []point
			for k, v := range res.Sample.Shares {
				points = append(points, point{x((float64(k) + 0.5) / float64(len(res.Sample.Shares))), off(v/res.Sample.Share - 1)})
			}
			width := 1.5
			if res.Method == r.Best {
				width = 2.5
			}
			d.curve(color, width, points)
		},
	}
}
