package sentencepiece

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"loaderd/tokenizer/internal/charsmap"
	"loaderd/tokenizer/internal/trie"
)

// spaceMark is the character that represents a space in pieces. Inside the encoder a space represents it.
const spaceMark = "▁"

// maxGrowth bounds the factor by which a charsmap may lengthen a text.
const maxGrowth = 64

// normalizer normalizes text.
type normalizer struct {
	charsmap      *charsmap.Map
	userDefined   *trie.Trie // as written in a text; not normalized
	plain         [256]bool  // characters but the space that do not change before one below utf8.RuneSelf
	keepsSpace    bool       // nor does the space
	removesSpaces bool
	addsPrefix    bool
	addsSuffix    bool
	escapesSpaces bool
}

func newNormalizer(f *File, userDefined *trie.Trie) (n normalizer, err error) {
	n = normalizer{userDefined: userDefined, removesSpaces: f.RemoveExtraWhitespaces, escapesSpaces: f.EscapeWhitespaces,
		addsPrefix: f.AddDummyPrefix && !f.SpaceAsSuffix, addsSuffix: f.AddDummyPrefix && f.SpaceAsSuffix}
	if n.charsmap, err = charsmap.Parse(f.Charsmap); err != nil {
		return n, fmt.Errorf("normalizer_spec: precompiled_charsmap: %w", err)
	}
	if growth := n.charsmap.Growth(); growth > maxGrowth {
		return n, fmt.Errorf("normalizer_spec: precompiled_charsmap makes a text up to %.0f times as long, at most %d is "+
			"supported", growth, maxGrowth)
	}
	for c := range utf8.RuneSelf {
		_, isStart := userDefined.Next(trie.Root, byte(c))
		n.plain[c] = !isStart && n.charsmap.KeepsBeforeASCII(byte(c))
	}
	n.keepsSpace, n.plain[' '] = n.plain[' '], false
	return n, nil
}

// prefix returns the start of s that is normalized as a whole: its normalized text, and its bytes in s.
func (n *normalizer) prefix(s []byte) (text []byte, size int) {
	if size, _ = n.userDefined.Longest(trie.Root, s); size > 0 {
		return s[:size], size
	}
	if text, size := n.charsmap.Longest(s); size > 0 {
		return text, size
	}
	if r, size := utf8.DecodeRune(s); r != utf8.RuneError || size > 1 {
		return s[:size], size
	}
	return []byte("\uFFFD"), 1
}

// append appends normalized text, in which a space represents spaceMark.
func (n *normalizer) append(dst, s []byte) []byte {
	for n.removesSpaces && len(s) > 0 {
		text, size := n.prefix(s)
		if string(text) != " " {
			break
		}
		s = s[size:]
	}
	if len(s) == 0 {
		return dst
	}
	start := len(dst)
	if n.addsPrefix {
		dst = append(dst, ' ')
	}
	afterSpace := n.removesSpaces
	for i := 0; i < len(s); {
		if end := n.plainEnd(s, i); end > i {
			dst = append(dst, s[i:end]...)
			i, afterSpace = end, false
			continue
		}
		if s[i] == ' ' && n.keepsSpace && (i+1 == len(s) || s[i+1] < utf8.RuneSelf) {
			if !afterSpace {
				dst = append(dst, ' ')
			}
			afterSpace = n.removesSpaces
			i++
			continue
		}
		text, size := n.prefix(s[i:])
		i += size
		if afterSpace {
			text = bytes.TrimLeft(text, " ")
		}
		dst = append(dst, text...)
		if len(text) > 0 {
			afterSpace = text[len(text)-1] == ' '
		}
		afterSpace = afterSpace && n.removesSpaces
	}
	if n.escapesSpaces {
		dst = dst[:start+len(replaceMarks(dst[start:]))]
	}
	if n.removesSpaces {
		dst = dst[:start+len(bytes.TrimRight(dst[start:], " "))]
	}
	if n.addsSuffix {
		dst = append(dst, ' ')
	}
	return dst
}

// plainEnd returns the end of the plain characters of s from i on.
func (n *normalizer) plainEnd(s []byte, i int) int {
	end := i
	for end < len(s) && n.plain[s[end]] {
		end++
	}
	if end > i && end < len(s) && s[end] >= utf8.RuneSelf {
		end-- // it may change before the next character
	}
	return end
}

// replaceMarks replaces each spaceMark by a space, in place.
func replaceMarks(s []byte) []byte {
	k := bytes.Index(s, []byte(spaceMark))
	if k < 0 {
		return s
	}
	out := s[:0]
	for ; k >= 0; k = bytes.Index(s, []byte(spaceMark)) {
		out = append(append(out, s[:k]...), ' ')
		s = s[k+len(spaceMark):]
	}
	return append(out, s...)
}

// internal returns the text of a piece in the form inside the encoder; ok is false if no text has it.
func (n *normalizer) internal(piece string) (text string, ok bool) {
	if !n.escapesSpaces {
		return piece, true
	}
	return strings.ReplaceAll(piece, spaceMark, " "), !strings.Contains(piece, " ")
}
