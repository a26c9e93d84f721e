// Package simulation packs lists of document lengths as a run would, and reports the result in the metrics of the
// papers.
package simulation

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// Result is the result of one method on a list of lengths. Tokens + Repeated - Dropped + Padding = Slots. Other
// programs read its JSON: fields may be added, but no field may change its name or meaning.
type Result struct {
	Method             string  `json:"method"`
	Documents          int64   `json:"documents"`
	Tokens             int64   `json:"tokens"`
	Sequences          int64   `json:"sequences"` // training rows
	Slots              int64   `json:"slots"`     // tokens of the rows, including padding
	PaddingTokens      int64   `json:"padding_tokens"`
	DroppedTokens      int64   `json:"dropped_tokens"`
	RepeatedTokens     int64   `json:"repeated_tokens"`
	TruncatedDocuments int64   `json:"truncated_documents"`
	NotWhole           int64   `json:"not_whole_documents"` // split, or with dropped tokens
	Pieces             int64   `json:"pieces"`              // of documents, in all sequences
	PaddingRatio       float64 `json:"padding_ratio"`       // padding tokens / slots
	TruncationRatio    float64 `json:"truncation_ratio"`    // truncated documents / documents
	ConcatenationRatio float64 `json:"concatenation_ratio"` // documents / sequences
	// documents, from a document's arrival to the emission of its last piece
	AgeMax             uint32  `json:"age_max"`
	AgeMedian          uint32  `json:"age_median"` // over all documents, lower median
	PoolMax            int     `json:"pool_max"`   // maximum number of pieces in the pool
	Seconds            float64 `json:"seconds"`    // of packing only
	DocumentsPerSecond float64 `json:"documents_per_second"`
	// AttentionCost is the sum of squared segment lengths, the cost of attention if every piece attends only to itself.
	// AttentionCostUnmasked, the cost without that mask, is the sum of squared row lengths. Causal attention computes
	// about half of either.
	AttentionCost         float64  `json:"attention_cost"`
	AttentionCostUnmasked float64  `json:"attention_cost_unmasked"`
	Buckets               []Bucket `json:"buckets"`
	Sample                *Sample  `json:"sample,omitempty"` // nil if the run is too short
	// Sources are the results of a mixture's sources by name, nil without a mixture.
	Sources map[string]*Source `json:"sources,omitempty"`
	// Detail contains the bounds of the method, the cost of the end of the input (the flush causes most padding), and
	// the method's own counters.
	Detail map[string]any `json:"detail"`

	ages []int64 // documents by age
}

// Bucket counts the sequences of one row length.
type Bucket struct {
	Length    int   `json:"length"`
	Sequences int64 `json:"sequences"`
}

// maxRows limits the number of rows of one document, which are emitted together.
const maxRows = 1 << 24

// Run packs documents of the given lengths, numbered from 0. It writes the sequences to placements, which may be nil,
// one per line in order of emission: LENGTH<TAB>document:start:length document:start:length ... A Pool of 0 holds the
// whole input. Seconds measures packing including the final flush, but not the evaluation of results.
func Run(ctx context.Context, c packonline.Config, lengths []int32, placements io.Writer) (*Result, error) {
	var each RowFunc
	if placements != nil {
		each = LineWriter(placements)
	}
	return RunDocuments(ctx, c, lengths, nil, DefaultShortLength(c.Buckets), each)
}

// RowFunc is called with every sequence in order of emission: its length in tokens and its pieces, which are valid
// only during the call.
type RowFunc func(length int, pieces []packonline.Piece) error

// RunDocuments is Run with additional arguments: the documents' hints for methods that use them (nil: no hints), the
// length below which documents are short for Result.Sample, and a function that receives the sequences, which may be
// nil.
func RunDocuments(ctx context.Context, c packonline.Config, lengths []int32, hints []*similarity.Hint, below int,
	each RowFunc) (*Result, error) {
	return run(ctx, c, lengths, hints, below, nil, each)
}

