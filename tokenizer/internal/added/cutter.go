package added

import (
	"sync"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// Cutter cuts a text at its added tokens as their flags say.
type Cutter struct {
	set    *Set
	s      []byte
	asText bool // special tokens are text
	at     int  // where to look for the next token
	done   int  // what is before it has been given
	space  int  // no white space ends later than the last that was stepped over
}

// NewCutter cuts s at the tokens of a set; asText leaves special ones in the text.
func NewCutter(set *Set, s []byte, asText bool) Cutter {
	return Cutter{set: set, s: s, asText: asText}
}

// AtStart tells whether the text that next returns begins where the whole text does.
func (c *Cutter) AtStart() bool { return c.done == 0 }

// Next returns the text before the next token, which may be empty, and the token's id: -1 after the last token.
func (c *Cutter) Next() (text []byte, id int32) {
	for {
		start, end, t := c.set.find(c.s, c.at)
		if t == nil {
			text = c.s[c.done:]
			c.at, c.done = len(c.s), len(c.s)
			return text, -1
		}
		c.at = end
		if t.Special && c.asText || t.SingleWord && !c.alone(start, end) {
			continue // it is text, and so are other tokens within it
		}
		if t.Lstrip {
			start = max(c.spaceBefore(start), c.done)
		}
		if t.Rstrip {
			if c.space < end {
				c.space = c.spaceAfter(end)
			}
			end = c.space
		}
		text = c.s[min(c.done, start):start]
		c.done = end // what a token with rstrip took, another that begins in it can give back: so does the reference
		if start < end {
			return text, t.ID
		}
	}
}

// alone tells whether the text from start to end has no word character beside it.
func (c *Cutter) alone(start, end int) bool {
	before, _ := utf8.DecodeLastRune(c.s[:start])
	after, _ := utf8.DecodeRune(c.s[end:])
	return (start == 0 || !c.is(before, wordRunes)) && (end == len(c.s) || !c.is(after, wordRunes))
}

// wordRunes is \w of the regular expressions that the reference uses for single_word, which are not those of its split
// patterns: no superscript digits and fractions, but joiners.
var wordRunes = sync.OnceValue(func() ucd.Set {
	others := ucd.Of('²', '³', '¹', '¼', '½', '¾')
	joiners := ucd.Of(0x200c, 0x200d)
	return ucd.WordCharacters().Intersect(others.Complement()).Union(joiners)
})

var spaceRunes = sync.OnceValue(ucd.WhiteSpace)

// spaceBefore is where the white space that ends at i begins; what has been given counts as none.
func (c *Cutter) spaceBefore(i int) int {
	for i > c.done {
		r, n := utf8.DecodeLastRune(c.s[c.done:i])
		if !c.is(r, spaceRunes) {
			break
		}
		i -= n
	}
	return i
}

// spaceAfter is where the white space that begins at i ends.
func (c *Cutter) spaceAfter(i int) int {
	for i < len(c.s) {
		r, n := utf8.DecodeRune(c.s[i:])
		if !c.is(r, spaceRunes) {
			break
		}
		i += n
	}
	return i
}

// is tells whether the character that r stands for is in a set.
func (c *Cutter) is(r rune, in func() ucd.Set) bool {
	if r == ' ' {
		r = c.set.space
	}
	return in().Has(r)
}
