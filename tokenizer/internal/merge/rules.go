package merge

import "fmt"

// Step is a merge by the places of its parts and its result in a vocabulary.
type Step struct{ Left, Right, Made uint32 }

// lastMerge is scratch space to find what merging some nodes ends with.
type lastMerge struct {
	node []node
	heap pairHeap
	rank [shortMax]uint32
}

// lastOf merges nodes, by their ranks, and returns the rank of the merge that leaves one of them, with the place of the
// right one of the two that it joins; without one it is none.
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
			l.heap.push(r, p)
		}
	}
	l.heap = l.heap[:0]
	for i := range left {
		offer(int32(i))
	}
	for len(l.heap) > 0 {
		r, p := l.heap.pop()
		a := &l.node[p]
		if a.prev == merged || rank(p) != r {
			continue // one of the two has been merged since
		}
		if left == 2 {
			return r, a.next
		}
		b := &l.node[a.next]
		a.symbol, a.next, b.prev = made(*a, r), b.next, merged
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

// merged marks a node that has become part of the one before it.
const merged = -2

// FromRanks finds the merges of a rank file, of bytes, from its tokens by rank and their places among them. There a
// pair's rank is the rank of its bytes as a token, however they are split. But of all ways to split a token only one
// can come up: the one that merging by ranks leaves, because bytes are only ever joined with neighbours, and inside a
// token that is done in the same order wherever it stands. A token that no merging makes is left to words that are it.
func FromRanks(tokens []string, places map[string]uint32) []Step {
	steps := make([]Step, 0, len(tokens))
	var l lastMerge
	for place, token := range tokens {
		l.node = l.node[:0]
		for i := range len(token) {
			l.node = append(l.node, node{uint32(i), int32(i - 1), int32(i + 1)}) // the symbol is where it begins
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
