package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"loaderd/internal/humanize"
)

// maxDeviation is the largest deviation of a part of a run (see Sample) with which a method is recommended.
const maxDeviation = 0.5

// Smaller differences do not count when methods are compared.
const (
	cutsTolerance    = 0.0005 // per document
	paddingTolerance = 0.0001 // of the slots
	costTolerance    = 0.02   // of the attention without a mask
)

// chooseBest chooses the recommended method and gives reasons, or explains why it recommends none. Its criteria in
// order: every part of the run is representative, nothing dropped or repeated, the fewest needless cuts, the least
// padding, the least attention without a mask, the lowest age of documents.
func chooseBest(r *Report) (best string, why []string) {
	if len(r.Results) == 0 {
		return "", nil
	}
	left := slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return x.deviation() > maxDeviation })
	if len(left) == 0 {
		return "", []string{fmt.Sprintf("No method is recommended: in a twentieth of each run, %s is more than %s off. "+
			"Compare more documents, or documents in random order.", r.describeSamples(), formatPercent(maxDeviation))}
	}
	keep := func(value func(Result) float64, near func(least float64) float64) {
		least := math.Inf(1)
		for _, x := range left {
			least = min(least, value(x))
		}
		limit := near(least)
		left = slices.DeleteFunc(left, func(x Result) bool { return value(x) > limit })
	}
	keep(func(x Result) float64 { return x.droppedShare() + x.repeatedShare() }, func(v float64) float64 { return v })
	keep(r.extraCuts, func(v float64) float64 { return v + cutsTolerance })
	keep(func(x Result) float64 { return x.PaddingRatio }, func(v float64) float64 { return v + paddingTolerance })
	keep(Result.unmaskedAttention, func(v float64) float64 { return v * (1 + costTolerance) })
	w := slices.MinFunc(left, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.PaddingRatio, b.PaddingRatio), cmp.Compare(a.AgeMax, b.AgeMax),
			cmp.Compare(a.AgeMedian, b.AgeMedian))
	})
	return w.Method, r.reasons(w)
}

// extraCuts returns the average number of cuts per document beyond those that the longest row requires.
func (r *Report) extraCuts(x Result) float64 {
	return ratio(x.Pieces-r.Lengths.Pieces, x.Documents)
}

// reasons describes the advantages of a method, and what other methods do better.
func (r *Report) reasons(w Result) []string {
	var why []string
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	cuts := ""
	switch n := r.extraCuts(w); {
	case w.TruncatedDocuments == 0:
		cuts = "keeps every document whole"
	case n <= 0 && r.Lengths.Longer > 0.5:
		cuts = fmt.Sprintf("cuts no document more often than rows of %s tokens demand", humanize.Count(r.longestRow()))
	case n <= 0:
		cuts = fmt.Sprintf(
			"cuts only the %s of the documents that are longer than the longest row, and only as often as that requires",
			formatPercent(r.Lengths.Longer))
	default:
		cuts = fmt.Sprintf(
			"cuts the %s of the documents that are longer than the longest row, and makes %s in a hundred documents",
			formatPercent(r.Lengths.Longer),
			needlessCuts(n))
	}
	if w.droppedShare() == 0 && w.repeatedShare() == 0 {
		cuts += ", and drops and repeats nothing"
	}
	say("%s %s.", w.Method, cuts)
	padding := fmt.Sprintf("Padding takes %s of its slots", formatPercent(w.PaddingRatio))
	if w.PaddingRatio > 0.01 && r.extraCuts(w) <= 0 {
		padding += ": whole documents of these lengths do not fill these rows"
	}
	say("%s.", padding)
	if one := float64(r.longestRow()); w.unmaskedAttention() < 0.9*one {
		say("Rows of several lengths cost a dense attention %s of what rows of %s alone do.",
			formatPercent(w.unmaskedAttention()/one),
			humanize.Count(r.longestRow()))
	}
	switch {
	case w.AgeMedian > 0:
		say("Half of the documents wait for at most %s later ones, none for more than %s.", humanize.Count(w.AgeMedian),
			humanize.Count(w.AgeMax))
	case w.AgeMax > 0:
		say("Half of the documents wait for none, and none waits for more than %s later ones.", humanize.Count(w.AgeMax))
	}
	if w.Sample == nil {
		say("The documents are too few to check that every part of them is representative.")
	}
	if x := r.leastPadding(w); x != nil {
		say("%s pads less, %s, but %s.", x.Method, formatPercent(x.PaddingRatio), r.disadvantage(w, *x))
	}
	return why
}

// leastPadding returns the result with the least padding, if that is less than w's.
func (r *Report) leastPadding(w Result) *Result {
	var best *Result
	for i, x := range r.Results {
		if x.PaddingRatio < w.PaddingRatio-paddingTolerance && (best == nil || x.PaddingRatio < best.PaddingRatio) {
			best = &r.Results[i]
		}
	}
	return best
}

// disadvantage describes how x, which pads less, is worse than w, by the first of judge's criteria that applies.
func (r *Report) disadvantage(w, x Result) string {
	switch {
	case x.droppedShare() > 0:
		return "drops " + formatPercent(x.droppedShare()) + " of the tokens"
	case x.repeatedShare() > 0:
		return "repeats " + formatPercent(x.repeatedShare()) + " of the tokens"
	}
	return fmt.Sprintf("makes %s in a hundred documents", needlessCuts(r.extraCuts(x)))
}

func needlessCuts(each float64) string {
	return formatSignificant(100*each, 2) + " needless cuts"
}
