package merge

import (
	"unicode/utf8"

	"loaderd/tokenizer/internal/pairs"
)

// If tokens are longer or nested deeper, greedy encoding may cost more than merging.
const (
	maxGreedyToken = 1 << 10 // bytes of a token
	maxSpine       = 1 << 6  // symbols along one end of a token
	maxChain       = 1 << 9  // tokens that are prefixes of a token
)

// newGreedy returns the greedy encoder of merges, or nil if it would not be fast. text returns the text of a symbol
// of the merges, "" if it has none.
func newGreedy(m *Merges, from *selfMergingTokens, text func(symbol uint32) string) *greedyMerges {
	grown := from.tokens
	atoms := m.atoms(text)
	n := len(atoms) + len(grown)
	if from.tooLong || n == 0 {
		return nil
	}
	g := &greedyMerges{
		atoms: uint32(len(atoms)), pairs: pairs.New(len(grown)), merges: m,
		part: make([][2]uint32, 0, n), spellings: make([]spelling, 0, n), text: make([]string, 0, n),
		symbol: make([]uint32, 0, n),
	}
	number := make([]uint32, len(m.ids)) // the symbol of merges -> that of greedyMerges
	for i := range number {
		number[i] = none
	}
	add := func(symbol, left, right uint32) {
		t := text(symbol)
		number[symbol] = uint32(len(g.spellings))
		g.part, g.text, g.symbol = append(g.part, [2]uint32{left, right}), append(g.text, t), append(g.symbol, symbol)
		g.spellings = append(g.spellings, spelling{none, uint32(len(t)), m.ids[symbol]})
	}
	for i, symbol := range atoms {
		add(symbol, uint32(i), uint32(i))
	}
	entries := make([]trieEntry, 0, n)
	var first uint32 // of the symbols of an age
	for i, t := range grown {
		left, right := number[m.parts[t.rank][0]], number[m.parts[t.rank][1]]
		if left == none || right == none { // a part represents a character without a token
			return nil
		}
		made := uint32(len(g.spellings))
		if i == 0 || t.age != grown[i-1].age {
			first = made
		}
		g.pairs.Put(left, right, first)
		add(m.results[t.rank], left, right)
		if t.age != t.rank || len(g.irregular) > 0 && (g.isIrregular(left) || g.isIrregular(right)) {
			g.setIrregular(made, n)
		}
	}
	for n, t := range g.text {
		entries = append(entries, trieEntry{t, uint32(n)})
	}
	var ok bool
	if g.trie, ok = newTrie(entries); !ok || g.isTooDeep() {
		return nil
	}
	for n, t := range g.text {
		g.spellings[n].shorter, _ = g.longest([]byte(t[:len(t)-1]))
	}
	if g.isTooChained() {
		return nil
	}
	if m.characters == nil {
		g.number = number
	}
	return g
}

// atoms returns the symbols with which words start.
func (m *Merges) atoms(text func(symbol uint32) string) []uint32 {
	var list []uint32
	if m.characters == nil {
		for b := range uint32(256) {
			list = append(list, b)
		}
		return list
	}
	for symbol := range m.ids {
		t := text(uint32(symbol))
		if r, n := utf8.DecodeRuneInString(t); n > 0 && n == len(t) && m.characters.symbolOf(r) == uint32(symbol) {
			list = append(list, uint32(symbol))
		}
	}
	return list
}

// isTooDeep reports whether tokens are nested too deep at one end.
func (g *greedyMerges) isTooDeep() bool {
	depth := make([][2]uint16, len(g.part))
	for n := int(g.atoms); n < len(g.part); n++ {
		p := g.part[n]
		depth[n] = [2]uint16{depth[p[0]][0] + 1, depth[p[1]][1] + 1}
		if max(depth[n][0], depth[n][1]) > maxSpine {
			return true
		}
	}
	return false
}

// isTooChained reports whether some token has too many tokens as prefixes.
func (g *greedyMerges) isTooChained() bool {
	for n := range g.spellings {
		k := 0
		for s := g.spellings[n].shorter; s != none; s = g.spellings[s].shorter {
			if k++; k > maxChain {
				return true
			}
		}
	}
	return false
}
