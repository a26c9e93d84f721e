// Package lengths draws document lengths in tokens from named distributions: those of the papers whose packing
// methods are implemented, and some that are hard to pack.
package lengths

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Parameters of the log-normal distribution that reproduces the truncation figures published for FineWeb-Edu.
const (
	FineWebMu    = 6.363
	FineWebSigma = 1.0235
)

// LogNormal returns n document lengths in tokens, at least 1, drawn from the log-normal distribution of Mu and Sigma.
// They depend only on n and seed.
func LogNormal(n int, seed uint64) []int32 { return LogNormalOf(FineWebMu, FineWebSigma, n, seed) }

// LogNormalOf is LogNormal with other parameters.
func LogNormalOf(mu, sigma float64, n int, seed uint64) []int32 {
	return drawEach(n, seed, func(r *rand.Rand, _ float64) float64 { return math.Exp(mu + sigma*r.NormFloat64()) })
}

// Distribution is a named distribution of document lengths.
type Distribution struct {
	Name      string
	Shape     string // description
	Source    string // source of its parameters
	Documents int    // number of documents in the source, or a round number
	// Mu and Sigma are the parameters of a log-normal distribution; 0 for another one.
	Mu, Sigma float64

	lengths func(n int, seed uint64) []int32
}

// Draw returns n lengths, which depend only on n and seed.
func (d Distribution) Draw(n int, seed uint64) []int32 {
	if d.lengths == nil {
		return LogNormalOf(d.Mu, d.Sigma, n, seed)
	}
	return d.lengths(n, seed)
}

// ByName returns the distribution with a name.
func ByName(name string) (d Distribution, ok bool) {
	i := slices.IndexFunc(distributions, func(d Distribution) bool { return d.Name == name })
	if i < 0 {
		return Distribution{}, false
	}
	return distributions[i], true
}

// Distributions returns all distributions.
func Distributions() []Distribution { return slices.Clone(distributions) }

// drawEach returns n lengths of at least 1. one receives the position in the list: from 0 for the first to 1 for the
// last.
func drawEach(n int, seed uint64, one func(r *rand.Rand, at float64) float64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]int32, n)
	for i := range out {
		x := one(r, float64(i)/float64(max(n-1, 1)))
		out[i] = int32(min(max(x, 1), math.MaxInt32))
	}
	return out
}
