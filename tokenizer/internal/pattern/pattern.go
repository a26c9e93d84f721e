package pattern

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// Pattern is a regular expression as a deterministic automaton. It finds what a backtracking engine finds, in one
// pass, and goes back at most a bounded number of characters.
type Pattern struct {
	// kind has the kind of each byte that is a character. Characters that the pattern does not distinguish have the same
	// kind. For other characters it has wide. page, by r>>6, then has the index in pages of the kinds of 64 characters;
	// equal pages are stored once. So a character is looked up by the bytes of its UTF-8: the last one is the index in a
	// page.
	kind  [256]uint8
	page  [(utf8.MaxRune + 1) >> 6]uint16
	pages []uint8
	kinds int
	// step has for each state a row of kinds+1 entries, the last for the end of the text. An entry is the next state
	// times two, plus one if the pattern accepts before the character. State 0 is dead; state 1 is the first.
	step []uint16
	// rows is step with the offset of the next state's row instead of its number, and first is the offset of the first
	// state.
	rows         []uint32
	first        uint32
	startKinds   [256]bool        // kinds with which a match may start
	matchesEmpty bool             // it may match the empty text
	conditions   *placeConditions // what it requires of a place; nil: nothing
}

// Compile returns the automaton of a pattern. The error describes why equality with the reference is not certain.
func Compile(e *Expr) (*Pattern, error) {
	if e.canBeEmpty(false) {
		return nil, errors.New("it may match nothing")
	}
	if !isAtomic(e) {
		return nil, errors.New("a possessive quantifier that matters")
	}
	n, err := newNFA(e)
	if err != nil {
		return nil, err
	}
	p := &Pattern{matchesEmpty: e.canBeEmpty(true)}
	in, err := p.assignKinds(n.sets)
	if err != nil {
		return nil, err
	}
	p.conditions = newPlaceConditions(n, in)
	columns := p.conditions.columns(in)
	p.kinds = len(columns) - 1
	if err := p.buildDFA(n, columns); err != nil {
		return nil, err
	}
	if p.isQuadratic() {
		return nil, errors.New("it may have to read on without end to know whether it matches")
	}
	p.first = uint32(p.kinds + 1)
	p.rows = make([]uint32, len(p.step))
	for k, entry := range p.step {
		p.rows[k] = uint32(entry/2)*p.first<<1 | uint32(entry%2)
	}
	for kind := range p.kinds {
		if !columns[kind].end {
			p.startKinds[kind%len(in)] = p.startKinds[kind%len(in)] || p.rows[p.first+uint32(kind)] != 0
		}
	}
	return p, nil
}

// maxWork bounds the time for constructing an automaton.
const maxWork = 1 << 26

// maxKinds bounds the kinds, which must fit in a byte.
const maxKinds = 250

const multiByte = 255

const maxPages = 2048

// wideKind returns the kind and the length of the character at s[i], which starts with the byte b and has at least
// two bytes.
func (p *Pattern) wideKind(s []byte, i int, b uint8) (kind uint8, n int) {
	page, last, n := uint32(b)&0x1f, s[i+1], 2
	if b >= 0xE0 {
		page, last, n = page&0xf<<6|uint32(last)&0x3f, s[i+2], 3
		if b >= 0xF0 {
			page, last, n = page&0x1ff<<6|uint32(last)&0x3f, s[i+3], 4
		}
	}
	return p.pages[uint32(p.page[page])<<6|uint32(last)&0x3f], n
}

// assignKinds assigns kinds to characters, and returns for each kind the sets to which it belongs, a bit each.
func (p *Pattern) assignKinds(sets []ucd.Set) (in []uint64, err error) {
	type edge struct {
		at  rune
		set int
	}
	var edges []edge
	for k, s := range sets {
		for _, r := range s {
			edges = append(edges, edge{r.Lo, k}, edge{r.Hi + 1, k})
		}
	}
	sort.Slice(edges, func(i, j int) bool { return edges[i].at < edges[j].at })
	all := make([]uint8, utf8.MaxRune+1)
	now := uint64(0)
	numbers := map[uint64]uint8{}
	for from, k := rune(0), 0; from <= utf8.MaxRune; {
		for ; k < len(edges) && edges[k].at == from; k++ {
			now ^= 1 << edges[k].set
		}
		to := rune(utf8.MaxRune + 1)
		if k < len(edges) {
			to = min(to, edges[k].at)
		}
		id, ok := numbers[now]
		if !ok {
			if len(in) >= maxKinds {
				return nil, fmt.Errorf("it distinguishes more than %d kinds of characters", maxKinds)
			}
			id = uint8(len(in))
			numbers[now] = id
			in = append(in, now)
		}
		for c := from; c < to; c++ {
			all[c] = id
		}
		from = to
	}
	p.kinds = len(in)
	copy(p.kind[:utf8.RuneSelf], all)
	for b := utf8.RuneSelf; b < 256; b++ {
		p.kind[b] = multiByte
	}
	seen := map[[64]uint8]uint16{}
	for i := range p.page {
		page := [64]uint8(all[i<<6:])
		id, ok := seen[page]
		if !ok {
			if len(seen) >= maxPages {
				return nil, errors.New("its characters are too scattered")
			}
			id = uint16(len(seen))
			seen[page] = id
			p.pages = append(p.pages, page[:]...)
		}
		p.page[i] = id
	}
	return in, nil
}

