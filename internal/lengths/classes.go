package lengths

import (
	"math"
	"math/rand/v2"
)

// lengthClass holds documents of [from, to) units of 1,024 tokens.
type lengthClass struct {
	from, to  float64
	documents int
}

// The tables of the papers do not limit the last class. Its upper end is an estimate.
var (
	pubmed = []lengthClass{{2, 4, 3906}, {4, 6, 4095}, {6, 8, 1789}, {8, 10, 763}, {10, 12, 355}, {12, 14, 150},
		{14, 16, 73},
		{16, 18, 47}, {18, 30, 90}}
	bbc = []lengthClass{{.5, 1, 3533}, {1, 1.5, 6556}, {1.5, 2, 1323}, {2, 2.5, 330}, {2.5, 3, 97}, {3, 3.5, 49},
		{3.5, 4, 27}, {4, 4.5, 22}, {4.5, 6, 29}}

	finance = []lengthClass{{.5, 1, 7790}, {1, 1.5, 4161}, {1.5, 2, 1012}, {2, 2.5, 397}, {2.5, 3, 274}, {3, 3.5, 234},
		{3.5, 4, 212}, {4, 4.5, 195}, {4.5, 12, 1252}}
)

// drawClasses returns a function that draws uniformly within each class. If n is the table's number of documents, the
// classes have exactly its numbers, otherwise its shares.
func drawClasses(table []lengthClass) func(n int, seed uint64) []int32 {
	return func(n int, seed uint64) []int32 {
		r := rand.New(rand.NewPCG(seed, 0))
		out := make([]int32, 0, n)
		seen, total := 0, countDocuments(table)
		for _, c := range table {
			seen += c.documents
			for len(out) < int(math.Round(float64(seen)*float64(n)/float64(total))) {
				out = append(out, int32(1024*c.from)+r.Int32N(int32(1024*(c.to-c.from))))
			}
		}
		r.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
}

func countDocuments(table []lengthClass) (documents int) {
	for _, c := range table {
		documents += c.documents
	}
	return documents
}
