package report

import (
	"fmt"
	"slices"
)

// relatedColumns are the values that measure the relatedness of documents in a row. They exist only if documents were
// packed, not lengths.
var relatedColumns = []column{
	{Name: "neighbours", Unit: "cosine",
		About: "how alike documents next to each other are: the mean cosine of their tf-idf vectors",
		value: func(x Result) float64 { return x.Related.NeighbourCosine }, text: formatThousandths, higherIsBetter: true},
	{Name: "same", Unit: "folder", About: "neighbours from the same folder",
		value: func(x Result) float64 { return x.Related.SameFolder }, text: formatPercent, higherIsBetter: true},
	{Name: "same", Unit: "file", About: "neighbours from the same file",
		value: func(x Result) float64 { return x.Related.SameFile }, text: formatPercent, higherIsBetter: true},
	{Name: "near", Unit: "duplicates",
		About: "documents that have a cosine above .9 with one of the 128 before them in the row",
		value: func(x Result) float64 { return x.Related.NearDuplicates }, text: formatPercent},
	{Name: "exponent", Unit: "MLE",
		About: "Zipf's exponent of the token counts of a row, 1 + n / sum ln(f / .5): lower is burstier",
		value: func(x Result) float64 { return x.Related.ZipfMLE.Mean }, text: formatThousandths},
	{Name: "", Unit: "std", About: "its standard deviation over rows", value: func(x Result) float64 {
		return x.Related.ZipfMLE.Std
	}, text: formatThousandths,
		unranked: true},
	{Name: "exponent", Unit: "zeta", About: "the same exponent by maximum likelihood with the zeta function",
		value: func(x Result) float64 { return x.Related.ZipfZeta.Mean }, text: formatThousandths},
	{Name: "", Unit: "std", About: "its standard deviation over rows", value: func(x Result) float64 {
		return x.Related.ZipfZeta.Std
	}, text: formatThousandths,
		unranked: true},
}

func formatThousandths(v float64) string { return fmt.Sprintf("%.3f", v) }

// relatedResults returns the results of methods that packed documents, not lengths.
func (r *Report) relatedResults() (some []Result) {
	for _, x := range r.Results {
		if x.Related != nil && x.Related.Rows > 0 {
			some = append(some, x)
		}
	}
	return some
}

// ZipfQuantile is an exponent that the given share of rows does not exceed.
type ZipfQuantile struct {
	Share    float64 `json:"share"`
	Exponent float64 `json:"exponent"`
}

// zipfShares are the quantiles of the Zipf exponents of single rows.
var zipfShares = []float64{0.05, 0.25, 0.5, 0.75, 0.95}

func zipfQuantiles(exponents []float64) (all []ZipfQuantile) {
	sorted := slices.Sorted(slices.Values(exponents))
	for _, share := range zipfShares {
		if n := len(sorted); n > 0 {
			all = append(all, ZipfQuantile{share, sorted[min(int(share*float64(n)), n-1)]})
		}
	}
	return all
}

// TokenCount is the share of a row's distinct tokens that occur at least Count times in it, averaged over rows.
type TokenCount struct {
	Count int     `json:"count"`
	Share float64 `json:"share"`
}

// minTokenShare is the smallest share for which a TokenCount is listed.
const minTokenShare = 1e-4

// tokenCounts returns the cumulative form of a distribution of counts, in which [k] is the share of count k+1. Of
// counts within 2 % of each other it keeps the first.
func tokenCounts(distribution []float64) (all []TokenCount) {
	atLeast := slices.Clone(distribution)
	for k := len(atLeast) - 2; k >= 0; k-- {
		atLeast[k] += atLeast[k+1]
	}
	for k, share := range atLeast {
		if n := len(all); share >= minTokenShare && (n == 0 || 50*(k+1) >= 51*all[n-1].Count) {
			all = append(all, TokenCount{k + 1, share})
		}
	}
	return all
}
