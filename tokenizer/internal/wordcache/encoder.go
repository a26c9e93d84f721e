package wordcache

import (
	"runtime"

	"loaderd/internal/cpufeature"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// Encoder finds the ids of words: in its caches, in the words shared by all encoders of the model, or else by
// merging. It has the scratch space and the caches of one goroutine.
type Encoder struct {
	words   *Words
	local   localCache
	shared  *sharedWords
	scratch merge.Scratch
	segment Segmenter // replaces merging, or nil
	found   pretokenize.Batch
	cuts    [batchSize]int32 // ends of words, and of the pieces of long ones
	missing missing
}

// localCache has the words that an encoder has seen. They affect only the speed of encoding, never the result.
type localCache interface {
	// seed adds words that are one token.
	seed(w *seeds)
	// find adds to m the words of s, from i on with the given ends, that are not known. It also prefetches them in the
	// shared words.
	find(t *sharedWords, s []byte, i int, ends []int32, m *missing)
	// learn stores the ids of the j-th missing word.
	learn(m *missing, j int, ids *idBytes)
	// learnMany stores the ids of a word that has more, or larger ones. They are at the end of m.ids from from on and
	// stay there.
	learnMany(m *missing, j, from int)
	// append appends the ids of the n words of the batch, all of which have been found or learned.
	append(dst []int32, n int, m *missing) []int32
}

// Cutter splits a text into words.
type Cutter interface {
	// Split writes the ends of the words of s from i on to w. It returns their number, at least 1, and the end of the
	// last.
	Split(s []byte, i int, w *pretokenize.Batch) (n, end int)
}

// NewEncoder returns an encoder for one goroutine.
func (w *Words) NewEncoder() *Encoder {
	if cpufeature.Kernels {
		return w.newEncoder(newKernelCache())
	}
	return w.newEncoder(newPortableCache())
}

func (w *Words) newEncoder(k localCache) *Encoder {
	k.seed(&w.seeds)
	e := &Encoder{words: w, local: k, shared: w.shared()}
	if w.newSegmenter != nil {
		e.segment = w.newSegmenter()
	}
	return e
}

// Encode appends the ids of a text, in batches of the words into which by splits it.
func (e *Encoder) Encode(by Cutter, dst []int32, s []byte) []int32 {
	for i := 0; i < len(s); {
		n, end := by.Split(s, i, &e.found)
		ends := e.found.Ends[:n]
		if e.found.HasNonASCII && !e.words.unsplit && len(e.words.whole) == 0 && longestWord(i, ends) > maxUnsplitWord {
			dst = e.encodePieces(dst, s, i, ends)
		} else {
			dst = e.encodeWords(dst, s, i, ends)
		}
		i = end
	}
	runtime.KeepAlive(e) // its tables are not on the collected heap
	return dst
}

// maxUnsplitWord is the maximum length of a word that is not split into separately merged pieces. Pieces occur more
// often than the word. If some words are one token whatever merging gives, no word is split, because a piece might be
// mistaken for one of them.
const maxUnsplitWord = 31

// longestWord returns the length of the longest of the words from i on with the given ends.
func longestWord(i int, ends []int32) int32 {
	most, from := int32(0), int32(i)
	for _, end := range ends {
		most = max(most, end-from)
		from = end
	}
	return most
}

// encodePieces encodes the words of s from i on with the given ends, the long ones in pieces.
func (e *Encoder) encodePieces(dst []int32, s []byte, i int, ends []int32) []int32 {
	n, from := 0, i
	put := func(end int) {
		e.cuts[n] = int32(end)
		if n++; n == batchSize {
			dst = e.encodeWords(dst, s, i, e.cuts[:n])
			n, i = 0, end
		}
	}
	for _, end := range ends {
		if w := s[from:end]; len(w) > maxUnsplitWord {
			for p := 1; p < len(w); p++ {
				if w[p] >= 0xC0 && !e.words.cross.Has(w, p) {
					put(from + p)
				}
			}
		}
		put(int(end))
		from = int(end)
	}
	return e.encodeWords(dst, s, i, e.cuts[:n])
}

// keepIDs is the maximum number of ids of rare words for which scratch space is kept.
const keepIDs = 1 << 16

// Trim releases memory that a large text needed.
func (e *Encoder) Trim() {
	if cap(e.missing.ids) > keepIDs {
		e.missing.ids = nil
	}
}
