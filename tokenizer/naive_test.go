package tokenizer

import (
	"strings"

	"loaderd/tokenizer/internal/tokentest"
)

// naiveModel implements the definition of a tokenizer.json directly. It finds words by trying every way to match the
// pattern, and merges by examining all pairs after each merge. It shares no fast path with the real implementation.
type naiveModel struct {
	family string
	whole  bool // a word that is a token is that token
	vocab  object
	rank   map[[2]string]int
}

// newNaive returns the model of a file, of which it uses only the model and the pre-tokenizer; family names the
// latter.
func newNaive(file object, family string) *naiveModel {
	model := file["model"].(object)
	whole, _ := model["ignore_merges"].(bool)
	n := &naiveModel{family: family, whole: whole, vocab: model["vocab"].(object), rank: map[[2]string]int{}}
	for r, m := range model["merges"].([]any) {
		left, right, _ := strings.Cut(m.(string), " ")
		n.rank[[2]string{left, right}] = r
	}
	return n
}

// ids encodes valid UTF-8 without added tokens.
func (n *naiveModel) ids(text []byte) (ids []int32) {
	for _, word := range tokentest.NaiveWords(n.family, string(text)) {
		ids = append(ids, n.word(tokentest.Spell(word))...)
	}
	return ids
}

// word merges the lowest rank first, and of equal ranks the leftmost.
func (n *naiveModel) word(word string) (ids []int32) {
	if id, ok := n.vocab[word]; ok && n.whole {
		return []int32{int32(id.(int))}
	}
	symbols := strings.Split(word, "")
	for {
		best, at := 0, -1
		for i := 0; i+1 < len(symbols); i++ {
			if r, ok := n.rank[[2]string{symbols[i], symbols[i+1]}]; ok && (at < 0 || r < best) {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		symbols = append(append(symbols[:at:at], symbols[at]+symbols[at+1]), symbols[at+2:]...)
	}
	for _, s := range symbols {
		ids = append(ids, int32(n.vocab[s].(int)))
	}
	return ids
}
