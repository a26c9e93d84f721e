package related

import (
	"math"
	"math/bits"
	"slices"
)

// A term of bm25 is a token id, folded to termIDBits, above its weight. The terms of a document are in ascending order,
// each id once.
const (
	termIDBits = 18
	termIDs    = 1 << termIDBits
	weightBits = 8
	maxWeight  = 1<<weightBits - 1
	maxTerms   = 96 // of a document, those that say most
)

// Parameters of BM25: saturation of repeated terms, and how much longer documents count for less, beside one of usual
// tokens.
const (
	saturation = 1.2
	lengthened = 0.75
	usual      = 512
)

// TermMaker makes terms. It is scratch space for one goroutine.
type TermMaker struct {
	count [termIDs]uint32
	seen  []uint32
	said  []said
}

// said is a term of a document and what it says, in one number, for sorting such is much faster. Ascending order is
// that of worth, the most first, then that of terms.
type said uint64

func newSaid(worth int32, term uint32) said { return said(math.MaxInt32-worth)<<32 | said(term) }

func (s said) term() uint32 { return uint32(s) }

// Terms returns the terms of a document that say most of what it is about: rare tokens that come often in it. Which
// tokens are rare is judged by their ids, for vocabularies are in the order in which frequent strings were merged, so
// that no other document matters.
func (m *TermMaker) Terms(ids []int32) []uint32 {
	m.seen, m.said = m.seen[:0], m.said[:0]
	for _, id := range ids {
		t := uint32(id) % termIDs
		if m.count[t] == 0 {
			m.seen = append(m.seen, t)
		}
		m.count[t]++
	}
	// conversions forbid fused operations, which differ between machines
	long := saturation * float64(1-lengthened+float64(lengthened*float64(len(ids))/usual))
	for _, t := range m.seen {
		n := float64(m.count[t])
		m.count[t] = 0
		weight := uint32(1 + float64((maxWeight-1)*(n/(n+long))))
		m.said = append(m.said, newSaid(int32(weight)*log16(t+2), t<<weightBits|weight))
	}
	terms := make([]uint32, min(len(m.said), maxTerms))
	smallest(m.said, len(terms))
	for i := range terms {
		terms[i] = m.said[i].term()
	}
	slices.Sort(terms)
	return terms
}

// log16 is log2(x) in sixteenths, rounded down; 0 for 0. Integers, so that every machine has the same.
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
