// Package lengths generates document lengths for tests and benchmarks.
package lengths

import (
	"math"
	"math/rand/v2"
)

// Parameters of the log-normal distribution that reproduces the truncation figures published for FineWeb-Edu.
const (
	Mu    = 6.363
	Sigma = 1.0235
)

// LogNormal returns n document lengths in tokens, at least 1, drawn from the log-normal distribution of Mu and Sigma. They are the
// same for the same seed.
func LogNormal(n int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]int32, n)
	for i := range out {
		x := math.Exp(Mu + Sigma*r.NormFloat64())
		out[i] = int32(min(max(x, 1), math.MaxInt32))
	}
	return out
}
