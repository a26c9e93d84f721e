package packonline

import (
	"fmt"
	"slices"

	"loaderd/packonline/similarity"
)

// Splice has the parameters of splice in addition to those of other methods.
type Splice struct {
	// Retriever selects what relates documents: bm25 (shared rare tokens), repo (folders of their paths) or dense
	// (embeddings supplied with them).
	Retriever string `koanf:"retriever" json:"retriever"`
	// K is the number of related documents that follow each document of a row.
	K int `koanf:"k" json:"k"`
	// Order of the documents in a row: identity (in the order of retrieval) or shuffle.
	Order string `koanf:"order" json:"order"`
	// Fill is how a row ends: exact (with related pieces that fill it; nothing is dropped) or trim (as in the paper: the
	// last document is cut and its rest dropped).
	Fill string `koanf:"fill" json:"fill"`
	// PathBonus raises the score of documents from the same folder (unit: percent).
	PathBonus int `koanf:"path_bonus" json:"path_bonus"`
	// NearDuplicate skips documents with a score above this share of the querying document's score with itself (unit:
	// percent). 0 skips none.
	NearDuplicate int `koanf:"near_duplicate" json:"near_duplicate"`
	// Postings bounds the work of a query (unit: entries of lists that bm25 and repo read).
	Postings int `koanf:"postings" json:"postings"`
	// Dimension is the length of dense's embeddings.
	Dimension int `koanf:"dimension" json:"dimension"`
}

// Orders and Fills are the values of Splice.Order and Splice.Fill.
var (
	Orders = []string{"identity", "shuffle"}
	Fills  = []string{"exact", "trim"}
)

// Bounds of a Splice.
const (
	maxK          = 64
	maxSplicePool = 1 << 16
)

func validateSplice(c Config) (bad []FieldError) {
	add := func(field string, value any, want string) { bad = append(bad, FieldError{field, value, want}) }
	oneOf := func(field, value string, list []string) {
		if !slices.Contains(list, value) {
			add(field, value, fmt.Sprintf("one of %v", list))
		}
	}
	within := func(field string, value, least, most int, unit string) {
		if value < least || value > most {
			add(field, value, fmt.Sprintf("%d to %d %s", least, most, unit))
		}
	}
	s := c.Splice
	within("pool", c.Pool, 1, maxSplicePool, "pieces for this method")
	oneOf("splice.retriever", s.Retriever, similarity.Retrievers)
	oneOf("splice.order", s.Order, Orders)
	oneOf("splice.fill", s.Fill, Fills)
	within("splice.k", s.K, 1, maxK, "documents")
	within("splice.path_bonus", s.PathBonus, 0, similarity.MaxPercent, "percent")
	within("splice.near_duplicate", s.NearDuplicate, 0, similarity.MaxPercent, "percent")
	within("splice.postings", s.Postings, 1, similarity.MaxPostings, "entries")
	within("splice.dimension", s.Dimension, 1, similarity.MaxDimension, "numbers")
	if s.Fill == "trim" && len(c.Buckets) > 1 {
		add("buckets", c.Buckets, "exactly one row length where rows are trimmed")
	}
	return bad
}

// SimilarityConfig returns the configuration of the comparison of documents, or nil for a method that only uses
// lengths.
func (c Config) SimilarityConfig() *similarity.Config {
	if c.Method != "splice" {
		return nil
	}
	s := c.Splice
	return &similarity.Config{Retriever: s.Retriever, PathBonus: s.PathBonus, NearDuplicate: s.NearDuplicate,
		Postings: s.Postings, Dimension: s.Dimension}
}

// stateNumbers returns the parameters that the state of splice has in addition to others.
func (s Splice) stateNumbers() []configNumber {
	return []configNumber{
		{"splice.retriever (its place in the list)", uint64(slices.Index(similarity.Retrievers, s.Retriever))},
		{"splice.k", uint64(s.K)},
		{"splice.order (its place in the list)", uint64(slices.Index(Orders, s.Order))},
		{"splice.fill (its place in the list)", uint64(slices.Index(Fills, s.Fill))},
		{"splice.path_bonus", uint64(s.PathBonus)},
		{"splice.near_duplicate", uint64(s.NearDuplicate)},
		{"splice.postings", uint64(s.Postings)},
		{"splice.dimension", uint64(s.Dimension)},
	}
}
