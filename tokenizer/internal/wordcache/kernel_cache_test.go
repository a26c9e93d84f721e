package wordcache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

// Both table and caches agree with merging each word, independent of the processor, also for texts at the end of
// memory.
func TestCaches_KernelAndPortableAgree(t *testing.T) {
	w, d := wordsOf(t, "cl100k_base")
	plain := tokentest.Builtin(t, "cl100k_base").Merges
	encoders := map[string]*Encoder{"table": w.newEncoder(newKernelCache()), "caches": w.newEncoder(newPortableCache())}
	r := rand.New(rand.NewPCG(51, 52))
	var s merge.Scratch
	for range 600 {
		text := tokentest.CopyToGuardPage(t, norm.AppendValid(nil, tokentest.RandomText(r)))
		var want []int32
		var b pretokenize.Batch
		for i := 0; i < len(text); {
			n, end := d.Family.Splitter.Split(text, i, &b)
			for _, next := range b.Ends[:n] {
				want = plain.Encode(&s, want, text[i:next])
				i = int(next)
			}
			i = end
		}
		for kind, e := range encoders {
			if got := e.Encode(&d.Family.Splitter, nil, text); !slices.Equal(got, want) {
				t.Fatalf("the %s: %q gives %v, want %v", kind, text, got, want)
			}
		}
	}
}

// A line has the newest words of its kind that fit, with all their ids, and no part of another word.
func TestLine_HasNewestWords(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	for _, size := range []int{shortWord, keyMax} {
		var lines [1]line
		var newest []string
		kept := map[string]packedIDs{}
		for range 20_000 {
			word := make([]byte, size-r.IntN(3))
			for i := range word {
				word[i] = "ab"[r.IntN(2)]
			}
			ids := make([]int32, 1+r.IntN(1+r.IntN(lineIDs)))
			for i := range ids {
				ids[i] = r.Int32N(idMask + 1)
			}
			var packed packedIDs
			packed.pack(ids)
			key, place := keyOfWord(word)
			each := keysEach(place)
			old, had := newest, kept[string(word)]
			lines[0].insert(each, &key, &packed)
			switch n := keysOf(packed[0], each); {
			case len(old) > 0 && old[0] == string(word): // unchanged
				packed = had
			case n <= 4:
				newest, kept[string(word)] = append([]string{string(word)}, old...), packed
			default:
				continue
			}
			room := 4
			for k, one := range newest {
				if room -= keysOf(kept[one][0], each); room < 0 || k > 0 && one == newest[0] {
					newest = newest[:k]
					break
				}
			}
			for _, one := range slices.Concat(old, newest) {
				key, place := keyOfWord([]byte(one))
				at := []uint32{place & middleBit}
				var missing [batchSize]uint16
				if matchPlain(lines[:], []lineKey{key}, at, &missing, 0, 0) != 0 {
					if slices.Contains(newest, one) {
						t.Fatalf("%q has fallen out of %x", one, lines[0])
					}
					continue
				}
				want, got := kept[one], lines[0].ids[at[0]/8:]
				n := max(1, (idTriple(want[0]).count()+idsEach-1)/idsEach)
				if len(got) < n || !slices.Equal(got[:n], want[:n]) {
					t.Fatalf("%q has the ids %x, want %x", one, got, want[:n])
				}
			}
		}
	}
}

// A new encoder has the same known words as one that gets the words one after the other.
func TestKernelCache_SeedEqualsInsert(t *testing.T) {
	w, _ := wordsOf(t, "cl100k_base")
	at, want := newKernelCache(), newKernelCache()
	at.seed(&w.seeds)
	n := 0
	for text, id := range w.seeds.all() {
		var ids packedIDs
		ids.pack([]int32{id})
		key, place := keyOfWord(text)
		want.insert(&key, place, &ids)
		n++
	}
	if n < 50_000 || !slices.Equal(at.lines[:firstMissing], want.lines[:firstMissing]) {
		t.Errorf("lines of %d words differ", n)
	}
}

// A word is inserted immediately into a line with room, and into a full one when it is missing for the second time.
// It evicts the oldest word.
func TestKernelCache_FullLineEvictsOldestWord(t *testing.T) {
	w, _ := wordsOf(t, "cl100k_base")
	e := &Encoder{words: w, local: newKernelCache(), shared: w.shared()}
	missing := func(word string) bool {
		e.encodeWords(nil, []byte(word), 0, []int32{int32(len(word))})
		return e.missing.n > 0
	}
	words := wordsOfALine(5)
	for i, word := range words {
		if !missing(word) || missing(word) != (i == 4) {
			t.Fatalf("word %d does not get in as it should", i)
		}
		if i == 4 && missing(word) {
			t.Fatal("the last word does not get in")
		}
	}
	for _, word := range words[1:] {
		if missing(word) {
			t.Fatalf("%s has fallen out", word)
		}
	}
	if !missing(words[0]) {
		t.Fatal("nothing has fallen out")
	}
}

// wordsOfALine returns n words of three letters, so of one to three ids, that are looked up in the same line.
func wordsOfALine(n int) []string {
	of := map[uint32][]string{}
	for r := rand.New(rand.NewPCG(55, 56)); ; {
		word := []byte{byte('A' + r.IntN(58)), byte('A' + r.IntN(58)), byte('A' + r.IntN(58))}
		_, place := keyOfWord(word)
		if !slices.Contains(of[place], string(word)) {
			of[place] = append(of[place], string(word))
		}
		if len(of[place]) == n {
			return of[place]
		}
	}
}
