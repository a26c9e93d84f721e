package merge_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/tokentest"
)

// greedy returns the merges of a definition, with their greedy encoder if they have one, and the tokens by id.
func greedy(t *testing.T, d *definition.Definition) (m *merge.Merges, tokens []string) {
	t.Helper()
	tokens = d.TokensByID()
	d.Merges.PrepareGreedy(tokens)
	return d.Merges, tokens
}

func TestGreedy_EqualsMerging(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range definition.Builtin() {
		m, byID := greedy(t, tokentest.Builtin(t, name))
		if !m.HasGreedy() {
			t.Fatalf("%s is not encoded greedily", name)
		}
		plain := m.WithoutGreedy()
		var s merge.Scratch
		var got, want []int32
		check := func(word []byte) {
			t.Helper()
			got, want = m.Encode(&s, got[:0], word), plain.Encode(&s, want[:0], word)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q gives %v, want %v", name, word, got, want)
			}
		}
		tokens := slices.DeleteFunc(byID, func(s string) bool { return s == "" })
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
			for range 1 + r.IntN(5) { // adjacent tokens, some of them truncated
				text := tokens[r.IntN(len(tokens))]
				word = append(word, text[:len(text)-r.IntN(len(text)+1)/2]...)
			}
			check(word)
			word = word[:0]
			for range 1 + r.IntN(3) { // repetitive texts
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

// All short words of few letters are encoded by models whose merges interact in every way.
func TestGreedy_EqualsMergingForSmallModels(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	greedily := 0
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
		m, _ := greedy(t, tokentest.Definition(t, tokentest.SmallFile(list...)))
		if !m.HasGreedy() {
			continue
		}
		greedily++
		var s merge.Scratch
		var got, want []int32
		var check func(word []byte, more int)
		check = func(word []byte, more int) {
			if len(word) > 0 {
				got, _ = m.EncodeGreedily(&s, got[:0], word)
				want = m.WithoutGreedy().Encode(&s, want[:0], word)
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
	if greedily < 300 {
		t.Errorf("%d models of 400 were encoded greedily", greedily)
	}
}

// The work of encoding a word is bounded by its length, for any word.
func TestGreedy_WorkIsLinear(t *testing.T) {
	for _, name := range definition.Builtin() {
		m, byID := greedy(t, tokentest.Builtin(t, name))
		tokens := slices.DeleteFunc(byID, func(s string) bool { return len(s) < 8 })
		long := strings.Join(tokens, "")
		words := [][]byte{[]byte(long), []byte(strings.ToUpper(long))}
		for _, unit := range []string{"a", " ", "\n", "1", "=", "中", "👩‍🔬", "e\u0301", "ab", "aab", "\x80", " -"} {
			words = append(words, bytes.Repeat([]byte(unit), 1<<16/len(unit)))
		}
		for _, word := range words {
			var s merge.Scratch
			if _, n := m.EncodeGreedily(&s, nil, word); n < len(word) && word[0] == '=' {
				t.Errorf("%s: encodes %d bytes of %.20q", name, n, word)
			}
			if bound := (merge.GreedyWalk + 1) * (len(word) + 2*merge.GreedyText); s.Walked() > bound {
				t.Errorf("%s: looked at %d bytes for %d of %.20q", name, s.Walked(), len(word), word)
			}
		}
	}
}

// Long words of short tokens are merged in windows.
func TestWindows_EqualMerging(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	models := map[string]*merge.Merges{}
	for _, name := range definition.Builtin() {
		models[name], _ = greedy(t, tokentest.Builtin(t, name))
	}
	for k := range 12 { // small ones, some of which merge in another order than they are listed
		list := tokentest.RandomMerges(r, 40+20*k, k%2 == 1)
		models[fmt.Sprint("random ", k)], _ = greedy(t, tokentest.Definition(t, tokentest.SmallFile(list...)))
	}
	for name, m := range models {
		if !m.HasGreedy() {
			continue
		}
		plain := m.WithoutGreedy()
		var s merge.Scratch
		var got, want []int32
		windows, whole := 0, 0
		for _, letters := range []string{
			"abcdefghijklmnopqrstuvwxyz", "0123456789", "ab", "abc", "aaaaab", "ACGT", "etaoin",
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "\x80\xe4\xb8\xadab",
		} {
			for range 30 {
				var word []byte
				for range merge.WindowLook + r.IntN(1<<(8+r.IntN(5))) {
					word = append(word, letters[r.IntN(len(letters))])
				}
				switch r.IntN(4) {
				case 0:
					word = slices.Insert(word, r.IntN(len(word)), bytes.Repeat([]byte(letters[:1+r.IntN(2)]), r.IntN(400))...)
				case 1:
					word = append(word, tokentest.RandomText(r)...)
				}
				got, want = m.Encode(&s, got[:0], word), plain.Encode(&s, want[:0], word)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %q gives %v, want %v", name, word, got, want)
				}
				windows += min(s.Windows(), 1)
				if _, n := m.EncodeGreedily(&s, nil, word); n == len(word) {
					whole++
				}
			}
		}
		if windows < 20 || whole < 270 {
			t.Errorf("%s: of 270 words %d ended in windows, and %d were not given up", name, windows, whole)
		}
	}
}
