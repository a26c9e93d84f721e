package related

import (
	"math"
	"slices"
)

// bm25 ranks by the rare tokens that documents share (Robertson and Zaragoza, The Probabilistic Relevance Framework,
// 2009): the sum, over the terms that two documents share, of the term's rarity in the pool times its weight in the
// other document, and, since questions are whole documents, times what it is worth in the asking one. Rarity is counted
// in the pool as it is now, so nothing but the pool decides. An inverted index tells which documents have a term.
//
// A document that leaves is counted out at once, and its postings stay until their list is walked or all are swept: to
// look for them takes longer than anything else here. Till then nobody gets its seat, and it fits no question.
type bm25 struct {
	bound    int // postings a question
	n        int // documents
	pages    [termIDs / pageLists]*page
	live     []uint8 // by seat: 1 for a document of the pool, 0 for one that has left
	left     []int32 // seats of those that have left
	question []asked
	odd      []int32 // log16 of 1, 3, 5 ...
}

// page holds what is known of neighbouring terms. Few of all terms are in use.
type page struct {
	count [pageLists]uint32   // documents of the pool that have the term
	lists [pageLists][]uint32 // for each of them, and for some that have left, its seat above the weight
}

const pageLists = 256

// asked is a term of a question: what it is worth, rarity times weight in the asking document, and which of its terms
// it is, in one number, for sorting such is much faster. Ascending order is that of worth, the most first, then that of
// terms.
type asked uint64

func newAsked(worth int32, term int) asked { return asked(math.MaxInt32-worth)<<32 | asked(term) }

func (a asked) worth() int32 { return math.MaxInt32 - int32(a>>32) }
func (a asked) term() uint32 { return uint32(a) }

// valueShift keeps scores within 31 bits.
const valueShift = 12

// askedTerms is how many terms of a document are looked up, those that are worth most: more take time and find nothing
// better.
const askedTerms = 32

// Postings of documents that have left are swept when these are more than a part of those that wait, and so many.
const (
	leftPart = 4
	leftMost = 256
)

func newBM25(bound int) *bm25 { return &bm25{bound: bound} }

// page returns the page of a term, which exists once a document has had the term, and where the term is there.
func (b *bm25) page(id uint32) (*page, uint32) { return b.pages[id/pageLists], id % pageLists }

func (b *bm25) add(x *Index, seat int32, h *Hint) {
	for int(seat) >= len(b.live) {
		b.live = append(b.live, 0)
	}
	b.live[seat] = 1
	for _, t := range h.Terms {
		p, i := b.page(t >> weightBits)
		if p == nil {
			p = new(page)
			b.pages[t>>weightBits/pageLists] = p
		}
		p.count[i]++
		p.lists[i] = append(p.lists[i], uint32(seat)<<weightBits|t&maxWeight)
	}
	b.n++
	for b.n >= len(b.odd) {
		b.odd = append(b.odd, log16(uint32(2*len(b.odd)+1)))
	}
}

func (b *bm25) remove(x *Index, seat int32, h *Hint) {
	for _, t := range h.Terms {
		p, i := b.page(t >> weightBits)
		p.count[i]--
	}
	b.live[seat] = 0
	b.n--
	if b.left = append(b.left, seat); len(b.left) > b.n/leftPart+leftMost {
		b.sweep(x)
	}
}

// sweep forgets the documents that have left.
func (b *bm25) sweep(x *Index) {
	for _, p := range b.pages {
		if p == nil {
			continue
		}
		for i, list := range p.lists {
			if len(list) > int(p.count[i]) {
				p.lists[i] = b.tidy(list)
			}
		}
	}
	x.free = append(x.free, b.left...)
	b.left = b.left[:0]
}

// tidy takes the postings of documents that have left out of a list, and gives memory back: what was frequent in the
// pool once may never be again.
func (b *bm25) tidy(list []uint32) []uint32 {
	n := 0
	for _, p := range list { // written always, counted when it stays: no branch to mispredict
		list[n] = p
		n += int(b.live[p>>weightBits])
	}
	if list = list[:n]; cap(list) > 32 && n <= cap(list)/4 {
		return append(make([]uint32, 0, 2*n), list...)
	}
	return list
}

func (b *bm25) top(x *Index, q question, h *Hint, dst []Candidate) []Candidate {
	return x.rank(q, b.score(x, h), dst)
}

// score adds up, for the terms of the question that are worth most. Where their lists are longer together than they may
// be those that are worth most go first; else their order decides nothing.
func (b *bm25) score(x *Index, h *Hint) (own int32) {
	most := log16(uint32(2*b.n + 2))
	terms, postings := b.ask(h, most)
	if postings > b.bound {
		slices.Sort(terms)
	}
	left := b.bound
	x.touched = slices.Grow(x.touched[:0], len(x.entries)+1)
	touched, scores, n := x.touched[:cap(x.touched)], x.scores, 0
	for _, q := range terms {
		term := h.Terms[q.term()]
		page, i := b.page(term >> weightBits)
		count := int(page.count[i])
		if count > left {
			continue
		}
		left -= count
		if list := page.lists[i]; len(list) > count+count/2 {
			page.lists[i] = b.tidy(list)
		}
		value := max(1, (most-b.odd[count])*q.worth()>>valueShift)
		own += value * int32(term&maxWeight)
		for _, p := range page.lists[i] { // written always, counted when new: no branch to mispredict
			seat := p >> weightBits
			before := scores[seat]
			touched[n] = int32(seat)
			if before == 0 {
				n++
			}
			scores[seat] = before + value*int32(p&maxWeight)
		}
	}
	x.touched = touched[:n]
	return own
}

// ask returns the terms of a document that are worth most, in any order, and how many postings they have. most is the
// rarity of a term that no document has: one that count documents of the pool have is rare (unit: 1/16 bit) by log2((n
// + 1) / (count + 1/2)), 0 where nearly all have it.
func (b *bm25) ask(h *Hint, most int32) (terms []asked, postings int) {
	b.question = slices.Grow(b.question[:0], len(h.Terms))
	for i, t := range h.Terms {
		p, k := b.page(t >> weightBits)
		if rarity := most - b.odd[p.count[k]]; rarity > 0 {
			b.question = append(b.question, newAsked(rarity*int32(t&maxWeight), i))
		}
	}
	terms = b.question[:min(len(b.question), askedTerms)]
	smallest(b.question, len(terms))
	for _, q := range terms {
		p, k := b.page(h.Terms[q.term()] >> weightBits)
		postings += int(p.count[k])
	}
	return terms, postings
}
