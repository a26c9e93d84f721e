package related

import "hash/fnv"

// Maker makes the hints of documents that an Index of the same Config compares. It is scratch space for one goroutine.
type Maker struct {
	config Config
	terms  TermMaker
}

// NewMaker returns a Maker. The configuration must be valid.
func NewMaker(c Config) *Maker { return &Maker{config: c} }

// Hint returns what a document of a source is about: of its tokens, its path, which may be empty, and its vector, which
// may be nil, only what the retriever compares.
func (m *Maker) Hint(source string, ids []int32, path string, vector []int8) *Hint {
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
		h.Path = Path(path)
	}
	return h
}
