package simulation

import (
	"math"
	"slices"

	"loaderd/packonline"
)

// Source is the result of one source of a mixture.
type Source struct {
	Weight    float64 `json:"weight"`    // as configured, relative to the other sources
	Target    float64 `json:"target"`    // target share of the tokens, averaged over the run
	Share     float64 `json:"share"`     // of the tokens in rows
	Documents int64   `json:"documents"` // used, counted per epoch
	Tokens    int64   `json:"tokens"`    // of the used documents
	// Shares are the shares in each twentieth of the run, in tokens and in order of emission. Targets are the mixture's
	// target shares in the same twentieths of the tokens that it takes. Both are empty if the run is too short for
	// twentieths.
	Targets []float64 `json:"targets,omitempty"`
	Shares  []float64 `json:"shares,omitempty"`
	// Deviation is the largest difference of a twentieth's share and its target, as a share of all tokens.
	Deviation float64 `json:"deviation"`
	// PaddingTokens is the source's part of the padding. The padding of each row is divided in proportion to the tokens
	// of the sources in it.
	PaddingTokens int64 `json:"padding_tokens"`
	// Ages of its documents, counted in used documents of all sources.
	AgeMax    uint32  `json:"age_max"`
	AgeMedian uint32  `json:"age_median"`
	Epochs    float64 `json:"epochs"` // number of epochs read, such as 2.5
	LeftOut   LeftOut `json:"left_out"`
}

// sourceCounter counts the rows of a mixture by source.
type sourceCounter struct {
	arrivals *Arrivals
	shares   []shareBins // per source: its own tokens are the short ones
	padding  []int64
	row      []int64 // tokens of each source in the present row
}

func newSourceCounter(a *Arrivals) *sourceCounter {
	s := &sourceCounter{arrivals: a, shares: make([]shareBins, len(a.sourceNames)),
		padding: make([]int64, len(a.sourceNames)),
		row:     make([]int64, len(a.sourceNames))}
	for i := range s.shares {
		s.shares[i] = newShareBins(0)
	}
	return s
}

// addRow adds a row with the given number of slots.
func (s *sourceCounter) addRow(slots int, pieces []packonline.Piece) {
	clear(s.row)
	var tokens int64
	for _, x := range pieces {
		s.row[s.arrivals.sourceOf[x.Doc]] += int64(x.Length)
		tokens += int64(x.Length)
	}
	padding, before := int64(slots)-tokens, int64(0)
	for i, n := range s.row {
		s.shares[i].add(tokens, n)
		s.padding[i] += padding*(before+n)/tokens - padding*before/tokens // the parts add up to the row's padding
		before += n
	}
}

// results returns the result of each source. ages are those of the documents.
func (s *sourceCounter) results(ages []uint32) map[string]*Source {
	a := s.arrivals
	out := map[string]*Source{}
	of := make([][]uint32, len(a.sourceNames))
	for i, age := range ages {
		of[a.sourceOf[i]] = append(of[a.sourceOf[i]], age)
	}
	for i, name := range a.sourceNames {
		x, all := &a.sources[i], &s.shares[i].total
		r := &Source{Weight: a.mixture.Config.Sources[name].Weight, Target: a.meanTarget(i, 0, float64(a.tokens)),
			Share:     ratio(float64(all.short), float64(all.tokens)),
			Documents: x.used, Tokens: x.tokens, PaddingTokens: s.padding[i], LeftOut: x.leftOut,
			Epochs: ratio(float64(x.total), float64(len(a.mixture.Lengths[name])))}
		if slices.Sort(of[i]); len(of[i]) > 0 {
			r.AgeMax, r.AgeMedian = of[i][len(of[i])-1], of[i][(len(of[i])-1)/2]
		}
		if parts, ok := s.shares[i].splitTwentieths(); ok {
			r.compareTargets(parts, func(from, to float64) float64 {
				return a.meanTarget(i, from*float64(a.tokens), to*float64(a.tokens))
			})
		}
		out[name] = r
	}
	return out
}

// compareTargets compares the share in each twentieth with the target.
func (r *Source) compareTargets(parts [twentieths]shareBin, target func(from, to float64) float64) {
	for k, p := range parts {
		share, aim := float64(p.short)/float64(p.tokens), target(float64(k)/twentieths, float64(k+1)/twentieths)
		r.Shares, r.Targets = append(r.Shares, share), append(r.Targets, aim)
		r.Deviation = max(r.Deviation, math.Abs(share-aim))
	}
}
