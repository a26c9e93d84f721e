package history

import (
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// endGap is the number of steps without tokens of a sealed source after which it counts as ended.
const endGap = 16

// targetShares are the target shares of sources, for charts. They follow the configured weights, the changes in the
// plan, and the schedule, whose tokens are counted as steps contain them. A sealed source ends after the last step with
// its tokens. That is assumed after endGap steps without them, and corrected if more follow. The targets ignore paused
// and used-up sources.
type targetShares struct {
	names []string
	targetState
	seals map[string]position // of sealed and removed sources, where they were sealed
	last  map[string]position // by source, after the last step with its tokens
	now   position
	ended bool // no step follows

	assumed []assumedEnd // ends of sources that further tokens would refute, in their order
}

// position is a place between two steps of a run.
type position struct {
	steps  uint64
	tokens int64
}

// targetState determines the targets until the next point of the schedule.
type targetState struct {
	schedule   []mixture.Point // points that are not reached yet
	from, to   []float64       // of the last point; without a ramp, only to is used
	rampStart  int64           // tokens of the run
	rampTokens int64           // tokens of the ramp; 0 without one
}

// assumedEnd is a source that is assumed to have ended, and the state before.
type assumedEnd struct {
	source string
	at     position
	before targetState
}

// retarget replaces the targets of all steps after a number of the run's tokens. at returns the targets at a number of
// tokens. The caller must not change them.
type retarget func(after int64, at func(tokens int64) []float64)

func newTargetShares(names []string, c runconfig.Config) targetShares {
	weights := map[string]float64{}
	for name, s := range c.Sources {
		weights[name] = s.Weight
	}
	a := targetShares{names: slices.Clone(names), seals: map[string]position{}, last: map[string]position{}}
	a.schedule, a.to = c.Mix.Schedule, a.shares(weights)
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
	a.names, a.rampTokens, a.assumed = slices.Clone(names), 0, nil
	a.to = a.shares(weights)
}

// seal records that a source gets no further documents.
func (a *targetShares) seal(source string) { a.seals[source] = a.now }

// sharesAt returns the targets at a number of the run's tokens after the last point of the schedule.
func (a *targetShares) sharesAt(tokens int64) []float64 {
	part := float64(tokens-a.rampStart) / float64(max(a.rampTokens, 1))
	if a.rampTokens == 0 || part >= 1 {
		return a.to
	}
	out := make([]float64, len(a.names))
	for i := range out {
		if i < len(a.from) && i < len(a.to) {
			out[i] = a.from[i] + max(part, 0)*(a.to[i]-a.from[i])
		}
	}
	return out
}

// endOf returns where a source has ended, as far as is known. Of a source without a seal ok is false.
func (a *targetShares) endOf(source string) (at position, ok bool) {
	at, sealed := a.seals[source]
	if last := a.last[source]; last.steps > at.steps {
		at = last
	}
	return at, sealed && (a.ended || a.now.steps-at.steps >= endGap)
}

// nextPoint starts the next point of the schedule if it is reached.
func (a *targetShares) nextPoint(update retarget) bool {
	if len(a.schedule) == 0 {
		return false
	}
	p, start := a.schedule[0], int64(a.schedule[0].Tokens)
	if p.After != "" {
		at, ok := a.endOf(p.After)
		if !ok {
			return false
		}
		start = max(at.tokens, a.rampStart)
		a.assumed = append(a.assumed, assumedEnd{p.After, position{at.steps, start}, a.targetState})
	} else if a.now.tokens < start {
		return false
	}
	from := a.sharesAt(start)
	a.targetState = targetState{a.schedule[1:], from, a.shares(p.Weights), start, int64(p.Ramp)}
	update(start, a.sharesAt)
	return true
}

// advance adds the tokens of a step, in total and of each source.
func (a *targetShares) advance(tokens int64, sources []int64, update retarget) {
	before := a.now
	a.now = position{before.steps + 1, before.tokens + tokens}
	update(before.tokens, a.sharesAt)
	for i, n := range sources {
		if n == 0 {
			continue
		}
		a.last[a.names[i]] = a.now
		wrong := func(x assumedEnd) bool { return x.source == a.names[i] }
		if k := slices.IndexFunc(a.assumed, wrong); k >= 0 {
			a.targetState = a.assumed[k].before
			update(a.assumed[k].at.tokens, a.sharesAt)
			a.assumed = a.assumed[:k]
		}
	}
	for a.nextPoint(update) {
	}
}

// end records that no step follows.
func (a *targetShares) end(update retarget) {
	a.ended = true
	for a.nextPoint(update) {
	}
}
