package pattern

import (
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// placeConditions describes what a pattern requires of a place in a text other than the next character. This may be
// that a word starts or ends there, or that groups of characters follow to the end of their run. In the automaton each
// kind of characters has a column for each combination.
type placeConditions struct {
	kinds int       // of characters
	edges bool      // the pattern has edges of words
	word  [256]bool // by kind: a character of a word
	// Offsets of the columns for places where the requirement holds; groups is 0 if the pattern has none.
	edge, groups int
	end          int       // the column for the end of the text after a word
	run, after   [256]bool // by kind: a character of groups, and what may follow them
	size         int       // of a group, in characters
	atEnd        bool      // groups may end at the end of the text
	bits         [2]uint64 // of edges and groups, in the sets of columns
}

// column is the condition of a transition of the automaton: the sets of the next character, or the end of the text.
type column struct {
	sets uint64
	end  bool
}

// newPlaceConditions returns the requirements of the pattern of an nfa, nil if it has none. in has the sets to which
// each kind of characters belongs.
func newPlaceConditions(n *nfa, in []uint64) *placeConditions {
	if n.edge < 0 && n.groups < 0 {
		return nil
	}
	a := &placeConditions{kinds: len(in), edges: n.edge >= 0}
	further := len(in)
	if a.edges {
		a.edge, a.bits[0] = further, 1<<n.edge
		further *= 2
		a.setKinds(&a.word, in, n.setOf(ucd.WordCharacters()))
	}
	if n.groups >= 0 {
		a.groups, a.bits[1] = further, 1<<n.groups
		further *= 2
		a.size, a.atEnd = n.run.Min, n.run.OrEnd
		a.setKinds(&a.run, in, n.setOf(n.run.Set))
		a.setKinds(&a.after, in, n.setOf(n.run.After))
	}
	a.end = further
	return a
}

func (a *placeConditions) setKinds(has *[256]bool, in []uint64, set int32) {
	for kind, sets := range in {
		has[kind] = sets>>set&1 == 1
	}
}

// columns returns the columns of the kinds of characters, then those with further requirements, and last the end of
// the text without requirements.
func (a *placeConditions) columns(in []uint64) (list []column) {
	for _, sets := range in {
		list = append(list, column{sets: sets})
	}
	if a != nil {
		for _, bit := range a.bits {
			for _, c := range list[:len(list):len(list)] {
				if bit != 0 {
					list = append(list, column{sets: c.sets | bit})
				}
			}
		}
		if a.edges {
			list = append(list, column{sets: a.bits[0], end: true})
		}
	}
	return append(list, column{end: true})
}

// SearchState is the state of a search for matches in a text, from front to back: where the text starts, and the last
// run of characters in groups. It is zero for a new text.
type SearchState struct {
	From int // the text is s[From:]

	start, end int  // the run is s[start:end], as far as it is known
	at, left   int  // number of its characters that are left from s[at] on
	ends       bool // groups may end at the end of the run
}

// MatchIn is Match for any pattern. If places are passed in order, its total time is that of reading the text a
// bounded number of times.
func (p *Pattern) MatchIn(s []byte, i int, a *SearchState) int {
	if p.conditions == nil {
		return p.Match(s, i)
	}
	r := p.conditions
	row, end := p.first, -1
	inWord := false
	if r.edges && i > a.From {
		_, n := utf8.DecodeLastRune(s[a.From:i])
		kind, _ := p.kindAt(s, i-n)
		inWord = r.word[kind]
	}
	for i < len(s) {
		kind, n := p.kindAt(s, i)
		column := int(kind)
		if r.edges && r.word[kind] != inWord {
			column += r.edge
			inWord = !inWord
		}
		if r.run[kind] && p.inGroups(s, i, a) {
			column += r.groups
		}
		entry := p.rows[row+uint32(column)]
		if entry&1 != 0 {
			end = i
		}
		if row = entry >> 1; row == 0 {
			return end
		}
		i += n
	}
	column := p.kinds
	if inWord {
		column = r.end
	}
	if p.rows[row+uint32(column)]&1 != 0 {
		end = i
	}
	return end
}

// kindAt returns the kind of the character at s[i], and its length.
func (p *Pattern) kindAt(s []byte, i int) (kind uint8, n int) {
	if kind = p.kind[s[i]]; kind != multiByte {
		return kind, 1
	}
	return p.wideKind(s, i, s[i])
}

// inGroups reports whether groups start at s[i], which must be a character of them. It reads the run once, and keeps
// count of its characters.
func (p *Pattern) inGroups(s []byte, i int, a *SearchState) bool {
	r := p.conditions
	if i < a.start || i >= a.end {
		a.start, a.at, a.end, a.left, a.ends = i, i, i, 0, r.atEnd
		for a.end < len(s) {
			kind, n := p.kindAt(s, a.end)
			if !r.run[kind] {
				a.ends = r.after[kind]
				break
			}
			a.end += n
			a.left++
		}
	}
	if i > a.at {
		a.left -= utf8.RuneCount(s[a.at:i])
	} else {
		a.left += utf8.RuneCount(s[i:a.at])
	}
	a.at = i
	return a.ends && a.left%r.size == 0
}

// HasPlaceConditions reports whether p requires more of a place than the following characters. Match does not support
// such a pattern.
func (p *Pattern) HasPlaceConditions() bool { return p.conditions != nil }
