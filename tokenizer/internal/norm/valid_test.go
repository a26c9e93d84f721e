package norm_test

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/tokentest"
)

// Texts of many lengths with characters of all sizes, many of them broken, at the end of memory.
func TestValidLongTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	valid := 0
	memory := tokentest.AtGuard(t, make([]byte, 4096))
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
		if r.IntN(4) == 0 { // behind what was broken off, perhaps at the end of a block, are blocks of ASCII
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
