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

// sampledResults returns the results with a measure of how representative each part of the run is.
func (r *Report) sampledResults() (some []Result) {
	for _, x := range r.Results {
		if x.Sample != nil {
			some = append(some, x)
		}
	}
	return some
}

// describeSamples describes the compared share.
func (r *Report) describeSamples() string {
	return fmt.Sprintf("the share of tokens that are of documents shorter than %s",
		humanize.Count(r.sampledResults()[0].Sample.Below))
}
