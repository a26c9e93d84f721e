package merge

import (
	"cmp"
	"slices"
	"sync"

	"loaderd/tokenizer/internal/pairs"
)

// SetAllReachable declares that each merge is done for some text: the token that it makes is the result of merging its
// text, with this merge as the last.
func (m *Merges) SetAllReachable() { m.allReachable = true }

// PrepareGreedy enables encoding without merging where that is possible. If words start with bytes, only long ones
// are encoded so, and the encoder is created for the first of these. tokens are the texts of the vocabulary by id.
func (m *Merges) PrepareGreedy(tokens []string) {
	grown := m.selfTokens
	m.selfTokens = nil // not needed afterwards
	m.greedy = sync.OnceValue(func() *greedyMerges {
		if grown == nil {
			grown = m.findSelfTokens(tokens)
		}
		return newGreedy(m, grown, m.textOf(tokens))
	})
	if m.characters != nil {
		m.greedy() // needed for the first word
	}
}

// textOf returns a function from symbols to texts, "" for symbols without one.
func (m *Merges) textOf(tokens []string) func(symbol uint32) string {
	if m.characters != nil {
		return func(symbol uint32) string { return tokens[symbol] }
	}
	return func(symbol uint32) string { return m.text[symbol] }
}

// SelfMerging reports for each token, by id, whether it is the result of merging its text.
func (m *Merges) SelfMerging(tokens []string) []bool {
	is, known := make([]bool, len(tokens)), make([]bool, len(tokens))
	if m.selfTokens = m.findSelfTokens(tokens); !m.selfTokens.tooLong {
		for _, made := range m.results {
			known[m.ids[made]] = true
		}
		for _, t := range m.selfTokens.tokens {
			is[m.ids[m.results[t.rank]]] = true
		}
	}
	var s Scratch
	var ids []int32
	for id, text := range tokens {
		if text != "" && !known[id] {
			ids = m.Encode(&s, ids[:0], []byte(text))
			is[id] = len(ids) == 1 && ids[0] == int32(id)
		}
	}
	return is
}

// selfMergingTokens are the tokens that result from their own text, by age, a token before those that contain it; none
// if one is too long.
type selfMergingTokens struct {
	tokens  []selfMergingToken
	tooLong bool
}

// selfMergingToken is a token that results from its own text.
type selfMergingToken struct {
	rank uint32 // of the last merge
	age  uint32 // the highest rank of its merges
	size int32
}

// findSelfTokens returns the tokens that result from their own text.
func (m *Merges) findSelfTokens(tokens []string) *selfMergingTokens {
	text := m.textOf(tokens)
	list := make([]selfMergingToken, 0, len(m.results))
	if m.allReachable && m.isOrdered { // the last merge of each is that of the highest rank
		for rank, made := range m.results {
			if len(text(made)) > maxGreedyToken {
				return &selfMergingTokens{tooLong: true}
			}
			list = append(list, selfMergingToken{uint32(rank), uint32(rank), int32(len(text(made)))})
		}
		return &selfMergingTokens{tokens: list}
	}
	var symbols, scratch []uint32
	done := make([]bool, len(m.ids))
	for _, made := range m.results {
		t := text(made)
		if done[made] || t == "" {
			continue
		}
		done[made] = true
		if len(t) > maxGreedyToken {
			return &selfMergingTokens{tooLong: true}
		}
		var ranks mergeRanks
		symbols, ranks, scratch = m.mergePlain(scratch[:0], []byte(t))
		if len(symbols) == 1 && symbols[0] == made {
			list = append(list, selfMergingToken{ranks.last, ranks.highest, int32(len(t))})
		}
	}
	slices.SortFunc(list, func(a, b selfMergingToken) int {
		return cmp.Or(cmp.Compare(a.age, b.age), cmp.Compare(a.size, b.size))
	})
	return &selfMergingTokens{tokens: list}
}

// mergeRanks are the rank of the last merge of a word, and the highest of all.
type mergeRanks struct{ last, highest uint32 }

// mergePlain merges a word in the scratch, examining all pairs after each merge, and returns the remaining symbols.
func (m *Merges) mergePlain(s []uint32, word []byte) (symbols []uint32, ranks mergeRanks, scratch []uint32) {
	if m.characters != nil {
		s = m.characters.appendSymbols(s, word)
	} else {
		for _, b := range word {
			s = append(s, uint32(b))
		}
	}
	n := len(s)
	s = slices.Grow(s, n)[:2*n]
	symbols, ranks = joinPlain(s[:n], s[n:], &m.pairs, m.results)
	return symbols, ranks, s
}

// joinPlain merges symbols; rank has the same length. made[r] is the symbol that the merge of rank r makes.
func joinPlain(w, rank []uint32, table *pairs.Table, made []uint32) (symbols []uint32, ranks mergeRanks) {
	n := len(w)
	for i := range n - 1 {
		rank[i] = rankOf(table, w[i], w[i+1])
	}
	for ; n > 1; n-- {
		at := 0
		for i, r := range rank[:n-1] {
			if r < rank[at] {
				at = i
			}
		}
		if rank[at] == none {
			break
		}
		ranks.last = rank[at]
		ranks.highest = max(ranks.highest, ranks.last)
		w[at] = made[ranks.last]
		copy(w[at+1:n-1], w[at+2:n])
		copy(rank[at:n-2], rank[at+1:n-1])
		if at+2 < n {
			rank[at] = rankOf(table, w[at], w[at+1])
		}
		if at > 0 {
			rank[at-1] = rankOf(table, w[at-1], w[at])
		}
	}
	return w[:n], ranks
}

// rankOf returns the rank of a pair. Most pairs have none.
func rankOf(table *pairs.Table, left, right uint32) uint32 {
	if !table.Filter.MayHave(left, right) {
		return none
	}
	return table.Rank(left, right)
}
