package report

import (
	"fmt"
	"math"

	"loaderd/internal/humanize"
)

// deviation returns the deviation of the run's worst twentieth, NaN if the run is too short.
func (x Result) deviation() float64 {
	if x.Sample == nil {
		return math.NaN()
	}
	return x.Sample.Deviation
}

// sampled returns the results with a measure of how representative each part of the run is.
func (r *Report) sampled() (some []Result) {
	for _, x := range r.Results {
		if x.Sample != nil {
			some = append(some, x)
		}
	}
	return some
}

// aboutSamples describes the compared share.
func (r *Report) aboutSamples() string {
	return fmt.Sprintf("the share of tokens that are of documents shorter than %s",
		humanize.Count(r.sampled()[0].Sample.Below))
}
