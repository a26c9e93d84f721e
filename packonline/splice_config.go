package packonline

import (
	"fmt"
	"slices"

	"loaderd/packonline/related"
)

// Splice is what splice reads beside the parameters of other methods.
type Splice struct {
	// Retriever says what relates documents: bm25 (rare tokens that they share), repo (folders of their paths) or dense
	// (embeddings that come with them).
	Retriever string `koanf:"retriever" json:"retriever"`
	// K is how many related documents follow each document of a row.
	K int `koanf:"k" json:"k"`
	// Order of a row's documents: identity (as they were found) or shuffle.
	Order string `koanf:"order" json:"order"`
	// Fill says how a row ends: exact (with related pieces that fill it; nothing is dropped) or trim (as in the paper: the
	// last document is cut and its rest dropped).
	Fill string `koanf:"fill" json:"fill"`
	// PathBonus raises the score of documents from the same folder (unit: percent).
	PathBonus int `koanf:"path_bonus" json:"path_bonus"`
	// NearDuplicate passes over documents that score above this share of what the asking document scores with itself
	// (unit: percent); 0 passes over none.
	NearDuplicate int `koanf:"near_duplicate" json:"near_duplicate"`
	// Postings bounds the work of a question (unit: entries of lists that bm25 and repo look at).
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

func refuseSplice(c Config) (bad []FieldError) {
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
	oneOf("splice.retriever", s.Retriever, related.Retrievers)
	oneOf("splice.order", s.Order, Orders)
	oneOf("splice.fill", s.Fill, Fills)
	within("splice.k", s.K, 1, maxK, "documents")
	within("splice.path_bonus", s.PathBonus, 0, related.MaxPercent, "percent")
	within("splice.near_duplicate", s.NearDuplicate, 0, related.MaxPercent, "percent")
	within("splice.postings", s.Postings, 1, related.MaxPostings, "entries")
	within("splice.dimension", s.Dimension, 1, related.MaxDimension, "numbers")
	if s.Fill == "trim" && len(c.Buckets) > 1 {
		add("buckets", c.Buckets, "exactly one row length where rows are trimmed")
	}
	return bad
}

// Related returns how documents are compared with one another, nil for a method that looks at lengths alone.
func (c Config) Related() *related.Config {
	if c.Method != "splice" {
		return nil
	}
	s := c.Splice
	return &related.Config{Retriever: s.Retriever, PathBonus: s.PathBonus, NearDuplicate: s.NearDuplicate,
		Postings: s.Postings, Dimension: s.Dimension}
}

// numbers lists what the state of a splice names beside other parameters.
func (s Splice) numbers() []configNumber {
	return []configNumber{
		{"splice.retriever (its place in the list)", uint64(slices.Index(related.Retrievers, s.Retriever))},
		{"splice.k", uint64(s.K)},
		{"splice.order (its place in the list)", uint64(slices.Index(Orders, s.Order))},
		{"splice.fill (its place in the list)", uint64(slices.Index(Fills, s.Fill))},
		{"splice.path_bonus", uint64(s.PathBonus)},
		{"splice.near_duplicate", uint64(s.NearDuplicate)},
		{"splice.postings", uint64(s.Postings)},
		{"splice.dimension", uint64(s.Dimension)},
	}
}
