package simulation

import (
	"math"
	"slices"

	"loaderd/packonline"
)

// Source is how one source of a mixture fared.
type Source struct {
	Weight    float64 `json:"weight"`    // as configured, relative to those of the others
	Target    float64 `json:"target"`    // share of the tokens that it is to have, in the mean over the run
	Share     float64 `json:"share"`     // of the tokens in rows
	Documents int64   `json:"documents"` // used, as often as epochs have them
	Tokens    int64   `json:"tokens"`    // of these
	// Shares are those of each twentieth of the run, in tokens and in order of emission; Targets those that the mixture
	// has in the same twentieth of the tokens that it takes. Both are empty where a run is too short for twentieths.
	Targets []float64 `json:"targets,omitempty"`
	Shares  []float64 `json:"shares,omitempty"`
	// Deviation is the largest distance of a twentieth's share from its target, as a share of all tokens.
	Deviation float64 `json:"deviation"`
	// PaddingTokens are its part of the padding: that of each row is divided by the tokens of the sources in it.
	PaddingTokens int64 `json:"padding_tokens"`
	// Ages are those of its documents, in used documents of all sources.
	AgeMax    uint32  `json:"age_max"`
	AgeMedian uint32  `json:"age_median"`
	Epochs    float64 `json:"epochs"` // read: 2.5 is two and a half
	LeftOut   LeftOut `json:"left_out"`
}

// bySource looks at the rows of a mixture.
type bySource struct {
	arrivals *Arrivals
	shares   []shares // of each source: short tokens are those that are its own
	padding  []int64
	row      []int64 // tokens of each source in the row that is looked at
}

func newBySource(a *Arrivals) *bySource {
	s := &bySource{arrivals: a, shares: make([]shares, len(a.names)), padding: make([]int64, len(a.names)),
		row: make([]int64, len(a.names))}
	for i := range s.shares {
		s.shares[i] = newShares(0)
	}
	return s
}

// count counts a row of so many slots.
func (s *bySource) count(slots int, pieces []packonline.Piece) {
	clear(s.row)
	var tokens int64
	for _, x := range pieces {
		s.row[s.arrivals.source[x.Doc]] += int64(x.Length)
		tokens += int64(x.Length)
	}
	padding, before := int64(slots)-tokens, int64(0)
	for i, n := range s.row {
		s.shares[i].count(tokens, n)
		s.padding[i] += padding*(before+n)/tokens - padding*before/tokens // parts add up to the whole
		before += n
	}
}

// results sums up. ages are those of the documents.
func (s *bySource) results(ages []uint32) map[string]*Source {
	a := s.arrivals
	out := map[string]*Source{}
	of := make([][]uint32, len(a.names))
	for i, age := range ages {
		of[a.source[i]] = append(of[a.source[i]], age)
	}
	for i, name := range a.names {
		x, all := &a.sources[i], &s.shares[i].all
		r := &Source{Weight: a.mixture.Config.Sources[name].Weight, Target: a.target(i, 0, float64(a.tokens)),
			Share:     ratio(float64(all.short), float64(all.tokens)),
			Documents: x.used, Tokens: x.tokens, PaddingTokens: s.padding[i], LeftOut: x.left,
			Epochs: ratio(float64(x.all), float64(len(a.mixture.Lengths[name])))}
		if slices.Sort(of[i]); len(of[i]) > 0 {
			r.AgeMax, r.AgeMedian = of[i][len(of[i])-1], of[i][(len(of[i])-1)/2]
		}
		if parts, ok := s.shares[i].parts(); ok {
			r.follow(parts, func(from, to float64) float64 { return a.target(i, from*float64(a.tokens), to*float64(a.tokens)) })
		}
		out[name] = r
	}
	return out
}

// follow compares the twentieths with what the source is to have.
func (r *Source) follow(parts [twentieths]shareBin, target func(from, to float64) float64) {
	for k, p := range parts {
		share, aim := float64(p.short)/float64(p.tokens), target(float64(k)/twentieths, float64(k+1)/twentieths)
		r.Shares, r.Targets = append(r.Shares, share), append(r.Targets, aim)
		r.Deviation = max(r.Deviation, math.Abs(share-aim))
	}
}
