package similarity

import "hash/fnv"

// HintMaker makes the hints of documents for an Index of the same Config. It contains scratch space and must not be
// used concurrently.
type HintMaker struct {
	config Config
	terms  TermMaker
}

// NewHintMaker returns a Maker. The configuration must be valid.
func NewHintMaker(c Config) *HintMaker { return &HintMaker{config: c} }

// Hint returns the hint of a document of a source. It only contains the data that the retriever compares, made from
// the tokens, the path, which may be empty, and the vector, which may be nil.
func (m *HintMaker) Hint(source string, ids []int32, path string, vector []int8) *Hint {
	sum := fnv.New32a()
	sum.Write([]byte(source))
	h := &Hint{Source: sum.Sum32()}
	switch m.config.Retriever {
	case "bm25":
		h.Terms = m.terms.Terms(ids)
	case "dense":
		h.Vector = vector
	}
	if m.config.Retriever == "repo" || m.config.PathBonus > 0 {
		h.Path = PathHashes(path)
	}
	return h
}
