// Package report compares the results of packing methods on the same document lengths: as a table for a terminal, as
// JSON, and as one HTML page that draws figures of the JSON without network access.
package report

import (
	"encoding/json"
	"fmt"
	"io"

	"loaderd/internal/relatedness"
	"loaderd/internal/simulation"
)

// Report contains the input of a comparison and the result of every method. Other programs read its JSON: fields may
// be added, but no field may change its name or meaning.
type Report struct {
	Input   string          `json:"input"`   // name of the input
	Command string          `json:"command"` // reproduces the report
	Lengths Lengths         `json:"lengths"`
	Rows    []int           `json:"rows"` // row lengths in tokens, ascending; methods with one use the largest
	Pool    int             `json:"pool"` // pieces; 0 is the whole input
	MaxAge  int             `json:"max_age"`
	Short   int             `json:"short"`   // tokens below which documents are short, in the samples of the results
	Best    string          `json:"best"`    // the recommended method; empty for none
	Why     []string        `json:"why"`     // reasons, in sentences
	Results []Result        `json:"results"` // in the order in which they were added
	Skipped []SkippedMethod `json:"skipped,omitempty"`
}

// Result is the result of one method.
type Result struct {
	*simulation.Result
	Ages []AgeQuantile `json:"ages"`
	// Related is the relatedness of documents in a row. It is nil if lengths were packed.
	Related *relatedness.Metrics `json:"related,omitempty"`
	// Zipf and TokenCounts exist if Related does: exponents of single rows, and how often tokens occur in them.
	Zipf        []ZipfQuantile `json:"zipf_quantiles,omitempty"`
	TokenCounts []TokenCount   `json:"token_counts,omitempty"`

	source *simulation.Source // in rows of tables by source
}

// AgeQuantile is an age in documents that the given share of documents does not exceed.
type AgeQuantile struct {
	Share float64 `json:"share"`
	Age   uint32  `json:"age"`
}

// ageShares are the quantiles of ages; 0 is the lowest age.
var ageShares = []float64{0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1}

// SkippedMethod is a method that cannot pack into these rows, with the reason.
type SkippedMethod struct {
	Method string `json:"method"`
	Reason string `json:"reason"`
}

// Add adds a method's result. related is nil if lengths were packed.
func (r *Report) Add(s *simulation.Result, related *relatedness.Metrics) {
	x := Result{Result: s, Related: related}
	for _, share := range ageShares {
		x.Ages = append(x.Ages, AgeQuantile{share, s.AgeQuantile(share)})
	}
	if related != nil {
		x.Zipf, x.TokenCounts = zipfQuantiles(related.Zipfs), tokenCounts(related.Counts)
	}
	r.Results = append(r.Results, x)
}

// ChooseBest chooses the recommended method. All results must have been added.
func (r *Report) ChooseBest() { r.Best, r.Why = chooseBest(r) }

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// longestRow returns the longest row in tokens.
func (r *Report) longestRow() int { return r.Rows[len(r.Rows)-1] }

// Shares of a result, from 0 to 1 or more.

func (x Result) notWholeShare() float64 { return ratio(x.NotWhole, x.Documents) }
func (x Result) droppedShare() float64  { return ratio(x.DroppedTokens, x.Tokens) }
func (x Result) repeatedShare() float64 { return ratio(x.RepeatedTokens, x.Tokens) }

// maskedAttention and unmasked return the number of tokens to which a token attends, averaged over all tokens: those of
// its piece with the document mask, those of its row without it.
func (x Result) maskedAttention() float64   { return perToken(x.AttentionCost, x) }
func (x Result) unmaskedAttention() float64 { return perToken(x.AttentionCostUnmasked, x) }

func perToken(cost float64, x Result) float64 {
	if x.Tokens == 0 {
		return 0
	}
	return cost / float64(x.Tokens)
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
