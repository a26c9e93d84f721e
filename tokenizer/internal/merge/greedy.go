package merge

import "loaderd/tokenizer/internal/pairs"

// greedyMerges encodes from left to right, without merging. It appends the longest token that fits after the last
// one, and backtracks if none does. It relies on this: the merges of adjacent symbols happen in the same order in any
// context, as long as nothing in the context is merged with them. So
//
//  1. what has become one token was merged as if it were alone. Of the merges that make a token only one can ever
//     occur, the last one when the token's text is merged alone;
//  2. a sequence of tokens is the result of merging exactly if each two neighbours are the result of merging the two
//     alone (apart). So whether a token fits after another does not depend on the rest of the word. Of all sequences of
//     tokens that spell a word, exactly one has only neighbours that fit.
//
// Symbols are numbered in the order in which they can first appear: atoms, with which words start, then tokens by the
// highest rank of the merges that make them. That is nearly always the rank of the last merge.
type greedyMerges struct {
	atoms     uint32
	trie      []uint64    // see trie.go
	part      [][2]uint32 // both parts of an atom are the atom
	pairs     pairs.Table // two symbols -> the first symbol with the age of what they make
	spellings []spelling

	// Tokens with a token at one end whose last merge is not that of the highest rank. A pair with one of them is merged
	// to see whether it stays.
	irregular []uint64 // a bit per symbol; nil for none
	merges    *Merges
	symbol    []uint32 // the symbol of plain
	number    []uint32 // the reverse; nil if words start with characters
	text      []string
}

// spelling describes a symbol in addition to its parts.
type spelling struct {
	shorter uint32 // the longest symbol that is a prefix of it, or none
	size    uint32 // in bytes
	id      int32
}

// fitCacheLog determines how many results of fitting are kept: 32 KiB.
const fitCacheLog = 12

const minFitCacheWord = 64

// greedyScratch is the scratch space of encode, kept from word to word.
type greedyScratch struct {
	fitCache [1 << fitCacheLog]uint64 // two symbols and the result, the latter two plus 1: see fitting
	deadEnds []uint64                 // a bit per place of the word: no sequence of tokens continues there
	walked   int                      // bytes, of all words together
	misses   int                      // number of misses in known
	windows  greedyWindows

	pair  []byte // for fits
	alone []uint32
}

// encode appends the ids of a word and returns how many bytes it has spelled: all, or those before the first
// character that no symbol starts with. It backtracks from each place at most once. It spells nothing of a long word
// that causes much backtracking, because merging is faster then.
func (g *greedyMerges) encode(s *greedyScratch, dst []int32, word []byte) (ids []int32, spelled int) {
	first := len(dst) // the tokens are appended after this as symbols
	s.windows.startCheck(s, dst, 0, windowProbe)
	last, at, back := none, 0, false
	dead := 0   // the last dead place, or 0
	placed := 0 // up to this place tokens were not found by trying the longest first
	next, walked := g.longest(word)
	for next != none {
		if last != none {
			next = g.longestFitting(s, last, next, len(word))
		}
		if back {
			next = g.longestAlive(s, last, next, at, len(word))
		}
		var n int
		if next == none { // nothing fits after the last token, so it must be replaced by a shorter one
			s.markDead(at, len(word), !back)
			back, dead = true, max(dead, at)
			if walked > maxWalkRatio*(at+maxGreedyToken) || len(dst) == first {
				dst, at = dst[:first], 0
				break
			}
			dst, last, next = withoutLast(dst, first)
			if at -= int(g.spellings[next].size); at < placed {
				next, n = g.longest(word[at:])
				walked += n
			}
			continue
		}
		dst = append(dst, int32(next))
		if at += int(g.spellings[next].size); at == len(word) {
			break
		}
		was := at
		if next == last {
			dst, at, n = g.appendRepeats(s, dst, word, at, dead)
			walked += n
		}
		last = next
		if g.number != nil && at > dead {
			dst, last, at = s.windows.advance(g, s, dst, word, last, at)
		}
		if at > was {
			placed = at
		}
		next, n = g.longest(word[at:])
		walked += n
	}
	for i, symbol := range dst[first:] {
		dst[first+i] = g.spellings[symbol].id
	}
	s.walked += walked
	if cap(s.deadEnds) > maxKeptNodes {
		s.deadEnds = nil
	}
	return dst, at
}

// longestAlive returns the longest of a token and its prefixes that fits after the last token and does not end at a
// dead place.
func (g *greedyMerges) longestAlive(s *greedyScratch, last, next uint32, at, size int) uint32 {
	for next != none && s.isDead(at+int(g.spellings[next].size)) {
		if next = g.spellings[next].shorter; next != none && last != none {
			next = g.longestFitting(s, last, next, size)
		}
	}
	return next
}

