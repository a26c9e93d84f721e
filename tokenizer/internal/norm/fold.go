package norm

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// lowerTable has the lower cases of characters, in the form of variants.
var lowerTable = sync.OnceValue(func() *variants { return newVariants(lowerCases[:]) })

// lower returns s with each character in lower case, in the buffer.
func lower(buffer *[]byte, s []byte) []byte {
	t := lowerTable()
	out := ReuseBuffer(*buffer)
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			out = append(out, lowerASCII(c))
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		out = t.appendLower(out, r)
		i += n
	}
	*buffer = out
	return out
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// appendLower appends the lower case of a character.
func (t *variants) appendLower(dst []byte, r rune) []byte {
	if to := t.replacementOf(r); to != "" {
		return append(dst, to...)
	}
	return utf8.AppendRune(dst, r)
}

// dropClass returns s without the characters of a class: s itself if it has none, else in the buffer.
func dropClass(buffer *[]byte, s []byte, class ucd.Class) []byte {
	end := ucd.EndOfOther(s, 0, class)
	if end == len(s) {
		return s
	}
	out := ReuseBuffer(*buffer)
	for start := 0; start < len(s); end = ucd.EndOfOther(s, start, class) {
		out = append(out, s[start:end]...)
		start = ucd.EndOfClass(s, end, class)
	}
	*buffer = out
	return out
}

// strip returns s without the white space at its ends.
func strip(s []byte, left, right bool) []byte {
	if left {
		s = s[ucd.EndOfClass(s, 0, ucd.IsSpace):]
	}
	for right && len(s) > 0 {
		r, n := utf8.DecodeLastRune(s)
		if ucd.ClassOf(r)&ucd.IsSpace == 0 {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// replaceSpaces returns s with each run of two or more spaces replaced: s itself if it has none, else in the buffer.
func replaceSpaces(buffer *[]byte, s, to []byte) []byte {
	two := []byte("  ")
	k := bytes.Index(s, two)
	if k < 0 {
		return s
	}
	out := ReuseBuffer(*buffer)
	for ; k >= 0; k = bytes.Index(s, two) {
		out = append(append(out, s[:k]...), to...)
		s = bytes.TrimLeft(s[k:], " ")
	}
	*buffer = append(out, s...)
	return *buffer
}

// nfd returns s in form D: s itself if it is ASCII, else a buffer that the next call reuses.
func (n *normalizer) nfd(s []byte) []byte {
	if asciiEnd(s, 0) == len(s) {
		return s
	}
	if n.tables == nil {
		n.tables = nfc()
	}
	n.out = ReuseBuffer(n.out)
	for i := 0; i < len(s); {
		if k := asciiEnd(s, i); k > i {
			n.out = append(n.out, s[i:k]...)
			i = k
			continue
		}
		n.runes = n.runes[:0]
		for i < len(s) && s[i] >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(s[i:])
			n.decompose(r)
			i += size
		}
		n.sortMarks()
		for _, m := range n.runes {
			n.out = utf8.AppendRune(n.out, m.r)
		}
	}
	if cap(n.runes) > maxKeptRunes {
		n.runes = nil
	}
	return n.out
}

// JoinSpaces appends s with each run of white space between words replaced by a space, none at its ends, and with each
// mark replaced by a space, which replaces the white space before it.
func JoinSpaces(dst, s, mark []byte) []byte {
	start := len(dst)
	for i := 0; i < len(s); {
		if end := ucd.EndOfClass(s, i, ucd.IsSpace); end > i {
			if i = end; i < len(s) && len(dst) > start && !bytes.HasPrefix(s[i:], mark) {
				dst = append(dst, ' ')
			}
			continue
		}
		end := ucd.EndOfOther(s, i, ucd.IsSpace)
		for i < end {
			k := bytes.Index(s[i:end], mark)
			if k < 0 {
				dst = append(dst, s[i:end]...)
				break
			}
			dst = append(append(dst, s[i:i+k]...), ' ')
			i += k + len(mark)
		}
		i = end
	}
	return dst
}
