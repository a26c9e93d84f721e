package simulation

import "math"

// Sample measures how representative each part of a run is of the documents' lengths. For each twentieth of the
// sequences, in tokens and in order of emission, it contains the share of tokens from documents shorter than Below.
type Sample struct {
	Below     int       `json:"below"`     // tokens
	Share     float64   `json:"share"`     // of the whole run
	Shares    []float64 `json:"shares"`    // of its twentieths
	Deviation float64   `json:"deviation"` // largest difference of Shares from Share, relative to Share
}

const twentieths = 20

// Below returns the default length below which documents count as short: the row length, or with several row lengths
// twice the shortest, because rows above that hold several documents or a longer one.
func Below(rows []int) int {
	if len(rows) == 0 {
		return 0
	}
	if len(rows) == 1 {
		return rows[0]
	}
	return 2 * rows[0]
}

// shares sums tokens along a run of unknown length, in bins. If their number is exceeded, pairs of bins are merged.
type shares struct {
	below int
	width int64 // tokens per bin
	bins  []shareBin
	all   shareBin
}

// newShares returns shares that count documents shorter than below as short.
func newShares(below int) shares {
	return shares{below: below, width: 1, bins: make([]shareBin, maxBins)}
}

type shareBin struct{ tokens, short int64 }

// maxBins limits the error of a twentieth's borders to half a percent of a twentieth.
const maxBins = 16384

// count adds a sequence with the given number of tokens, short of which belong to short documents.
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

// parts returns the twentieths of the run. ok is false if no sequence begins in one of them.
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

// sample returns the result. It is nil if no sequence begins in one of the twentieths, or without short documents.
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
