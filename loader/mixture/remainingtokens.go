package mixture

import (
	"math"
	"slices"
)

// RunEnd is how a run ends without intervention.
type RunEnd int

// Values of Ending.
const (
	Finite  RunEnd = iota
	Endless        // a source is read forever
	Idle           // sources that are not sealed have documents left, but none of these sources has a weight
)

// RemainingTokens returns how many more tokens a run takes if each source has the given number of tokens left, by
// source number, and the given part of them has a loss (0 to 1; nil if all have). math.Inf(1) is a source that is read
// forever. Each document counts as if it had one token, so the
// result is exact up to a few documents per source. A paused source that has tokens left is resumed. For Endless and
// Idle, tokens is 0.
func (m *Mixture) RemainingTokens(left, lossParts []float64) (tokens float64, how RunEnd) {
	x := m.singleDocumentCopy(left)
	rest := slices.Clone(left)
	x.followSchedule()
	x.applySourceEnds()
	for !x.ended {
		n, shares := x.tokensUntilChange(), tokenShares(x.accounts, lossParts, m.config.Mix.Share)
		for i, share := range shares {
			if share > 0 {
				n = min(n, math.Ceil(rest[i]*Unit/share))
			}
		}
		if n >= math.MaxInt64/4 {
			return 0, Endless
		}
		n = max(n, 1)
		x.tokens += int64(n)
		for i, share := range shares {
			if rest[i] -= n * share / Unit; rest[i] < 0.5 {
				x.sources[i].taken, x.sources[i].exhausted = x.sources[i].documentCount(), true
			}
		}
		x.followSchedule()
		x.applySourceEnds()
	}
	for i, s := range m.sources {
		if !x.isEndedByFirst() && !s.removed && !s.sealed && rest[i] >= 0.5 {
			return 0, Idle
		}
	}
	return float64(x.tokens - m.tokens), Finite
}

// minLossPart is the smallest part of a source's tokens that is assumed to have a loss.
const minLossPart = 1e-6

// tokenShares returns each source's share of all tokens taken next, in parts of Unit, if the given parts of their
// tokens have a loss.
func tokenShares(accounts []account, lossParts []float64, unit ShareUnit) []float64 {
	out, sum := make([]float64, len(accounts)), 0.0
	for i, a := range accounts {
		out[i] = float64(a.share)
		if unit.CountsLoss() && lossParts != nil {
			out[i] /= max(lossParts[i], minLossPart)
		}
		sum += out[i]
	}
	if unit.CountsLoss() && sum > 0 {
		for i := range out {
			out[i] *= Unit / sum
		}
	}
	return out
}

// singleDocumentCopy returns a copy of the mixture in which each source has a single document. It counts as taken once
// the source has no tokens left.
func (m *Mixture) singleDocumentCopy(left []float64) *Mixture {
	x := *m
	x.accounts, x.newEpochs = slices.Clone(m.accounts), nil
	x.ramp.from, x.ramp.to = slices.Clone(m.ramp.from), slices.Clone(m.ramp.to)
	x.sources = make([]*source, len(m.sources))
	for i, s := range m.sources {
		x.sources[i] = &source{name: s.name, config: Source{Epochs: 1}, initialRange: SourceRange{First: 1},
			sealed: true, last: 1,
			target: s.target, removed: s.removed}
		if left[i] < 0.5 {
			x.sources[i].taken, x.sources[i].exhausted = 1, true
		}
	}
	return &x
}

// tokensUntilChange returns the number of tokens until the schedule changes a target.
func (m *Mixture) tokensUntilChange() float64 {
	n := math.Inf(1)
	if m.nextPoint < len(m.config.Mix.Schedule) && m.config.Mix.Schedule[m.nextPoint].After == "" {
		n = float64(int64(m.config.Mix.Schedule[m.nextPoint].Tokens) - m.tokens)
	}
	if r := &m.ramp; len(r.to) > 0 {
		part := float64(r.reachedPart + 1)
		n = min(n, float64(r.start-m.tokens)+math.Ceil(part*float64(r.length)/rampParts))
	}
	return n
}