// buildDFA constructs the automaton. Each of its states is the list of states of a backtracking engine, in the order
// in which the engine would try them.
func (p *Pattern) buildDFA(n *nfa, columns []column) error {
	states := [][]int32{nil, {n.start}}
	numbers := map[string]int{fmt.Sprint(states[0]): 0, fmt.Sprint(states[1]): 1}
	for s := 0; s < len(states); s++ {
		for _, c := range columns {
			list, accepts := n.follow(states[s], c.sets, c.end)
			key := fmt.Sprint(list)
			to, ok := numbers[key]
			if !ok {
				if len(states) >= maxStates || len(states)*p.kinds*len(n.states) > maxWork {
					return errTooLarge
				}
				to = len(states)
				numbers[key] = to
				states = append(states, list)
			}
			entry := uint16(2 * to)
			if accepts {
				entry++
			}
			p.step = append(p.step, entry)
		}
	}
	return nil
}

// Match returns the end of the match that starts at s[i], or -1. The pattern must not look around.
func (p *Pattern) Match(s []byte, i int) int {
	row, end := p.first, -1
	for i < len(s) {
		b := s[i]
		kind, n := p.kind[b], 1
		if kind == multiByte {
			switch { // inlined wideKind
			case b < 0xE0 && i+1 < len(s):
				kind, n = p.pages[uint32(p.page[b&0x1f])<<6|uint32(s[i+1]&0x3f)], 2
			case b < 0xF0 && i+2 < len(s):
				kind, n = p.pages[uint32(p.page[uint32(b&0xf)<<6|uint32(s[i+1]&0x3f)])<<6|uint32(s[i+2]&0x3f)], 3
			default:
				kind, n = p.wideKind(s, i, b)
			}
		}
		entry := p.rows[row+uint32(kind)]
		if entry&1 != 0 {
			end = i
		}
		if row = entry >> 1; row == 0 {
			return end
		}
		i += n
	}
	if p.rows[row+uint32(p.kinds)]&1 != 0 {
		end = i
	}
	return end
}

// SkipToMatch returns the first place after the character at s[i] where a match starts, or len(s).
func (p *Pattern) SkipToMatch(s []byte, i int, a *SearchState) int {
	for first := true; i < len(s); first = false {
		kind, n := p.kind[s[i]], 1
		if kind == multiByte {
			kind, n = p.wideKind(s, i, s[i])
		}
		if p.startKinds[kind] && !first && p.MatchIn(s, i, a) >= 0 {
			break
		}
		i += n
	}
	return i
}

// OnAlphabet returns p for a text in which every byte is written as a character, applied to the bytes.
func (p *Pattern) OnAlphabet(byteOf map[rune]byte) *Pattern {
	q := *p
	for r, b := range byteOf {
		q.kind[b] = p.pages[uint32(p.page[r>>6])<<6|uint32(r)&0x3f]
	}
	return &q
}

// CanMatchEmpty reports whether p may match the empty text.
func (p *Pattern) CanMatchEmpty() bool { return p.matchesEmpty }

// IsTotal reports whether p matches at every place of every text.
func (p *Pattern) IsTotal() bool {
	if p.matchesEmpty {
		return false
	}
	width := p.kinds + 1
	matches := make([]bool, len(p.step)/width) // from these states on the pattern accepts, whatever follows
	sure := func(entry uint16) bool { return entry%2 == 1 || matches[entry/2] }
	all := func(row []uint16) bool { return !slices.ContainsFunc(row, func(e uint16) bool { return !sure(e) }) }
	for changed := true; changed; {
		changed = false
		for s := 1; s < len(matches); s++ {
			if !matches[s] && all(p.step[s*width:(s+1)*width]) {
				matches[s], changed = true, true
			}
		}
	}
	return all(p.step[width : 2*width-1])
}
