package related

import (
	"cmp"
	"math"
	"slices"
)

// bm25 ranks by the rare tokens that documents share (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009): the sum,
// over the terms that two documents share, of the term's rarity in the pool times its weight in the other document, and, since questions
// are whole documents, times what it is worth in the asking one. Rarity is counted in the pool as it is now, so nothing but the pool
// decides. An inverted index tells which documents have a term.
type bm25 struct {
	bound    int // postings a question
	n        int // documents
	pages    [termIDs / pageLists]*page
	terms    [][]uint32 // by slot, those of its document
	places   [][]uint32 // by slot: where in its list each of these is
	question []asked
	log      []int32
}

// page holds the lists of neighbouring terms: for each document that has one, its slot above the weight. Few of all terms are in use.
type page [pageLists][]uint32

const pageLists = 256

// asked is a term of a question: what it is worth, rarity times weight in the asking document, and which of its terms it is, in one
// number, for sorting such is much faster. Ascending order is that of worth, the most first, then that of terms.
type asked uint64

func newAsked(worth int32, term int) asked { return asked(math.MaxInt32-worth)<<32 | asked(term) }

func (a asked) worth() int32 { return math.MaxInt32 - int32(a>>32) }
func (a asked) term() uint32 { return uint32(a) }

// valueShift keeps scores within 31 bits.
const valueShift = 12

// askedTerms is how many terms of a document are looked up, those that are worth most: more take time and find nothing better.
const askedTerms = 32

func newBM25(bound int) *bm25 { return &bm25{bound: bound} }

func (b *bm25) list(id uint32) *[]uint32 {
	p := &b.pages[id/pageLists]
	if *p == nil {
		*p = new(page)
	}
	return &(*p)[id%pageLists]
}

func (b *bm25) add(slot int32, h *Hint) {
	for int(slot) >= len(b.places) {
		b.terms, b.places = append(b.terms, nil), append(b.places, nil)
	}
	places := b.places[slot][:0]
	for _, t := range h.Terms {
		list := b.list(t >> weightBits)
		places = append(places, uint32(len(*list)))
		*list = append(*list, uint32(slot)<<weightBits|t&maxWeight)
	}
	b.terms[slot], b.places[slot] = h.Terms, places
	b.n++
}

// remove fills the place of every posting with the last one of its list.
func (b *bm25) remove(slot int32, h *Hint) {
	for i, t := range h.Terms {
		id := t >> weightBits
		list, at := b.list(id), b.places[slot][i]
		n := len(*list) - 1
		last := (*list)[n]
		(*list)[at] = last
		*list = shrink((*list)[:n])
		moved := last >> weightBits
		k, _ := slices.BinarySearchFunc(b.terms[moved], id, func(t, id uint32) int { return cmp.Compare(t>>weightBits, id) })
		b.places[moved][k] = at
	}
	b.terms[slot] = nil
	b.n--
}

// shrink gives memory back: what was frequent in the pool once may never be again.
func shrink(list []uint32) []uint32 {
	if cap(list) > 32 && len(list) <= cap(list)/4 {
		return append(make([]uint32, 0, cap(list)/2), list...)
	}
	return list
}

// rarity of a term that df documents of the pool have (unit: 1/16 bit): log2((n + 1) / (df + 1/2)), 0 for those that nearly all have.
func (b *bm25) rarity(df int) int32 {
	for len(b.log) <= 2*max(b.n, df)+2 {
		b.log = append(b.log, log16(uint32(len(b.log))))
	}
	return max(0, b.log[2*b.n+2]-b.log[2*df+1])
}

func (b *bm25) score(x *Index, _ question, h *Hint) (own int32) {
	b.question = b.question[:0]
	for i, t := range h.Terms {
		if worth := b.rarity(len(*b.list(t >> weightBits))) * int32(t&maxWeight); worth > 0 {
			b.question = append(b.question, newAsked(worth, i))
		}
	}
	slices.Sort(b.question)
	left := b.bound
	x.touched = slices.Grow(x.touched[:0], len(x.entries)+1)
	touched, n := x.touched[:cap(x.touched)], 0
	for _, q := range b.question[:min(len(b.question), askedTerms)] {
		term := h.Terms[q.term()]
		list := *b.list(term >> weightBits)
		if len(list) > left {
			continue
		}
		left -= len(list)
		rarity := b.rarity(len(list))
		value := max(1, rarity*q.worth()>>valueShift)
		own += value * int32(term&maxWeight)
		for _, p := range list { // written always, counted when new: no branch to mispredict
			slot := p >> weightBits
			before := x.scores[slot]
			touched[n] = int32(slot)
			if before == 0 {
				n++
			}
			x.scores[slot] = before + value*int32(p&maxWeight)
		}
	}
	x.touched = touched[:n]
	return own
}
