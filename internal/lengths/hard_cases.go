package lengths

import (
	"fmt"
	"math/rand/v2"
)

// HardCase is a named list of document lengths.
type HardCase struct {
	Name    string
	Lengths []int32
}

// HardCases returns lists of lengths that are hard to pack into rows of the given lengths. Some have few distinct
// lengths, which fill a row exactly only with very many documents, or never. Others are drawn from narrow bands, with
// a step width that prevents sums equal to a row.
func HardCases(documents int, rows []int) []HardCase {
	shortest, longest := int32(rows[0]), int32(rows[len(rows)-1])
	half := longest / 2
	var out []HardCase
	for _, turns := range [][]int32{
		{1}, {7}, {60}, {1500}, {shortest - 1}, {shortest + 1}, {shortest/2 + 1}, {half - 1}, {half + 1}, {longest/3 + 1},
		{longest - 1},
		{2, 3}, {3, 6}, {7, 14}, {101, 301, 501}, {half - 1, 2}, {half + 1, 3}, {half/2 - 1, 2}, {longest - 1, 2},
		{longest - 1, longest - 2, longest - 3},
		{longest - 1, longest - 1, longest - 1, 2}, {longest - 1, 2, 2, 2}, {longest - 1, 4, 2},
		{longest - 1, longest - 2, 2, 4}, {shortest - 1, 2},
		{half + 1, half + 3}, {half - 1, 2, half + half/2}, {shortest + 1, 2*shortest + 1, 3*shortest + 1},
	} {
		in := make([]int32, documents)
		for i := range in {
			in[i] = max(1, turns[i%len(turns)])
		}
		out = append(out, HardCase{fmt.Sprint("in turns ", turns), in})
	}
	bands := [][2]int32{
		{1, 16}, {1, longest}, {shortest/2 - shortest/10, shortest/2 + shortest/10},
		{shortest - shortest/10, shortest + shortest/10},
		{half - 64, half + 64}, {half, longest}, {half / 2, half}, {longest / 3, longest/3 + 50}, {longest / 5, longest / 4},
		{longest - 200, longest},
	}
	if len(rows) > 1 {
		bands = append(bands, [2]int32{1, shortest})
	}
	for _, band := range bands {
		for _, step := range []int32{1, 2, 3, 16, 64, 97} {
			r := rand.New(rand.NewPCG(uint64(step), 12))
			in := make([]int32, documents)
			for i := range in {
				n := max(1, band[0]) + r.Int32N(band[1]-band[0])
				in[i] = n - n%step + 1
			}
			out = append(out, HardCase{fmt.Sprintf("%d to %d in steps of %d", band[0], band[1], step), in})
		}
	}
	return out
}
