package merge

import (
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pairs"
)

// encodeCharacters appends the ids of a word whose merging starts with characters.
func (m *Merges) encodeCharacters(s *Scratch, dst []int32, word []byte) []int32 {
	var greedy *greedyMerges
	if m.greedy != nil {
		greedy = m.greedy()
	}
	if greedy != nil {
		if ids, n := greedy.encode(&s.greedy, dst, word); n == len(word) {
			return ids
		}
		if m.splitsAtUnknown {
			return m.encodeParts(s, greedy, dst, word)
		}
	}
	return m.mergeCharacters(s, dst, word)
}

// encodeParts appends the ids of a word in parts, split at characters without a token. Nothing merges with what
// represents them, so the text between them merges separately.
func (m *Merges) encodeParts(s *Scratch, greedy *greedyMerges, dst []int32, word []byte) []int32 {
	for len(word) > 0 {
		known := m.characters.knownPrefix(word)
		if ids, n := greedy.encode(&s.greedy, dst, word[:known]); n == known {
			dst = ids
		} else { // slow for the greedy encoder
			dst = m.mergeCharacters(s, dst, word[:known])
		}
		if word = word[known:]; len(word) > 0 {
			_, size := utf8.DecodeRune(word)
			dst = m.mergeCharacters(s, dst, word[:size])
			word = word[size:]
		}
	}
	return dst
}

// mergeCharacters appends the ids of a word by merging.
func (m *Merges) mergeCharacters(s *Scratch, dst []int32, word []byte) []int32 {
	s.symbol = m.characters.appendSymbols(s.symbol[:0], word)
	if len(s.symbol) > shortMax {
		return m.mergeByUrgency(s, dst)
	}
	w := &s.short[0]
	m.startSymbols(w, s.symbol)
	m.MergeShortWords(&s.ShortWords, s.short[:])
	return m.AppendShortWord(dst, w)
}

// startSymbols initializes w with symbols, at most shortMax.
func (m *Merges) startSymbols(w *ShortWord, symbols []uint32) {
	w.reset(len(symbols))
	copy(w.symbol[1:], symbols)
	for i := 1; i < len(symbols); i++ {
		w.pair[i] = m.pairs.Rank(w.symbol[i], w.symbol[i+1])<<placeBits | uint32(i)
	}
}

// StartShortWord initializes w with a short word. It returns false if the word has too many symbols.
func (m *Merges) StartShortWord(s *Scratch, w *ShortWord, word []byte) bool {
	if len(word) > shortMax {
		return false
	}
	if m.characters == nil {
		m.startBytes(w, word)
		return true
	}
	if s.symbol = m.characters.appendSymbols(s.symbol[:0], word); len(s.symbol) > shortMax {
		return false
	}
	m.startSymbols(w, s.symbol)
	return true
}

// mergeByUrgency merges the symbols of a long word for any merges. The waiting pairs are in one list per rank, and all
// pairs of a rank are merged from left to right. A new pair that must precede the rest of the list is urgent. The few
// urgent pairs are merged immediately, by rank, then place.
func (m *Merges) mergeByUrgency(s *Scratch, dst []int32) []int32 {
	q := &s.queue
	if n := len(m.parts); len(q.head) < n {
		q.head, q.bit, q.top = make([]int32, n), make([]uint64, n>>6+1), make([]uint64, n>>12+1)
	}
	q.queued = q.queued[:0]
	s.heap = s.heap[:0]
	n := len(s.symbol)
	s.node = slices.Grow(s.node[:0], n)[:n]
	w := s.node
	for i, symbol := range s.symbol {
		w[i] = node{symbol, int32(i - 1), int32(i + 1)}
	}
	for i := n - 2; i >= 0; i-- {
		if r := m.pairs.Rank(w[i].symbol, w[i+1].symbol); r != none {
			q.push(r, int32(i))
		}
	}
	for rank, ok := q.popRank(); ok; rank, ok = q.popRank() {
		if !slices.IsSorted(q.found) {
			slices.Sort(q.found)
		}
		for _, p := range q.found {
			m.joinIfPresent(s, rank, rank, p)
			for len(s.heap) > 0 {
				urgent, p := s.heap.Pop()
				m.joinIfPresent(s, urgent, rank, p)
			}
		}
	}
	if cap(s.symbol) > maxKeptNodes {
		s.symbol = nil
	}
	return s.appendIDs(dst, m.ids)
}

// joinIfPresent merges the pair of a rank at p, if it still exists. All pairs of rank now or higher wait in lists.
func (m *Merges) joinIfPresent(s *Scratch, rank, now uint32, p int32) {
	w := s.node
	a := w[p]
	if int(a.next) >= len(w) || a.symbol != m.parts[rank][0] || w[a.next].symbol != m.parts[rank][1] {
		return
	}
	made := m.results[rank]
	join(w, p, made)
	a = w[p]
	if int(a.next) < len(w) {
		s.queuePair(m.pairs.Rank(made, w[a.next].symbol), now, p)
	}
	if a.prev >= 0 {
		s.queuePair(m.pairs.Rank(w[a.prev].symbol, made), now, a.prev)
	}
}

// queuePair queues the pair at p, if it has a merge.
func (s *Scratch) queuePair(rank, now uint32, p int32) {
	switch {
	case rank == none:
	case rank > now:
		s.queue.push(rank, p)
	default:
		s.heap.Push(rank, p)
	}
}

// NewFromCharacters returns an encoding without merges, with room for n. Words start with characters, and symbols are
// ids below size.
func NewFromCharacters(begin *Characters, size, n int) *Merges {
	m := &Merges{
		characters: begin,
		pairs:      pairs.New(n),
		parts:      make([][2]uint32, 0, n),
		results:    make([]uint32, 0, n),
		ids:        make([]int32, size),
	}
	for i := range m.ids {
		m.ids[i] = int32(i)
	}
	return m
}

// JoinSymbols appends the merge of the next rank, if words start with characters.
func (m *Merges) JoinSymbols(left, right, made uint32) {
	m.pairs.Put(left, right, uint32(len(m.parts)))
	m.parts, m.results = append(m.parts, [2]uint32{left, right}), append(m.results, made)
}

// SetResultTexts sets the texts of the symbols that merges make, after all merges are added.
func (m *Merges) SetResultTexts(texts []string) {
	m.text = texts
	m.splitsAtUnknown = m.characters.IsComplete() && !m.HasFallbackMerges()
}

// HasFallbackMerges reports whether some merge joins what represents a character without a token. Then the places that
// a symbol may cover do not follow from its text.
func (m *Merges) HasFallbackMerges() bool {
	stands := map[uint32]bool{}
	for _, symbol := range m.characters.bytes {
		stands[symbol] = true
	}
	stands[m.characters.unk] = true
	for _, p := range m.parts {
		if stands[p[0]] || stands[p[1]] {
			return true
		}
	}
	return false
}
