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

// DefaultShortLength returns the default length below which documents count as short: the row length, or with several
// row lengths twice the shortest, because rows above that hold several documents or a longer one.
func DefaultShortLength(rows []int) int {
	if len(rows) == 0 {
		return 0
	}
	if len(rows) == 1 {
		return rows[0]
	}
	return 2 * rows[0]
}

// shareBins sums tokens along a run of unknown length, in bins. If their number is exceeded, pairs of bins are merged.
type shareBins struct {
	below int
	width int64 // tokens per bin
	bins  []shareBin
	total shareBin
}

// newShareBins returns shares that count documents shorter than below as short.
func newShareBins(below int) shareBins {
	return shareBins{below: below, width: 1, bins: make([]shareBin, maxBins)}
}

type shareBin struct{ tokens, short int64 }

// maxBins limits the error of a twentieth's borders to half a percent of a twentieth.
const maxBins = 16384

// add adds a sequence with the given number of tokens, short of which belong to short documents.
func (s *shareBins) add(tokens, short int64) {
	for s.total.tokens/s.width >= maxBins {
		for i := range maxBins / 2 {
			s.bins[i] = shareBin{s.bins[2*i].tokens + s.bins[2*i+1].tokens, s.bins[2*i].short + s.bins[2*i+1].short}
		}
		clear(s.bins[maxBins/2:])
		s.width *= 2
	}
	b := &s.bins[s.total.tokens/s.width]
	b.tokens += tokens
	b.short += short
	s.total.tokens += tokens
	s.total.short += short
}

// splitTwentieths returns the twentieths of the run. ok is false if no sequence begins in one of them.
func (s *shareBins) splitTwentieths() (parts [twentieths]shareBin, ok bool) {
	if s.total.tokens == 0 {
		return parts, false
	}
	for i, b := range s.bins {
		p := &parts[min(int64(i)*s.width*twentieths/s.total.tokens, twentieths-1)]
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
func (s *shareBins) sample() *Sample {
	parts, ok := s.splitTwentieths()
	if !ok || s.total.short == 0 {
		return nil
	}
	out := &Sample{Below: s.below, Share: float64(s.total.short) / float64(s.total.tokens)}
	for _, p := range parts {
		share := float64(p.short) / float64(p.tokens)
		out.Shares = append(out.Shares, share)
		out.Deviation = max(out.Deviation, math.Abs(share/out.Share-1))
	}
	return out
}
