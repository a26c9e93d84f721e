package norm

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The states of a UTF-8 validation, as bit positions in a word: what may follow the bytes so far.
const (
	complete = 6 * iota // at the end of a character
	follow1             // one more byte of the character
	follow2
	follow3
	afterE0 // only some bytes may follow this one
	afterED
	afterF0
	afterF4
	broken
)

// utf8Step has for each byte, at the position of each state, the next state. So a step is a shift.
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

// Valid is utf8.Valid, several times as fast for characters of more than one byte.
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

// AppendValid appends text with one U+FFFD for each maximal subpart of invalid UTF-8: the beginning of a character
// that is not completed (Unicode 16, section 3.9, U+FFFD substitution of maximal subparts).
//
// Which bytes those are is unpredictable. So it processes blocks with bit masks, and its branches depend on little
// but the number of such bytes.
func AppendValid(dst, text []byte) []byte {
	dst = slices.Grow(dst, len(text)+len(text)/4)
	var tail [blockSize]byte
	for len(text) > 0 {
		block, size := &tail, blockSize
		if len(text) >= blockSize {
			block = (*[blockSize]byte)(text)
		} else {
			size = copy(tail[:], text)
		}
		wide, inside := nonASCIIBits(block)
		var broken, rest uint64 // first bytes of incomplete subparts, and the bytes after the first one in all subparts
		for first := wide &^ inside; first != 0; first &= first - 1 {
			k := bits.TrailingZeros64(first)
			n, ok := subpart(text[k:])
			if k+n > blockSize {
				size = k
				break
			}
			rest |= (1<<n - 2) << k
			if !ok {
				broken |= 1 << k
			}
		}
		broken |= inside &^ rest
		if cap(dst)-len(dst) < 3*blockSize { // more is invalid than the first allocation has room for; this one suffices
			dst = slices.Grow(dst, 3*len(text))
		}
		dst = appendReplaced(dst, text[:size], broken&(^uint64(0)>>(blockSize-size)), rest)
		text = text[size:]
	}
	return dst
}

const blockSize = 64

// nonASCIIBits returns the bytes of a block that are not ASCII, and those of them with which no character starts.
func nonASCIIBits(p *[blockSize]byte) (wide, inside uint64) {
	for i := 0; i < blockSize; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		wide |= (x & 0x8080808080808080 >> 7) * 0x0102040810204080 >> 56 << i
		inside |= (x &^ (x << 1) & 0x8080808080808080 >> 7) * 0x0102040810204080 >> 56 << i
	}
	return wide, inside
}

// appendReplaced appends a block with U+FFFD for each broken byte, without the rest after it.
func appendReplaced(dst, block []byte, broken, rest uint64) []byte {
	dst = slices.Grow(dst, len(replacement)*blockSize)
	done := 0
	for ; broken != 0; broken &= broken - 1 {
		k, n := bits.TrailingZeros64(broken), len(dst)
		if done+8 <= len(block) && k <= done+8 {
			copy(dst[n:n+8], block[done:done+8])
			dst = append(dst[:n+k-done], replacement...)
		} else {
			dst = append(append(dst, block[done:k]...), replacement...)
		}
		done = k + 1 + bits.TrailingZeros64(^(rest >> k >> 1))
	}
	return append(dst, block[done:]...)
}

const replacement = "\uFFFD"

// subpart returns the length of the maximal subpart at the beginning of s, and whether it is a complete character.
func subpart(s []byte) (n int, ok bool) {
	state := utf8Step[s[0]] & 63
	for n = 1; state != complete && state != broken && n < len(s); n++ {
		if state = utf8Step[s[n]] >> state & 63; state == broken {
			return n, false
		}
	}
	return n, state == complete
}
