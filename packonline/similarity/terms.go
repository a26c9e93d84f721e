package similarity

import (
	"math"
	"math/bits"
	"slices"
)

// A term of bm25 is a token id, folded to termIDBits, above its weight. The terms of a document are in ascending
// order, each id once.
const (
	termIDBits = 18
	termIDs    = 1 << termIDBits
	weightBits = 8
	maxWeight  = 1<<weightBits - 1
	maxTerms   = 96 // per document, the most valuable ones
)

// Parameters of BM25: saturation of repeated terms, and reduction for documents longer than the usual number of
// tokens.
const (
	bm25K1      = 1.2
	bm25B       = 0.75
	usualTokens = 512
)

// TermMaker makes terms. It contains scratch space and must not be used concurrently.
type TermMaker struct {
	count         [termIDs]uint32
	distinctTerms []uint32
	weightedTerms []weightedTerm
}

// weightedTerm is a term of a document with its worth as one number, because numbers are sorted much faster. Ascending
// order is descending order of worth, then ascending order of terms.
type weightedTerm uint64

func newWeightedTerm(worth int32, term uint32) weightedTerm {
	return weightedTerm(math.MaxInt32-worth)<<32 | weightedTerm(term)
}

func (s weightedTerm) term() uint32 { return uint32(s) }

// Terms returns the most characteristic terms of a document: rare tokens that are frequent in it. The rarity of a
// token is estimated from its id, because vocabularies are in the order in which frequent strings were merged. So the
// result is independent of other documents.
func (m *TermMaker) Terms(ids []int32) []uint32 {
	m.distinctTerms, m.weightedTerms = m.distinctTerms[:0], m.weightedTerms[:0]
	for _, id := range ids {
		t := uint32(id) % termIDs
		if m.count[t] == 0 {
			m.distinctTerms = append(m.distinctTerms, t)
		}
		m.count[t]++
	}
	// conversions prevent fused operations, which differ between machines
	long := bm25K1 * float64(1-bm25B+float64(bm25B*float64(len(ids))/usualTokens))
	for _, t := range m.distinctTerms {
		n := float64(m.count[t])
		m.count[t] = 0
		weight := uint32(1 + float64((maxWeight-1)*(n/(n+long))))
		m.weightedTerms = append(m.weightedTerms, newWeightedTerm(int32(weight)*log16(t+2), t<<weightBits|weight))
	}
	terms := make([]uint32, min(len(m.weightedTerms), maxTerms))
	selectSmallest(m.weightedTerms, len(terms))
	for i := range terms {
		terms[i] = m.weightedTerms[i].term()
	}
	slices.Sort(terms)
	return terms
}

// log16 returns log2(x) in sixteenths, rounded down, or 0 for 0. It uses integers, so that the result is equal on
// every machine.
func log16(x uint32) int32 {
	if x == 0 {
		return 0
	}
	whole := bits.Len32(x) - 1
	y := uint64(x) << (31 - whole) // 1 <= y/2^31 < 2
	sum := int32(whole)
	for range 4 {
		sum *= 2
		if y = y * y >> 31; y >= 1<<32 {
			y >>= 1
			sum++
		}
	}
	return sum
}
