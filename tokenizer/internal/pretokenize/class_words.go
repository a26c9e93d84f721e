package pretokenize

import (
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// ClassWords splits text into words by the classes of its characters and drops white space. A word in a batch includes
// the space before it. Further white space is in words without other characters.
type ClassWords struct {
	kindOf func(c ucd.Class) wordKind
	ascii  [utf8.RuneSelf]wordKind
}

// wordKind is what a character does to words: characters of the same kind form a word.
type wordKind uint8

const (
	spaceKind   wordKind = iota // not part of a word
	isolateKind                 // a word alone
	wordKind1
	wordKind2
)

func newClassWords(kindOf func(c ucd.Class) wordKind) *ClassWords {
	w := &ClassWords{kindOf: kindOf}
	for r := range w.ascii {
		w.ascii[r] = kindOf(ucd.ClassOf(rune(r)))
	}
	return w
}

// BertWords returns the words of a BertPreTokenizer: without white space, and with each punctuation character alone.
func BertWords() *ClassWords {
	return newClassWords(func(c ucd.Class) wordKind {
		switch {
		case c&ucd.IsSpace != 0:
			return spaceKind
		case c&ucd.IsPunctuation != 0:
			return isolateKind
		}
		return wordKind1
	})
}

// SpacedWords returns the words of a WhitespaceSplit.
func SpacedWords() *ClassWords {
	return newClassWords(func(c ucd.Class) wordKind {
		if c&ucd.IsSpace != 0 {
			return spaceKind
		}
		return wordKind1
	})
}

// PatternWords returns the words of a Whitespace pre-tokenizer: \w+|[^\w\s]+.
func PatternWords() *ClassWords {
	return newClassWords(func(c ucd.Class) wordKind {
		switch {
		case c&ucd.IsWord != 0:
			return wordKind1
		case c&ucd.IsSpace != 0:
			return spaceKind
		}
		return wordKind2
	})
}

func (c *ClassWords) kindAt(s []byte, i int) (wordKind, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return c.ascii[b], 1
	}
	class, n := ucd.ClassAtWide(s[i:])
	return c.kindOf(class), n
}

// Split writes the ends of the words of s from i on to w, until it is nearly full or s ends. It returns their number
// and the end of the last.
func (c *ClassWords) Split(s []byte, i int, w *Batch) (n, end int) {
	w.HasNonASCII = false
	for n < BatchSize-1 && i < len(s) {
		kind, size := c.kindAt(s, i)
		if kind == spaceKind {
			next := i + size
			for next < len(s) && kind == spaceKind {
				if kind, size = c.kindAt(s, next); kind == spaceKind {
					next += size
				}
			}
			if next == len(s) || next > i+1 || s[i] != ' ' { // only a single space is part of the next word
				last := next
				if next < len(s) && s[next-1] == ' ' {
					last--
				}
				if last > i {
					w.Ends[n] = int32(last)
					n++
				}
			}
			if i = next; i == len(s) {
				break
			}
		}
		i += size
		for kind != isolateKind && i < len(s) {
			other, size := c.kindAt(s, i)
			if other != kind {
				break
			}
			i += size
		}
		w.Ends[n] = int32(i)
		n++
	}
	return n, i
}
