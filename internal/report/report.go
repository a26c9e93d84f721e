// Package report compares how packing methods did on the same document lengths: as a table for a terminal, as JSON, and
// as one HTML page that draws figures of the JSON without a network.
package report

import (
	"encoding/json"
	"fmt"
	"io"

	"loaderd/internal/relatedness"
	"loaderd/internal/simulation"
)

// Report is what was packed, and how every method did. Its JSON is read by other programs: fields may be added, and
// none may change its name or meaning.
type Report struct {
	Input   string    `json:"input"`   // where the lengths come from
	Command string    `json:"command"` // that makes the report again
	Lengths Lengths   `json:"lengths"`
	Rows    []int     `json:"rows"` // row lengths in tokens, ascending; methods with one take the largest
	Pool    int       `json:"pool"` // pieces; 0 is the whole input
	MaxAge  int       `json:"max_age"`
	Short   int       `json:"short"`   // tokens below which documents are short, in the samples of the results
	Best    string    `json:"best"`    // the method to take; empty without results
	Why     []string  `json:"why"`     // it, in sentences
	Results []Result  `json:"results"` // in the order in which they were added
	Skipped []Skipped `json:"skipped,omitempty"`
}

// Result is how one method did.
type Result struct {
	*simulation.Result
	Ages []AgeQuantile `json:"ages"`
	// Related says how related the documents of a row are, where documents were packed, not lengths.
	Related *relatedness.Figures `json:"related,omitempty"`
	// Zipf and TokenCounts are there with Related: exponents of single rows, and how often tokens occur in them.
	Zipf        []ZipfQuantile `json:"zipf_quantiles,omitempty"`
	TokenCounts []TokenCount   `json:"token_counts,omitempty"`

	source *simulation.Source // in lines about one source of a mixture
}

// AgeQuantile is an age in documents that a share of the documents do not exceed.
type AgeQuantile struct {
	Share float64 `json:"share"`
	Age   uint32  `json:"age"`
}

// ageShares are the quantiles of ages; 0 is the youngest.
var ageShares = []float64{0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1}

// Skipped is a method that can not pack into these rows, with the reason.
type Skipped struct {
	Method string `json:"method"`
	Reason string `json:"reason"`
}

// Add adds how a method did; related is nil where only lengths are known.
func (r *Report) Add(s *simulation.Result, related *relatedness.Figures) {
	x := Result{Result: s, Related: related}
	for _, share := range ageShares {
		x.Ages = append(x.Ages, AgeQuantile{share, s.AgeQuantile(share)})
	}
	if related != nil {
		x.Zipf, x.TokenCounts = zipfQuantiles(related.Zipfs), tokenCounts(related.Counts)
	}
	r.Results = append(r.Results, x)
}

// Judge chooses the method to take, once all are added.
func (r *Report) Judge() { r.Best, r.Why = judge(r) }

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

// largest returns the longest row in tokens.
func (r *Report) largest() int { return r.Rows[len(r.Rows)-1] }

// Shares of a result, each from 0 on.

func (x Result) notWhole() float64 { return share(x.NotWhole, x.Documents) }
func (x Result) dropped() float64  { return share(x.DroppedTokens, x.Tokens) }
func (x Result) repeated() float64 { return share(x.RepeatedTokens, x.Tokens) }

// attention and unmasked are the tokens that a token attends to, in the mean over all tokens: its own piece's with the
// document mask, the row's without.
func (x Result) attention() float64 { return perToken(x.AttentionCost, x) }
func (x Result) unmasked() float64  { return perToken(x.AttentionCostUnmasked, x) }

func perToken(cost float64, x Result) float64 {
	if x.Tokens == 0 {
		return 0
	}
	return cost / float64(x.Tokens)
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
