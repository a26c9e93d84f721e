package history

import (
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// aims are the target shares of sources, for charts. They follow the configured weights, the changes in the plan, and
// the schedule, whose tokens are counted as steps contain them. They ignore paused and used-up sources.
type aims struct {
	names    []string
	schedule []mixture.Point // points that are not reached yet
	tokens   int64
	now      []float64
	from, to []float64 // of a ramp
	begins   int64
	over     int64 // tokens of the ramp; 0 outside a ramp
}

func newAims(names []string, c runconfig.Config) aims {
	weights := map[string]float64{}
	for name, s := range c.Sources {
		weights[name] = s.Weight
	}
	a := aims{names: slices.Clone(names), schedule: c.Mix.Schedule}
	a.now = a.shares(weights)
	return a
}

// shares returns the weights as fractions of 1, by the number of the source.
func (a *aims) shares(weights map[string]float64) []float64 {
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

// change applies a change of the mixture. names are all sources that the run has had so far.
func (a *aims) change(names []string, weights map[string]float64) {
	a.names, a.over = slices.Clone(names), 0
	a.now = a.shares(weights)
}

// at adds the tokens of a step and returns the shares after it. The caller must not change them.
func (a *aims) at(tokens int64) []float64 {
	a.tokens += tokens
	for len(a.schedule) > 0 && a.tokens >= int64(a.schedule[0].Tokens) {
		p := a.schedule[0]
		a.schedule = a.schedule[1:]
		a.from, a.to, a.begins, a.over = a.now, a.shares(p.Weights), int64(p.Tokens), int64(p.Ramp)
		if a.over == 0 {
			a.now = a.to
		}
	}
	if a.over > 0 {
		part := min(1, float64(a.tokens-a.begins)/float64(a.over))
		now := make([]float64, len(a.names))
		for i := range now {
			if i < len(a.from) && i < len(a.to) {
				now[i] = a.from[i] + part*(a.to[i]-a.from[i])
			}
		}
		if a.now = now; part == 1 {
			a.over = 0
		}
	}
	return a.now
}
