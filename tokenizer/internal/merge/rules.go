package merge

import (
	"fmt"
	"slices"

	"loaderd/tokenizer/internal/pairs"
)

// mergeTable is a list of merges by their texts, to find out which of them are ever done.
type mergeTable struct {
	symbols map[string]uint32
	pairs   pairs.Table
	made    []uint32 // rank -> symbol
	lastMerge
}

// Done keeps the merges that are ever done: those that merging the characters of their result ends with. Where a
// merge is done in a longer text, nothing has been joined over the borders of its result before, so what happened within
// is the same. Of equal merges the last counts.
func Done(list []Rule) []Rule {
	list = LastOfEqual(list)
	t := mergeTable{symbols: make(map[string]uint32, len(list)), pairs: pairs.New(len(list))}
	for rank, x := range list {
		t.pairs.Put(t.symbol(x.Left), t.symbol(x.Right), uint32(rank))
		t.made = append(t.made, t.symbol(x.Left+x.Right))
	}
	last := make([]uint32, len(t.symbols)) // result -> rank of the merge that makes it
	for i := range last {
		last[i] = unknownRank
	}
	var done []Rule
	for rank, x := range list {
		made := t.made[rank]
		if last[made] == unknownRank {
			last[made] = t.last(x.Left + x.Right)
		}
		if last[made] == uint32(rank) {
			done = append(done, x)
		}
	}
	return done
}

const unknownRank = none - 1

// LastOfEqual keeps of equal merges the last.
func LastOfEqual(list []Rule) []Rule {
	seen := make(map[Rule]bool, len(list))
	var kept []Rule
	for _, x := range slices.Backward(list) {
		if !seen[x] {
			seen[x] = true
			kept = append(kept, x)
		}
	}
	slices.Reverse(kept)
	return kept
}

func (t *mergeTable) symbol(text string) uint32 {
	s, ok := t.symbols[text]
	if !ok {
		s = uint32(len(t.symbols))
		t.symbols[text] = s
	}
	return s
}

// last is the rank of the merge that makes one token of all characters of a text, or none.
func (t *mergeTable) last(text string) uint32 {
	t.node = t.node[:0]
	for i, r := range []rune(text) {
		s, ok := t.symbols[string(r)]
		if !ok {
			return none // no merge takes it
		}
		t.node = append(t.node, node{s, int32(i - 1), int32(i + 1)})
	}
	rank, _ := t.lastOf(func(a, b node) uint32 { return t.pairs.Rank(a.symbol, b.symbol) }, func(_ node, rank uint32) uint32 { return t.made[rank] })
	return rank
}

// lastMerge is scratch space to find what merging some nodes ends with.
type lastMerge struct {
	node []node
	heap pairHeap
}

// lastOf merges nodes, by their ranks, and returns the rank of the merge that leaves one of them, with the place of the right
// one of the two that it joins; without one it is none.
func (l *lastMerge) lastOf(rankOf func(a, b node) uint32, made func(a node, rank uint32) uint32) (last uint32, at int32) {
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

// FromRanks finds the merges of a rank file, of bytes, from its tokens by rank. There a pair's rank is the rank of its bytes as a token, however they are
// split. But of all ways to split a token only one can come up: the one that merging by ranks leaves, because bytes are
// only ever joined with neighbours, and inside a token that is done in the same order wherever it stands. A token that no
// merging makes is left to words that are it.
func FromRanks(tokens []string, ranks map[string]uint32) []Rule {
	var merges []Rule
	var l lastMerge
	for _, token := range tokens {
		l.node = l.node[:0]
		for i := range len(token) {
			l.node = append(l.node, node{uint32(i), int32(i - 1), int32(i + 1)}) // the symbol is where it begins
		}
		rankOf := func(a, b node) uint32 {
			if r, ok := ranks[token[a.symbol:b.next]]; ok {
				return r
			}
			return none
		}
		begin := func(a node, _ uint32) uint32 { return a.symbol }
		if rank, at := l.lastOf(rankOf, begin); rank != none {
			merges = append(merges, Rule{token[:at], token[at:]})
		}
	}
	return merges
}

// Rule is a merge, spelled as in the file.
type Rule struct{ Left, Right string }

func (m Rule) String() string { return fmt.Sprintf("%q + %q", m.Left, m.Right) }
