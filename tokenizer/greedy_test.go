package tokenizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/tokentest"
)

// withoutGreedy is the same merges, which then go the way of all merges.
func withoutGreedy(m *merges) *merges {
	plain := *m
	plain.greedy = nil
	return &plain
}

func TestGreedyIsMerging(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range Builtin() {
		m := load(t, name)
		if m.def.merges.greedy == nil {
			t.Fatalf("%s is not encoded greedily", name)
		}
		plain := withoutGreedy(m.def.merges)
		var s longScratch
		var got, want []int32
		check := func(word []byte) {
			t.Helper()
			got, want = m.def.merges.encode(&s, got[:0], word), plain.encode(&s, want[:0], word)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q gives %v, want %v", name, word, got, want)
			}
		}
		tokens := slices.DeleteFunc(m.byID(), func(s string) bool { return s == "" })
		for range 1_500 {
			word := tokentest.RandomText(r)
			if check(word); r.IntN(2) == 0 {
				for i := range word {
					if r.IntN(8) == 0 {
						word[i] = byte(r.IntN(256))
					}
				}
				check(word)
			}
			word = word[:0]
			for range 1 + r.IntN(5) { // tokens side by side, some of them cut
				text := tokens[r.IntN(len(tokens))]
				word = append(word, text[:len(text)-r.IntN(len(text)+1)/2]...)
			}
			check(word)
			word = word[:0]
			for range 1 + r.IntN(3) { // texts that repeat themselves
				text := tokens[r.IntN(len(tokens))]
				if r.IntN(3) > 0 {
					text = string("=- a0*#"[r.IntN(7)])
				}
				word = append(word, strings.Repeat(text, 1+r.IntN(1+1200/len(text)))...)
			}
			check(word)
		}
	}
}

// All short words of few letters, by models whose merges meet in every way.
func TestGreedyIsMergingForSmallModels(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	greedy := 0
	for k := range 400 {
		letters := "abc"[:2+k%2]
		tokens := strings.Split(letters, "")
		var list [][2]string
		for range 3 + r.IntN(12) {
			a, b := tokens[r.IntN(len(tokens))], tokens[r.IntN(len(tokens))]
			if len(a)+len(b) > 6 {
				continue
			}
			list = append(list, [2]string{a, b})
			if !slices.Contains(tokens, a+b) {
				tokens = append(tokens, a+b)
			}
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		m := mustLoadFile(t, tokentest.SmallFile(list...), Options{}).def.merges
		if m.greedy == nil {
			continue
		}
		greedy++
		var s longScratch
		var got, want []int32
		var check func(word []byte, more int)
		check = func(word []byte, more int) {
			if len(word) > 0 {
				got, _ = m.greedy.encode(&s.greedy, got[:0], word)
				want = withoutGreedy(m).encode(&s, want[:0], word)
				if !slices.Equal(got, want) {
					t.Fatalf("%q gives %v, want %v, by %q", word, got, want, list)
				}
			}
			for i := 0; more > 0 && i < len(letters); i++ {
				check(append(word[:len(word):len(word)], letters[i]), more-1)
			}
		}
		check(nil, 13-2*len(letters))
	}
	if greedy < 300 {
		t.Errorf("%d models of 400 were encoded greedily", greedy)
	}
}

// The work of encoding a word is bounded by its length, whatever it is.
func TestGreedyWorkIsLinear(t *testing.T) {
	for _, name := range Builtin() {
		m := load(t, name)
		tokens := slices.DeleteFunc(m.byID(), func(s string) bool { return len(s) < 8 })
		long := strings.Join(tokens, "")
		words := [][]byte{[]byte(long), []byte(strings.ToUpper(long))}
		for _, unit := range []string{"a", " ", "\n", "1", "=", "中", "👩‍🔬", "e\u0301", "ab", "aab", "\x80", " -"} {
			words = append(words, bytes.Repeat([]byte(unit), 1<<16/len(unit)))
		}
		for _, word := range words {
			var s greedyScratch
			if _, n := m.def.merges.greedy.encode(&s, nil, word); n < len(word) && word[0] == '=' {
				t.Errorf("%s: encodes %d bytes of %.20q", name, n, word)
			}
			if bound := (greedyWalk + 1) * (len(word) + 2*greedyText); s.walked > bound {
				t.Errorf("%s: looked at %d bytes for %d of %.20q", name, s.walked, len(word), word)
			}
		}
	}
}

// Long words of characters that few tokens join are cut into pieces, which are looked for in the caches.
func TestLongWordsAreCutExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, name := range Builtin() {
		m := load(t, name)
		plain := withoutGreedy(m.def.merges)
		var s longScratch
		e := m.NewEncoder()
		for _, from := range []rune{0x4E00, 0x0E01, 0x0430, 0xAC00, 0x1F600, 0x0905} {
			for range 20 {
				var word []byte
				for range 1 + r.IntN(1200) {
					word = utf8.AppendRune(word, from+r.Int32N(40))
				}
				want := plain.encode(&s, nil, word)
				for range 2 {
					got := e.words.inPieces(nil, word, 0, []int32{int32(len(word))})
					if !slices.Equal(got, want) {
						t.Fatalf("%s: %q gives %v, want %v", name, word, got, want)
					}
				}
			}
		}
	}
}

// Long words of short tokens are merged in windows.
func TestWindowsAreMerging(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	models := map[string]*Model{}
	for _, name := range Builtin() {
		models[name] = load(t, name)
	}
	for k := range 12 { // small ones, of which some merge in another order than they are written down in
		list := tokentest.RandomMerges(r, 40+20*k, k%2 == 1)
		models[fmt.Sprint("random ", k)] = mustLoadFile(t, tokentest.SmallFile(list...), Options{})
	}
	for name, m := range models {
		if m.def.merges.greedy == nil {
			continue
		}
		plain := withoutGreedy(m.def.merges)
		var s longScratch
		var got, want []int32
		windows, whole := 0, 0
		for _, letters := range []string{
			"abcdefghijklmnopqrstuvwxyz", "0123456789", "ab", "abc", "aaaaab", "ACGT", "etaoin",
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "\x80\xe4\xb8\xadab",
		} {
			for range 30 {
				var word []byte
				for range windowLook + r.IntN(1<<(8+r.IntN(5))) {
					word = append(word, letters[r.IntN(len(letters))])
				}
				switch r.IntN(4) {
				case 0:
					word = slices.Insert(word, r.IntN(len(word)), bytes.Repeat([]byte(letters[:1+r.IntN(2)]), r.IntN(400))...)
				case 1:
					word = append(word, tokentest.RandomText(r)...)
				}
				got, want = m.def.merges.encode(&s, got[:0], word), plain.encode(&s, want[:0], word)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %q gives %v, want %v", name, word, got, want)
				}
				windows += min(s.greedy.windows.n, 1)
				if _, n := m.def.merges.greedy.encode(&s.greedy, nil, word); n == len(word) {
					whole++
				}
			}
		}
		if windows < 20 || whole < 270 {
			t.Errorf("%s: of 270 words %d ended in windows, and %d were not given up", name, windows, whole)
		}
	}
}
