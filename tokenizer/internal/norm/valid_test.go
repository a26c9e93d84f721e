package norm_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/tokentest"
)

// Texts of many lengths with characters of all sizes, many of them broken, are validated at the end of memory.
func TestValid_LongTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	valid := 0
	memory := tokentest.CopyToGuardPage(t, make([]byte, 4096))
	for range 200_000 {
		var s []byte
		for n := r.IntN(200); len(s) < n; {
			if r.IntN(4) == 0 {
				s = append(s, byte(r.Uint32())&0x7f)
			} else {
				s = utf8.AppendRune(s, rune(r.Uint32N(0x110000>>r.IntN(20))))
			}
		}
		if r.IntN(2) == 0 && len(s) > 0 {
			s[r.IntN(len(s))] = byte(r.Uint32())
		}
		if r.IntN(3) == 0 && len(s) > 0 {
			s = s[:r.IntN(len(s))]
		}
		if r.IntN(4) == 0 { // an incomplete character, possibly at the end of a block, followed by blocks of ASCII
			s = append(s, "a text that is long enough for two blocks of ASCII at wherever it begins"...)
		}
		at := memory[len(memory)-len(s):]
		copy(at, s)
		want := utf8.Valid(s)
		if want {
			valid++
		}
		if norm.Valid(at) != want {
			t.Fatalf("%x: want %t", s, want)
		}
	}
	if valid < 50_000 || valid > 150_000 {
		t.Errorf("%d texts are valid", valid)
	}
}

// Texts of many lengths, of characters and of bytes at which the states of the validation change, are replaced
// according to the definition.
func TestAppendValid_LongTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	edges := []byte("az\x00\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF")
	characters := []rune("aéक中😀")
	for range 20_000 {
		var s []byte
		runs := 1 + r.IntN(40)
		for n := r.IntN(200); len(s) < n; {
			for range r.IntN(runs) {
				s = utf8.AppendRune(s, characters[r.IntN(len(characters))])
			}
			s = append(s, edges[r.IntN(len(edges))])
		}
		if got, want := norm.AppendValid([]byte("before"), s), naiveValid([]byte("before"), s); !bytes.Equal(got, want) {
			t.Fatalf("%q becomes %q, want %q", s, got, want)
		}
	}
}

// naiveValid implements the definition of AppendValid: one U+FFFD for the longest beginning of a character, or else
// for one byte.
func naiveValid(dst, s []byte) []byte {
	for len(s) > 0 {
		if r, n := utf8.DecodeRune(s); r != utf8.RuneError || n > 1 {
			dst, s = append(dst, s[:n]...), s[n:]
			continue
		}
		n := 1
		for n < len(s) && beginsCharacter(s[:n+1]) {
			n++
		}
		dst, s = append(dst, "\ufffd"...), s[n:]
	}
	return dst
}

// beginsCharacter reports whether s can be completed to a character.
func beginsCharacter(s []byte) bool {
	if len(s) == 4 {
		return utf8.Valid(s) && utf8.RuneCount(s) == 1
	}
	for _, next := range []byte{0x80, 0x90, 0xA0} {
		if more := append(s[:len(s):len(s)], next); utf8.RuneCount(more) == 1 && utf8.Valid(more) || beginsCharacter(more) {
			return true
		}
	}
	return false
}
