package report

import (
	"math"
	"slices"
)

// Lengths describes the documents. Lengths are in tokens, including the end-of-document token.
type Lengths struct {
	Documents int     `json:"documents"`
	Tokens    int64   `json:"tokens"`
	Min       int32   `json:"min"`
	Median    int32   `json:"median"`
	Mean      float64 `json:"mean"`
	P90       int32   `json:"p90"`
	P99       int32   `json:"p99"`
	Max       int32   `json:"max"`
	// Longer is the share of documents that are longer than the longest row: every method must split them.
	Longer float64 `json:"longer"`
	// Pieces is the number of pieces if no document is cut more often than the longest row requires.
	Pieces    int64 `json:"pieces"`
	Histogram []Bin `json:"histogram"`
}

// Bin counts the documents of [From, To) tokens.
type Bin struct {
	From      float64 `json:"from"`
	To        float64 `json:"to"`
	Documents int64   `json:"documents"`
	Tokens    int64   `json:"tokens"`
}

// binsPerDoubling returns the number of bins per doubling of the length: 4, or fewer for a wide range of lengths.
func binsPerDoubling(least, most int32) float64 {
	f := 4.0
	for f > 1 && f*math.Log2(float64(most)/float64(least)) > 64 {
		f /= 2
	}
	return f
}

// DescribeLengths summarizes document lengths for rows of at most row tokens.
func DescribeLengths(lengths []int32, row int) Lengths {
	d := Lengths{Documents: len(lengths)}
	if len(lengths) == 0 {
		return d
	}
	sorted := slices.Clone(lengths)
	slices.Sort(sorted)
	at := func(q float64) int32 { return sorted[int(math.Ceil(q*float64(len(sorted))))-1] }
	d.Min, d.Median, d.P90, d.P99, d.Max = sorted[0], at(0.5), at(0.9), at(0.99), sorted[len(sorted)-1]
	f := binsPerDoubling(d.Min, d.Max)
	firstBin, end := binIndex(d.Min, f), binIndex(d.Max, f)+1
	for b := firstBin; b < end; b++ {
		d.Histogram = append(d.Histogram, Bin{From: binEdge(b, f), To: binEdge(b+1, f)})
	}
	for i, n := range sorted {
		if int(n) > row && d.Longer == 0 {
			d.Longer = float64(len(sorted)-i) / float64(len(sorted))
		}
		d.Tokens += int64(n)
		d.Pieces += (int64(n) + int64(row) - 1) / int64(row)
		b := &d.Histogram[binIndex(n, f)-firstBin]
		b.Documents++
		b.Tokens += int64(n)
	}
	d.Mean = float64(d.Tokens) / float64(d.Documents)
	return d
}

// binIndex returns the number of the bin that holds a length.
func binIndex(length int32, fineness float64) int {
	b := int(math.Floor(math.Log2(float64(length)) * fineness))
	for float64(length) >= binEdge(b+1, fineness) {
		b++
	}
	for float64(length) < binEdge(b, fineness) {
		b--
	}
	return b
}

// binEdge returns the lower end of a bin.
func binEdge(b int, fineness float64) float64 { return math.Exp2(float64(b) / fineness) }
