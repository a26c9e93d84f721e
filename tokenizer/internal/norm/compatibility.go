package norm

import (
	"sync"
	"unicode/utf8"
)

// Normalization form KC is form C of a text in which variants of characters (ligatures, widths, circled digits) are
// replaced by what they are variants of. The replacement is decomposed fully, before form C is computed.

// variants has the replacements of characters, in two stages like the tables of ucd. Text 0 is empty: no replacement.
type variants struct {
	page  [0x1100]uint8
	pages [][256]uint16
	text  []string
}

var compatibility = sync.OnceValue(func() *variants { return newVariants(compatibilities[:]) })

func newVariants(replacements []decomposition) *variants {
	t := &variants{pages: make([][256]uint16, 1), text: make([]string, 1)}
	for _, d := range replacements {
		if t.page[d.r>>8] == 0 {
			t.page[d.r>>8] = uint8(len(t.pages))
			t.pages = append(t.pages, [256]uint16{})
		}
		t.pages[t.page[d.r>>8]][d.r&0xff] = uint16(len(t.text))
		t.text = append(t.text, d.to)
	}
	return t
}

func (t *variants) replacementOf(r rune) string { return t.text[t.pages[t.page[r>>8]][r&0xff]] }

// replaceVariants returns s with variants replaced: s itself if it has none, else in the buffer.
func replaceVariants(buffer *[]byte, s []byte) []byte {
	t := compatibility()
	done := 0
	var out []byte
	for i := asciiEnd(s, 0); i < len(s); i = asciiEnd(s, i) {
		r, n := utf8.DecodeRune(s[i:])
		if to := t.replacementOf(r); to != "" {
			if out == nil {
				out = ReuseBuffer(*buffer)
			}
			out = append(append(out, s[done:i]...), to...)
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return s
	}
	*buffer = append(out, s[done:]...)
	return *buffer
}
