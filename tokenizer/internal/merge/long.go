package merge

import (
	"math/bits"
	"slices"

	"loaderd/tokenizer/internal/pairs"
)

// Scratch is the scratch space for merging long words. An encoder keeps it, up to maxKeptNodes, from word to word.
type Scratch struct {
	short      [1]ShortWord
	ShortWords shortWordScratch
	greedy     greedyScratch
	symbol     []uint32
	node       []node
	queue      rankQueue
	heap       pairs.Heap
}

// maxKeptNodes is the longest word whose scratch is kept, so that a rare huge word does not retain memory.
const maxKeptNodes = 1 << 16

// node is a symbol of a long word, at the place of its first byte; none once it is merged into its left neighbour.
type node struct {
	symbol     uint32
	prev, next int32
}

func (s *Scratch) loadBytes(word []byte) []node {
	n := len(word)
	s.node = slices.Grow(s.node[:0], n)[:n]
	for i, b := range word {
		s.node[i] = node{uint32(b), int32(i - 1), int32(i + 1)}
	}
	return s.node
}

// appendIDs appends the ids of the remaining symbols.
func (s *Scratch) appendIDs(dst []int32, ids []int32) []int32 {
	for i := 0; i < len(s.node); i = int(s.node[i].next) {
		dst = append(dst, ids[s.node[i].symbol])
	}
	if cap(s.node) > maxKeptNodes {
		s.node, s.heap, s.queue.queued, s.queue.found = nil, nil, nil, nil
	}
	return dst
}

// join merges the node at p with its right neighbour.
func join(word []node, p int32, made uint32) {
	a := &word[p]
	b := &word[a.next]
	a.symbol, b.symbol, a.next = made, none, b.next
	if int(b.next) < len(word) {
		word[b.next].prev = p
	}
}

// rankQueue has the waiting pairs, in one list per rank; a bitmap of two levels finds the lowest rank.
type rankQueue struct {
	head   []int32 // rank -> 1 + the first waiting pair of its list, or 0
	bit    []uint64
	top    []uint64
	queued []queuedPair
	found  []int32 // the places that next has found
}

// queuedPair is a pair that starts at a place of the word.
type queuedPair struct{ at, next int32 }

func (q *rankQueue) push(rank uint32, at int32) {
	h := &q.head[rank]
	if *h == 0 {
		q.bit[rank>>6] |= 1 << (rank & 63)
		q.top[rank>>12] |= 1 << (rank >> 6 & 63)
	}
	q.queued = append(q.queued, queuedPair{at, *h})
	*h = int32(len(q.queued))
}

// popRank removes the list of the lowest rank and stores it in q.at.
func (q *rankQueue) popRank() (rank uint32, ok bool) {
	for t, w := range q.top {
		if w == 0 {
			continue
		}
		i := t<<6 | bits.TrailingZeros64(w)
		rank = uint32(i<<6 | bits.TrailingZeros64(q.bit[i]))
		if q.bit[i] &= q.bit[i] - 1; q.bit[i] == 0 {
			q.top[t] = w & (w - 1)
		}
		q.found = q.found[:0]
		for k := q.head[rank]; k != 0; k = q.queued[k-1].next {
			q.found = append(q.found, q.queued[k-1].at)
		}
		q.head[rank] = 0
		return rank, true
	}
	return 0, false
}

// mergeByRank merges a long word rank by rank, for ordered merges. A new pair always has a higher rank than the one
// just done, so all pairs of a rank are merged before the new pairs are looked up.
func (m *Merges) mergeByRank(s *Scratch, dst []int32, word []byte) []int32 {
	q := &s.queue
	if n := len(m.parts); len(q.head) < n {
		q.head, q.bit, q.top = make([]int32, n), make([]uint64, n>>6+1), make([]uint64, n>>12+1)
	}
	q.queued, q.found = slices.Grow(q.queued[:0], 3*len(word)), slices.Grow(q.found[:0], len(word))
	w := s.loadBytes(word)
	for i := len(word) - 2; i >= 0; i-- { // last in, first out
		if r := m.bytePairRank[uint32(word[i])<<8|uint32(word[i+1])]; r != none {
			q.push(r, int32(i))
		}
	}
	for rank, ok := q.popRank(); ok; rank, ok = q.popRank() {
		m.queueNewPairs(q, w, m.results[rank], m.joinAll(q, w, rank))
	}
	return s.appendIDs(dst, m.ids)
}

// joinAll merges the pairs of a rank at the places that q has found, and returns the places where the pair still
// existed.
func (m *Merges) joinAll(q *rankQueue, w []node, rank uint32) (done []int32) {
	left, right, made := m.parts[rank][0], m.parts[rank][1], m.results[rank]
	if left == right && !slices.IsSorted(q.found) { // the order matters only for pairs that may overlap
		slices.Sort(q.found)
	}
	done = q.found[:0]
	for _, p := range q.found {
		a := w[p]
		if a.symbol != left || int(a.next) >= len(w) || w[a.next].symbol != right {
			continue // one of the two has been merged in the meantime
		}
		join(w, p, made)
		done = append(done, p)
	}
	return done
}

// queueNewPairs queues the pairs that contain the symbols made at some places.
func (m *Merges) queueNewPairs(q *rankQueue, w []node, made uint32, places []int32) {
	for _, p := range places {
		a := w[p]
		if int(a.next) < len(w) {
			if r := m.pairs.Rank(made, w[a.next].symbol); r != none {
				q.push(r, p)
			}
		}
		if a.prev >= 0 && w[a.prev].symbol != made { // otherwise a.prev is among places too, and offers this pair
			if r := m.pairs.Rank(w[a.prev].symbol, made); r != none {
				q.push(r, a.prev)
			}
		}
	}
}
