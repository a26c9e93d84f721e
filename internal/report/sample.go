package report

import (
	"fmt"
	"math"

	"loaderd/internal/quantity"
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
	return fmt.Sprintf("the share of tokens that are of documents shorter than %s",
		quantity.Count(r.sampled()[0].Sample.Below))
}
