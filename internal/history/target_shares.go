package history

import (
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// targetShares are the target shares of sources, for charts. They follow the configured weights, the changes in the
// plan, and the schedule, whose tokens are counted as steps contain them. A sealed source counts as ended at the first
// step without its tokens. They ignore paused and used-up sources.
type targetShares struct {
	names      []string
	schedule   []mixture.Point // points that are not reached yet
	sealed     map[string]bool
	tokens     int64
	current    []float64
	from, to   []float64 // of a ramp
	rampStart  int64
	rampTokens int64 // tokens of the ramp; 0 outside a ramp
}

func newTargetShares(names []string, c runconfig.Config) targetShares {
	weights := map[string]float64{}
	for name, s := range c.Sources {
		weights[name] = s.Weight
	}
	a := targetShares{names: slices.Clone(names), schedule: c.Mix.Schedule, sealed: map[string]bool{}}
	a.current = a.shares(weights)
	return a
}

// shares returns the weights as fractions of 1, by the number of the source.
func (a *targetShares) shares(weights map[string]float64) []float64 {
	out, sum := make([]float64, len(a.names)), 0.0
	for _, w := range weights {
		sum += w
	}
	for i, name := range a.names {
		if sum > 0 {
			out[i] = weights[name] / sum
		}
	}
	return out
}

// setWeights applies a change of the mixture. names are all sources that the run has had so far.
func (a *targetShares) setWeights(names []string, weights map[string]float64) {
	a.names, a.rampTokens = slices.Clone(names), 0
	a.current = a.shares(weights)
}

// isReached reports whether a point of the schedule is reached after a step with the given tokens of each source.
func (a *targetShares) isReached(p *mixture.Point, sources []int64) bool {
	if p.After == "" {
		return a.tokens >= int64(p.Tokens)
	}
	i := slices.Index(a.names, p.After)
	return a.sealed[p.After] && (i >= len(sources) || sources[i] == 0)
}

// advance adds the tokens of a step, in total and of each source, and returns the shares after it. The caller must not
// change them.
func (a *targetShares) advance(tokens int64, sources []int64) []float64 {
	a.tokens += tokens
	for len(a.schedule) > 0 && a.isReached(&a.schedule[0], sources) {
		p := a.schedule[0]
		a.schedule = a.schedule[1:]
		if p.After != "" {
			p.Tokens = mixture.Tokens(a.tokens)
		}
		a.from, a.to, a.rampStart, a.rampTokens = a.current, a.shares(p.Weights), int64(p.Tokens), int64(p.Ramp)
		if a.rampTokens == 0 {
			a.current = a.to
		}
	}
	if a.rampTokens > 0 {
		part := min(1, float64(a.tokens-a.rampStart)/float64(a.rampTokens))
		now := make([]float64, len(a.names))
		for i := range now {
			if i < len(a.from) && i < len(a.to) {
				now[i] = a.from[i] + part*(a.to[i]-a.from[i])
			}
		}
		if a.current = now; part == 1 {
			a.rampTokens = 0
		}
	}
	return a.current
}
