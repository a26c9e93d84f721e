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

// bySource counts the rows of a mixture by source.
type bySource struct {
	arrivals *Arrivals
	shares   []shares // per source: its own tokens are the short ones
	padding  []int64
	row      []int64 // tokens of each source in the present row
}

func newBySource(a *Arrivals) *bySource {
	s := &bySource{arrivals: a, shares: make([]shares, len(a.names)), padding: make([]int64, len(a.names)),
		row: make([]int64, len(a.names))}
	for i := range s.shares {
		s.shares[i] = newShares(0)
	}
	return s
}

// count adds a row with the given number of slots.
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
		s.padding[i] += padding*(before+n)/tokens - padding*before/tokens // the parts add up to the row's padding
		before += n
	}
}

// results returns the result of each source. ages are those of the documents.
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

// follow compares the share in each twentieth with the target.
func (r *Source) follow(parts [twentieths]shareBin, target func(from, to float64) float64) {
	for k, p := range parts {
		share, aim := float64(p.short)/float64(p.tokens), target(float64(k)/twentieths, float64(k+1)/twentieths)
		r.Shares, r.Targets = append(r.Shares, share), append(r.Targets, aim)
		r.Deviation = max(r.Deviation, math.Abs(share-aim))
	}
}
