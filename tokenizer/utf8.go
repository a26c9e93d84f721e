package tokenizer

import "unicode/utf8"

// appendValid appends text with one U+FFFD for each maximal subpart of invalid UTF-8: the bytes that begin a
// character and then break off (Unicode 16, section 3.9, U+FFFD substitution of maximal subparts).
func appendValid(dst, text []byte) []byte {
	done := 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if r != utf8.RuneError || n > 1 {
			i += n
			continue
		}
		dst = append(append(dst, text[done:i]...), "\uFFFD"...)
		i += subpart(text[i:])
		done = i
	}
	return append(dst, text[done:]...)
}

// subpart is the length of the maximal subpart that an ill-formed s starts with.
func subpart(s []byte) int {
	follow, lo, hi := 0, byte(0x80), byte(0xBF)
	switch c := s[0]; {
	case c >= 0xC2 && c <= 0xDF:
		follow = 1
	case c == 0xE0:
		follow, lo = 2, 0xA0
	case c == 0xED:
		follow, hi = 2, 0x9F
	case c >= 0xE1 && c <= 0xEF:
		follow = 2
	case c == 0xF0:
		follow, lo = 3, 0x90
	case c >= 0xF1 && c <= 0xF3:
		follow = 3
	case c == 0xF4:
		follow, hi = 3, 0x8F
	}
	k := 1
	for k <= follow && k < len(s) && s[k] >= lo && s[k] <= hi {
		lo, hi = 0x80, 0xBF
		k++
	}
	return k
}
