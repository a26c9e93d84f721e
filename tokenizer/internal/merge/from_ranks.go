package merge

import (
	"fmt"

	"loaderd/tokenizer/internal/pairs"
)

// Step is a merge by the places of its parts and its result in a vocabulary.
type Step struct{ Left, Right, Made uint32 }

// lastMerge is scratch space for finding the last merge of some nodes.
type lastMerge struct {
	node []node
	heap pairs.Heap
	rank [shortMax]uint32
}

// lastOf merges nodes by rank. If one node is left, it returns the rank of the last merge and the place of the right
// one of the two nodes that it joined. Otherwise last is none.
func (l *lastMerge) lastOf(rankOf func(a, b node) uint32,
	made func(a node, rank uint32) uint32) (last uint32, at int32) {
	left := len(l.node)
	rank := func(p int32) uint32 {
		if a := l.node[p]; int(a.next) < len(l.node) {
			return rankOf(a, l.node[a.next])
		}
		return none
	}
	offer := func(p int32) {
		if r := rank(p); r != none {
			l.heap.Push(r, p)
		}
	}
	l.heap = l.heap[:0]
	for i := range left {
		offer(int32(i))
	}
	for len(l.heap) > 0 {
		r, p := l.heap.Pop()
		a := &l.node[p]
		if a.prev == mergedNode || rank(p) != r {
			continue // one of the two has been merged in the meantime
		}
		if left == 2 {
			return r, a.next
		}
		b := &l.node[a.next]
		a.symbol, a.next, b.prev = made(*a, r), b.next, mergedNode
		left--
		if int(a.next) < len(l.node) {
			l.node[a.next].prev = p
		}
		offer(p)
		if a.prev >= 0 {
			offer(a.prev)
		}
	}
	return none, 0
}

// mergedNode marks a node that is merged into the one before it.
const mergedNode = -2

// FromRanks returns the merges of a rank file, over bytes, from its tokens by rank and their places among them. In a
// rank file the rank of a pair is the rank of its bytes as a token, however they are split. But of all ways to split
// a token only one can occur: the result of merging by ranks. Bytes are only ever joined with neighbours, and within
// a token that happens in the same order in any context. A token that no merging makes only occurs as a whole word.
func FromRanks(tokens []string, places map[string]uint32) []Step {
	steps := make([]Step, 0, len(tokens))
	var l lastMerge
	for place, token := range tokens {
		l.node = l.node[:0]
		for i := range len(token) {
			l.node = append(l.node, node{uint32(i), int32(i - 1), int32(i + 1)}) // the symbol is the index of its first byte
		}
		rankOf := func(a, b node) uint32 {
			if r, ok := places[token[a.symbol:b.next]]; ok {
				return r
			}
			return none
		}
		begin := func(a node, _ uint32) uint32 { return a.symbol }
		if rank, at := l.lastOf(rankOf, begin); rank != none {
			steps = append(steps, Step{places[token[:at]], places[token[at:]], uint32(place)})
		}
	}
	return steps
}

// Rule is a merge, spelled as in the file.
type Rule struct{ Left, Right string }

func (m Rule) String() string { return fmt.Sprintf("%q + %q", m.Left, m.Right) }
