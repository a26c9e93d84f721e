package added

import (
	"sync"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// Cutter splits a text at its added tokens according to their flags.
type Cutter struct {
	set        *Set
	s          []byte
	asText     bool // treat special tokens as text
	searchFrom int  // where the search for the next token starts
	returnedTo int  // end of the text that has been returned
	spaceEnd   int  // end of the last white space that was skipped; none ends later
}

// NewCutter splits s at the tokens of a set; asText leaves special tokens in the text.
func NewCutter(set *Set, s []byte, asText bool) Cutter {
	return Cutter{set: set, s: s, asText: asText}
}

// AtStart reports whether the text that Next returns starts where the whole text does.
func (c *Cutter) AtStart() bool { return c.returnedTo == 0 }

// Next returns the text before the next token, which may be empty, and the token's id: -1 after the last token.
func (c *Cutter) Next() (text []byte, id int32) {
	for {
		start, end, t := c.set.find(c.s, c.searchFrom)
		if t == nil {
			text = c.s[c.returnedTo:]
			c.searchFrom, c.returnedTo = len(c.s), len(c.s)
			return text, -1
		}
		c.searchFrom = end
		if t.Special && c.asText || t.SingleWord && !c.isSingleWord(start, end) {
			continue // it is text, and so are other tokens within it
		}
		if t.Lstrip {
			start = max(c.spaceBefore(start), c.returnedTo)
		}
		if t.Rstrip {
			if c.spaceEnd < end {
				c.spaceEnd = c.spaceAfter(end)
			}
			end = c.spaceEnd
		}
		text = c.s[min(c.returnedTo, start):start]
		c.returnedTo = end // may decrease, as in the reference: a token may start in white space of rstrip
		if start < end {
			return text, t.ID
		}
	}
}

// isSingleWord reports whether no word character is adjacent to the text from start to end.
func (c *Cutter) isSingleWord(start, end int) bool {
	before, _ := utf8.DecodeLastRune(c.s[:start])
	after, _ := utf8.DecodeRune(c.s[end:])
	return (start == 0 || !c.isInSet(before, wordRunes)) && (end == len(c.s) || !c.isInSet(after, wordRunes))
}

var wordRunes = sync.OnceValue(ucd.RustWordCharacters)

var spaceRunes = sync.OnceValue(ucd.WhiteSpace)

// spaceBefore returns where the white space that ends at i starts, without text that has been returned.
func (c *Cutter) spaceBefore(i int) int {
	for i > c.returnedTo {
		r, n := utf8.DecodeLastRune(c.s[c.returnedTo:i])
		if !c.isInSet(r, spaceRunes) {
			break
		}
		i -= n
	}
	return i
}

// spaceAfter returns where the white space that starts at i ends.
func (c *Cutter) spaceAfter(i int) int {
	for i < len(c.s) {
		r, n := utf8.DecodeRune(c.s[i:])
		if !c.isInSet(r, spaceRunes) {
			break
		}
		i += n
	}
	return i
}

// isInSet reports whether the character that r represents is in a set.
func (c *Cutter) isInSet(r rune, in func() ucd.Set) bool {
	if r == ' ' {
		r = c.set.space
	}
	return in().Has(r)
}
