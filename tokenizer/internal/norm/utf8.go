package norm

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// The states of a check of UTF-8, as the places of bits in a word: what may follow the bytes so far.
const (
	complete = 6 * iota // a character is
	follow1             // one more byte of this one
	follow2
	follow3
	afterE0 // not all bytes may follow this one
	afterED
	afterF0
	afterF4
	broken
)

// utf8Step has for each byte, at the place of each state, the next state: so a step is a shift.
var utf8Step = func() (step [256]uint64) {
	for b := range 256 {
		next := [...]int{broken, broken, broken, broken, broken, broken, broken, broken, broken}
		set := func(to, from int) { next[from/6] = to }
		switch {
		case b < 0x80:
			set(complete, complete)
		case b < 0xC0:
			set(complete, follow1)
			set(follow1, follow2)
			set(follow2, follow3)
			if b < 0x90 {
				set(follow2, afterF4)
			} else {
				set(follow2, afterF0)
			}
			if b < 0xA0 {
				set(follow1, afterED)
			} else {
				set(follow1, afterE0)
			}
		case b >= 0xC2 && b < 0xE0:
			set(follow1, complete)
		case b == 0xE0:
			set(afterE0, complete)
		case b == 0xED:
			set(afterED, complete)
		case b >= 0xE0 && b < 0xF0:
			set(follow2, complete)
		case b == 0xF0:
			set(afterF0, complete)
		case b == 0xF4:
			set(afterF4, complete)
		case b > 0xF0 && b < 0xF4:
			set(follow3, complete)
		}
		for state, to := range next {
			step[b] |= uint64(to) << (6 * state)
		}
	}
	return step
}()

// Valid is utf8.Valid, several times as fast where characters have more than one byte.
func Valid(s []byte) bool {
	n, ok := validStart(s)
	return ok && validByStates(s[n:])
}

// validByStates is Valid in plain Go.
func validByStates(s []byte) bool {
	state := uint64(complete)
	for ; len(s) >= 8; s = s[8:] {
		eight := binary.LittleEndian.Uint64(s)
		if eight&0x8080808080808080 == 0 && state&63 == complete {
			continue
		}
		state = utf8Step[eight&0xFF] >> (state & 63)
		state = utf8Step[eight>>8&0xFF] >> (state & 63)
		state = utf8Step[eight>>16&0xFF] >> (state & 63)
		state = utf8Step[eight>>24&0xFF] >> (state & 63)
		state = utf8Step[eight>>32&0xFF] >> (state & 63)
		state = utf8Step[eight>>40&0xFF] >> (state & 63)
		state = utf8Step[eight>>48&0xFF] >> (state & 63)
		state = utf8Step[eight>>56] >> (state & 63)
	}
	for _, b := range s {
		state = utf8Step[b] >> (state & 63)
	}
	return state&63 == complete
}

// AppendValid appends text with one U+FFFD for each maximal subpart of invalid UTF-8: the bytes that begin a
// character and then break off (Unicode 16, section 3.9, U+FFFD substitution of maximal subparts).
func AppendValid(dst, text []byte) []byte {
	dst = slices.Grow(dst, len(text)+len(text)/4)
	done := 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		n, ok := subpart(text[i:])
		if !ok {
			dst = append(append(dst, text[done:i]...), "\uFFFD"...)
			done = i + n
		}
		i += n
	}
	return append(dst, text[done:]...)
}

// subpart is the length of the maximal subpart that s starts with, and whether it is a whole character.
func subpart(s []byte) (n int, ok bool) {
	state := utf8Step[s[0]] & 63
	for n = 1; state != complete && state != broken && n < len(s); n++ {
		if state = utf8Step[s[n]] >> state & 63; state == broken {
			return n, false
		}
	}
	return n, state == complete
}
