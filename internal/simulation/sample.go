package simulation

import "math"

// Sample says how fair a sample of the documents every part of a run is, by the length of documents: of each twentieth
// of the sequences, in tokens and in order of emission, the share of tokens that are of documents shorter than Below.
type Sample struct {
	Below     int       `json:"below"`     // tokens
	Share     float64   `json:"share"`     // of the whole run
	Shares    []float64 `json:"shares"`    // of its twentieths
	Deviation float64   `json:"deviation"` // the largest of these from the whole's, as a share of that
}

const twentieths = 20

// Below is where short documents end when nobody says so: at the row length, or with several at twice the shortest one,
// where the first rows are that hold several documents or a longer one.
func Below(rows []int) int {
	if len(rows) == 0 {
		return 0
	}
	if len(rows) == 1 {
		return rows[0]
	}
	return 2 * rows[0]
}

// shares adds up tokens along a run whose length is not known: in bins, two of which become one when there are too
// many.
type shares struct {
	below int
	width int64 // tokens of a bin
	bins  []shareBin
	all   shareBin
}

// newShares counts documents shorter than that as short.
func newShares(below int) shares {
	return shares{below: below, width: 1, bins: make([]shareBin, maxBins)}
}

type shareBin struct{ tokens, short int64 }

// maxBins keeps a twentieth's borders within half a percent of it.
const maxBins = 16384

// count counts a sequence of so many tokens, short of them of short documents.
func (s *shares) count(tokens, short int64) {
	for s.all.tokens/s.width >= maxBins {
		for i := range maxBins / 2 {
			s.bins[i] = shareBin{s.bins[2*i].tokens + s.bins[2*i+1].tokens, s.bins[2*i].short + s.bins[2*i+1].short}
		}
		clear(s.bins[maxBins/2:])
		s.width *= 2
	}
	b := &s.bins[s.all.tokens/s.width]
	b.tokens += tokens
	b.short += short
	s.all.tokens += tokens
	s.all.short += short
}

// parts returns the twentieths of the run; false where no sequence begins in one of them.
func (s *shares) parts() (parts [twentieths]shareBin, ok bool) {
	if s.all.tokens == 0 {
		return parts, false
	}
	for i, b := range s.bins {
		p := &parts[min(int64(i)*s.width*twentieths/s.all.tokens, twentieths-1)]
		p.tokens += b.tokens
		p.short += b.short
	}
	for _, p := range parts {
		if p.tokens == 0 {
			return parts, false
		}
	}
	return parts, true
}

// sample sums up. A run with a twentieth in which no sequence begins, or without short documents, has none.
func (s *shares) sample() *Sample {
	parts, ok := s.parts()
	if !ok || s.all.short == 0 {
		return nil
	}
	out := &Sample{Below: s.below, Share: float64(s.all.short) / float64(s.all.tokens)}
	for _, p := range parts {
		share := float64(p.short) / float64(p.tokens)
		out.Shares = append(out.Shares, share)
		out.Deviation = max(out.Deviation, math.Abs(share/out.Share-1))
	}
	return out
}
