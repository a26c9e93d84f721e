package deadletter

import (
	"cmp"
	"slices"
	"time"
)

// Bounds of a Summary.
const (
	maxReasons = 32 // that are distinguished; the remaining ones are Other
	maxSamples = 5  // per reason
	maxProblem = 300
	maxSubject = 200
)

// OtherReason is the reason of letters whose reason is not one of those that are distinguished, or not a valid name.
const OtherReason = "OTHER"

// Summary is the content of dead-letter streams.
type Summary struct {
	Total   int64    // letters; more than those of Reasons while letters are still being read
	Reasons []Reason // most letters first
}

// Reason summarizes the letters of one reason.
type Reason struct {
	Reason  string
	Letters int64
	Samples []Sample // the newest first
}

// Sample is a letter.
type Sample struct {
	Letter   uint64 // its sequence in its dead-letter stream
	Source   string // of the document
	Sequence uint64 // of the document
	Subject  string // of the document
	Problem  string
	Time     time.Time // when the letter was stored
}

// MergeSummaries returns the summary of several streams.
func MergeSummaries(all ...Summary) Summary {
	var out Summary
	of := map[string]Reason{}
	for _, s := range all {
		out.Total += s.Total
		for _, r := range s.Reasons {
			sum := of[r.Reason]
			sum.Reason, sum.Letters = r.Reason, sum.Letters+r.Letters
			sum.Samples = append(sum.Samples, r.Samples...)
			of[r.Reason] = sum
		}
	}
	for _, r := range of {
		out.Reasons = append(out.Reasons, r)
	}
	slices.SortFunc(out.Reasons, byLetters)
	if rest := len(out.Reasons) - maxReasons; rest > 0 {
		out.Reasons = foldReasons(out.Reasons)
	}
	for i := range out.Reasons {
		keepNewest(&out.Reasons[i])
	}
	return out
}

func byLetters(a, b Reason) int {
	return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.Reason, b.Reason))
}

// foldReasons merges the reasons beyond the limit into one.
func foldReasons(all []Reason) []Reason {
	other := Reason{Reason: OtherReason}
	kept := make([]Reason, 0, maxReasons)
	for _, r := range all {
		if r.Reason != OtherReason && len(kept) < maxReasons-1 {
			kept = append(kept, r)
			continue
		}
		other.Letters += r.Letters
		other.Samples = append(other.Samples, r.Samples...)
	}
	kept = append(kept, other)
	slices.SortFunc(kept, byLetters)
	return kept
}

// keepNewest keeps the newest samples of a reason.
func keepNewest(r *Reason) {
	slices.SortFunc(r.Samples, func(a, b Sample) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Source, b.Source), cmp.Compare(b.Letter, a.Letter))
	})
	r.Samples = slices.Clip(r.Samples[:min(len(r.Samples), maxSamples)])
}