// run is RunDocuments, for a mixture if sources is not nil.
func run(ctx context.Context, c packonline.Config, lengths []int32, hints []*similarity.Hint, below int,
	sources *sourceCounter, each RowFunc) (*Result, error) {
	if c.Pool == 0 {
		c.Pool = max(len(lengths), 1)
	}
	p, err := packonline.New(c)
	if err != nil {
		return nil, err
	}
	longest := int32(float64(slices.Max(c.Buckets)) * min(c.Atom, 1))
	for i, n := range lengths {
		if n/longest > maxRows {
			return nil, fmt.Errorf("document %d has %d tokens, more than %d rows of %d: choose longer rows", i, n,
				maxRows, longest)
		}
	}
	w := newRowEvaluator(c, lengths, below, each)
	w.sources = sources
	var out packonline.Rows
	var packing time.Duration
	waiting := 0
	const batch, batchRows = 4096, 1 << 16 // a document can have a million rows
	for next := 0; next < len(lengths); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		for end := min(next+batch, len(lengths)); next < end && out.Len() < batchRows; next++ {
			d := packonline.Doc{Seq: uint64(next), Length: lengths[next]}
			if hints != nil {
				d.Hint = hints[next]
			}
			p.Add(d, &out)
			waiting = max(waiting, p.Pending().Pieces)
		}
		packing += time.Since(start)
		if err := w.addRows(&out); err != nil {
			return nil, err
		}
	}
	r := w.result
	r.PoolMax = waiting
	r.Detail = parameters(c)
	r.Detail["flush_pieces"] = p.Pending().Pieces
	sequences, padding := w.sequences(), p.Counts().Padding
	start := time.Now()
	p.Flush(&out)
	packing += time.Since(start)
	if err := w.addRows(&out); err != nil {
		return nil, err
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	r.setTotals(p.Counts(), w, packing)
	r.Detail["flush_sequences"] = r.Sequences - sequences
	r.Detail["flush_padding_tokens"] = r.PaddingTokens - padding
	if own, ok := p.(packonline.DetailedPacker); ok {
		for name, n := range own.Detail() {
			r.Detail[name] = n
		}
	}
	return r, nil
}

// setTotals sets the totals and the ratios of the papers.
func (r *Result) setTotals(c packonline.Counts, w *rowEvaluator, packing time.Duration) {
	r.Documents, r.Tokens, r.Sequences, r.Slots = c.Documents, c.Tokens, w.sequences(), c.Slots+w.missingSlots
	r.PaddingTokens, r.DroppedTokens, r.RepeatedTokens, r.TruncatedDocuments = c.Padding+w.missingSlots, c.Dropped,
		c.Repeated,
		c.Truncated
	r.PaddingRatio = ratio(float64(r.PaddingTokens), float64(r.Slots))
	r.TruncationRatio = ratio(float64(r.TruncatedDocuments), float64(r.Documents))
	r.ConcatenationRatio = ratio(float64(r.Documents), float64(r.Sequences))
	r.Seconds = packing.Seconds()
	r.DocumentsPerSecond = ratio(float64(r.Documents), r.Seconds)
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// parameters returns the parameters that the method uses, by their names in a configuration file.
func parameters(c packonline.Config) map[string]any {
	d := map[string]any{"atom": c.Atom, "pool": c.Pool, "max_age": c.MaxAge, "seed": c.Seed}
	if c.MaxDocumentsPerRow > 0 {
		d["max_documents_per_row"] = c.MaxDocumentsPerRow
	}
	for _, name := range packonline.Parameters(c.Method) {
		switch name {
		case "holdback":
			d[name] = c.Holdback
		case "overlap":
			d[name] = c.Overlap
		case "extra":
			d[name] = c.Extra
		case "padding_threshold":
			d[name] = c.PaddingThreshold
		case "splice":
			d[name] = c.Splice
		}
	}
	return d
}

// Validate returns all invalid settings of a simulation, in which the pool may be 0.
func Validate(c packonline.Config) []packonline.FieldError {
	whole := c.Pool == 0
	if whole {
		c.Pool = 1
	}
	bad := c.Validate()
	for i := range bad {
		if bad[i].Field == "pool" {
			bad[i].Want = fmt.Sprintf("0 (the whole input) or %s", bad[i].Want)
		}
	}
	return bad
}
