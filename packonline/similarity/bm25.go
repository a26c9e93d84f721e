package similarity

import (
	"math"
	"slices"
)

// bm25 ranks by shared rare tokens (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009). The score
// is a sum over the terms that two documents share. Each term adds its rarity in the pool times its weight in the
// other document. Because queries are whole documents, this is also multiplied by the term's weight in the querying
// document. Rarity is computed for the current pool, so the results depend only on the pool. An inverted index maps
// terms to documents.
//
// The counts exclude a removed document immediately. Its postings remain until their list is read or all lists are
// swept, because finding them is the most expensive operation. Until then its seat is not reused and fits no query.
type bm25 struct {
	maxPostings  int // postings per query
	documents    int // documents
	pages        [termIDs / pageLists]*page
	live         []uint8 // by seat: 1 for a document of the pool, 0 for a removed one
	removedSeats []int32 // seats of removed documents
	queryTerms   []queryTerm
	oddLogs      []int32 // log16 of 1, 3, 5 ...
}

// page holds the data of neighbouring terms. Only few terms are in use.
type page struct {
	count [pageLists]uint32   // number of documents of the pool that have the term
	lists [pageLists][]uint32 // for each of these and for some removed ones, its seat above the weight
}

const pageLists = 256

// queryTerm is a term of a query: its worth, which is rarity times weight in the querying document, and its index in
// the document's terms. They are one number, because numbers are sorted much faster. Ascending order is descending
// order of worth, then ascending order of terms.
type queryTerm uint64

func newQueryTerm(worth int32, term int) queryTerm {
	return queryTerm(math.MaxInt32-worth)<<32 | queryTerm(term)
}

func (a queryTerm) worth() int32 { return math.MaxInt32 - int32(a>>32) }
func (a queryTerm) term() uint32 { return uint32(a) }

// valueShift keeps scores within 31 bits.
const valueShift = 12

// maxQueryTerms is the maximum number of terms of a document that are looked up, the most valuable ones. More take
// longer and do not improve results.
const maxQueryTerms = 32

// Postings of removed documents are swept when these documents exceed 1/removedPart of those in the pool plus
// maxRemoved.
const (
	removedPart = 4
	maxRemoved  = 256
)

func newBM25(bound int) *bm25 { return &bm25{maxPostings: bound} }

// page returns the page of a term, and the index of the term in it. The page is nil until a document has had one of
// its terms.
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
	b.documents++
	for b.documents >= len(b.oddLogs) {
		b.oddLogs = append(b.oddLogs, log16(uint32(2*len(b.oddLogs)+1)))
	}
}

func (b *bm25) remove(x *Index, seat int32, h *Hint) {
	for _, t := range h.Terms {
		p, i := b.page(t >> weightBits)
		p.count[i]--
	}
	b.live[seat] = 0
	b.documents--
	if b.removedSeats = append(b.removedSeats, seat); len(b.removedSeats) > b.documents/removedPart+maxRemoved {
		b.sweep(x)
	}
}

// sweep deletes the postings of removed documents.
func (b *bm25) sweep(x *Index) {
	for _, p := range b.pages {
		if p == nil {
			continue
		}
		for i, list := range p.lists {
			if len(list) > int(p.count[i]) {
				p.lists[i] = b.compactPostings(list)
			}
		}
	}
	x.free = append(x.free, b.removedSeats...)
	b.removedSeats = b.removedSeats[:0]
}

// compactPostings deletes the postings of removed documents from a list, and releases memory, because a term that was
// frequent in the pool may never be frequent again.
func (b *bm25) compactPostings(list []uint32) []uint32 {
	n := 0
	for _, p := range list { // always written, but only counted if kept, to avoid mispredicted branches
		list[n] = p
		n += int(b.live[p>>weightBits])
	}
	if list = list[:n]; cap(list) > 32 && n <= cap(list)/4 {
		return append(make([]uint32, 0, 2*n), list...)
	}
	return list
}

func (b *bm25) top(x *Index, q query, h *Hint, dst []Candidate) []Candidate {
	return x.rank(q, b.score(x, h), dst)
}

// score adds up the scores for the most valuable terms of the query. If their lists together exceed the bound, the
// most valuable terms are first. Otherwise their order has no effect.
func (b *bm25) score(x *Index, h *Hint) (own int32) {
	most := log16(uint32(2*b.documents + 2))
	terms, postings := b.selectTerms(h, most)
	if postings > b.maxPostings {
		slices.Sort(terms)
	}
	left := b.maxPostings
	x.scoredSeats = slices.Grow(x.scoredSeats[:0], len(x.entries)+1)
	touched, scores, n := x.scoredSeats[:cap(x.scoredSeats)], x.scores, 0
	for _, q := range terms {
		term := h.Terms[q.term()]
		page, i := b.page(term >> weightBits)
		count := int(page.count[i])
		if count > left {
			continue
		}
		left -= count
		if list := page.lists[i]; len(list) > count+count/2 {
			page.lists[i] = b.compactPostings(list)
		}
		value := max(1, (most-b.oddLogs[count])*q.worth()>>valueShift)
		own += value * int32(term&maxWeight)
		for _, p := range page.lists[i] { // always written, but only counted if new, to avoid mispredicted branches
			seat := p >> weightBits
			before := scores[seat]
			touched[n] = int32(seat)
			if before == 0 {
				n++
			}
			scores[seat] = before + value*int32(p&maxWeight)
		}
	}
	x.scoredSeats = touched[:n]
	return own
}

// selectTerms returns the most valuable terms of a document, in any order, and the number of their postings. most is
// the rarity of a term that no document has. A term that count documents of the pool have has the rarity log2((n + 1) /
// (count + 1/2)) (unit: 1/16 bit), or 0 if nearly all documents have it.
func (b *bm25) selectTerms(h *Hint, most int32) (terms []queryTerm, postings int) {
	b.queryTerms = slices.Grow(b.queryTerms[:0], len(h.Terms))
	for i, t := range h.Terms {
		p, k := b.page(t >> weightBits)
		if rarity := most - b.oddLogs[p.count[k]]; rarity > 0 {
			b.queryTerms = append(b.queryTerms, newQueryTerm(rarity*int32(t&maxWeight), i))
		}
	}
	terms = b.queryTerms[:min(len(b.queryTerms), maxQueryTerms)]
	selectSmallest(b.queryTerms, len(terms))
	for _, q := range terms {
		p, k := b.page(h.Terms[q.term()] >> weightBits)
		postings += int(p.count[k])
	}
	return terms, postings
}