// withoutLast removes the last token. It returns the token before it, or none, and the removed one.
func withoutLast(dst []int32, first int) (rest []int32, last, taken uint32) {
	taken, last = uint32(dst[len(dst)-1]), none
	if dst = dst[:len(dst)-1]; len(dst) > first {
		last = uint32(dst[len(dst)-1])
	}
	return dst, last, taken
}

// appendRepeats appends the last token as often as the text repeats it, except for the last few times. looked is how
// many bytes it has read.
func (g *greedyMerges) appendRepeats(s *greedyScratch, dst []int32, word []byte, at,
	dead int) (ids []int32, end, looked int) {
	token := dst[len(dst)-1]
	size := int(g.spellings[token].size)
	looked = s.countRepeats(word, at, size, dead)
	for n := looked / size; n > repeatsLeft; n-- {
		dst = append(dst, token)
		at += size
	}
	return dst, at, looked
}

// countRepeats returns how many bytes from a place on repeat the token before it, of size bytes. In a repetitive text,
// encode would discover for each token again that a longer one is a dead end. So repeated appends all of them, except
// for the last ones.
func (s *greedyScratch) countRepeats(word []byte, at, size, dead int) (n int) {
	for place := at + size; place <= dead; place += size {
		if s.isDead(place) {
			return 0
		}
	}
	for at+n < len(word) && word[at+n] == word[at+n-size] {
		n++
	}
	return n
}

const repeatsLeft = 8

// maxWalkRatio is the maximum ratio between the bytes that encode reads and the length of a word.
const maxWalkRatio = 24

// resetDead allocates a bit per place, all of them unset.
func (s *greedyScratch) resetDead(n int) {
	if n = n>>6 + 1; n <= cap(s.deadEnds) {
		s.deadEnds = s.deadEnds[:n]
		clear(s.deadEnds)
		return
	}
	s.deadEnds = make([]uint64, n)
}

// markDead marks a place of a word of size bytes as dead; first reports that no place is marked yet.
func (s *greedyScratch) markDead(at, size int, first bool) {
	if first {
		s.resetDead(size)
	}
	s.deadEnds[at>>6] |= 1 << (at & 63)
}

func (s *greedyScratch) isDead(at int) bool { return s.deadEnds[at>>6]>>(at&63)&1 != 0 }

// longestFitting returns the longest of a token and its prefixes that fits after another one, or none. It depends only
// on these two, so recent results are kept.
func (g *greedyMerges) longestFitting(s *greedyScratch, last, next uint32, size int) uint32 {
	if size <= minFitCacheWord {
		for next != none && !g.fits(s, last, next) {
			next = g.spellings[next].shorter
		}
		return next
	}
	key := uint64(last)<<symbolBits | uint64(next)
	known := &s.fitCache[key*0x9E3779B97F4A7C15>>(64-fitCacheLog)]
	if *known>>symbolBits == key+1 {
		return uint32(*known&symbolMask) - 1
	}
	for next != none && !g.fits(s, last, next) {
		next = g.spellings[next].shorter
	}
	s.misses++
	*known = (key+1)<<symbolBits | uint64(next+1)
	return next
}

// fits reports whether merging leaves two adjacent tokens unchanged.
func (g *greedyMerges) fits(s *greedyScratch, left, right uint32) bool {
	if len(g.irregular) == 0 || !g.isIrregular(left) && !g.isIrregular(right) {
		return g.staysApart(left, right)
	}
	s.pair = append(append(s.pair[:0], g.text[left]...), g.text[right]...)
	var symbols []uint32
	symbols, _, s.alone = g.merges.mergePlain(s.alone[:0], s.pair)
	return len(symbols) == 2 && symbols[0] == g.symbol[left]
}

func (g *greedyMerges) isIrregular(symbol uint32) bool {
	return g.irregular[symbol>>6]>>(symbol&63)&1 != 0
}

// staysApart reports whether merging leaves two adjacent tokens unchanged. It goes back in time: the younger of the two
// symbols at the border is split into its parts. The pair that was there before must not have merged earlier. Of
// equal ranks the leftmost goes first.
func (g *greedyMerges) staysApart(left, right uint32) bool {
	limit := none
	for {
		if g.pairs.Filter.MayHave(left, right) && g.pairs.Rank(left, right) < limit {
			return false
		}
		if max(left, right) < g.atoms {
			return true
		}
		inner, outer := g.part[left][1], g.part[right][0]
		// the three are chosen without a branch, which would be unpredictable
		younger := left > right
		limit = right + 1
		if younger {
			limit = left
		}
		if younger {
			left = inner
		}
		if !younger {
			right = outer
		}
	}
}

// setIrregular marks one of n symbols as odd.
func (g *greedyMerges) setIrregular(symbol uint32, n int) {
	if g.irregular == nil {
		g.irregular = make([]uint64, n/64+1)
	}
	g.irregular[symbol>>6] |= 1 << (symbol & 63)
}
