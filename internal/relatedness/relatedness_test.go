package relatedness_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"loaderd/internal/relatedness"
)

// whole returns a row of whole documents.
func whole(documents []relatedness.Document, of ...int) (row []relatedness.Piece) {
	for _, i := range of {
		row = append(row, relatedness.Piece{Document: i, Length: int32(len(documents[i].IDs))})
	}
	return row
}

func near(t *testing.T, what string, have, want, within float64) {
	t.Helper()
	if math.IsNaN(have) || math.Abs(have-want) > within {
		t.Errorf("%s is %v, want %v", what, have, want)
	}
}

// TestMeasure_Neighbours checks that equal documents have a cosine of 1 and those without a common token 0, and that
// paths determine folder and file.
func TestMeasure_Neighbours(t *testing.T) {
	documents := []relatedness.Document{
		{IDs: []int32{1, 2, 3}, Path: "a/x"},
		{IDs: []int32{3, 1, 2}, Path: "a/x"},
		{IDs: []int32{7, 8, 8, 9}, Path: "a/y"},
		{IDs: []int32{1, 2, 3}},
	}
	for name, x := range map[string]struct {
		row                                  []int
		neighbours                           int
		cosine, folder, file, nearDuplicates float64
	}{
		"equal":                       {[]int{0, 1}, 1, 1, 1, 1, 1},
		"nothing in common":           {[]int{0, 2}, 1, 0, 1, 0, 0},
		"equal, not next":             {[]int{0, 2, 1}, 2, 0, 1, 0, 0.5},
		"a path that is not known":    {[]int{1, 3}, 1, 1, 0, 0, 1},
		"no path on the first either": {[]int{3, 3}, 1, 1, 0, 0, 1},
	} {
		f := relatedness.Measure(documents, [][]relatedness.Piece{whole(documents, x.row...)})
		if f.Rows != 1 || f.Neighbours != x.neighbours {
			t.Errorf("%s: %d rows, %d neighbours", name, f.Rows, f.Neighbours)
		}
		near(t, name+": cosine", f.NeighbourCosine, x.cosine, 1e-9)
		near(t, name+": same folder", f.SameFolder, x.folder, 1e-9)
		near(t, name+": same file", f.SameFile, x.file, 1e-9)
		near(t, name+": near-duplicates", f.NearDuplicates, x.nearDuplicates, 1e-9)
	}
}

// A rare token in both documents increases their cosine more than a frequent one. Tokens beyond the limit do not
// count.
func TestMeasure_RareTokensWeighMore(t *testing.T) {
	documents := []relatedness.Document{{IDs: []int32{1, 10}}, {IDs: []int32{1, 11}}, {IDs: []int32{2, 12}},
		{IDs: []int32{2, 13, 10, 10}}}
	for i := range int32(20) {
		documents = append(documents, relatedness.Document{IDs: []int32{1, 100 + i}})
	}
	cosine := func(row []relatedness.Piece) float64 {
		return relatedness.Measure(documents, [][]relatedness.Piece{row}).NeighbourCosine
	}
	frequent := cosine(whole(documents, 0, 1))
	rare := cosine([]relatedness.Piece{{Document: 2, Length: 2}, {Document: 3, Length: 2}})
	if frequent <= 0 || frequent > 0.1 || rare < 0.3 || rare >= 1 {
		t.Errorf("cosines %v by a frequent token and %v by a rare one", frequent, rare)
	}
	near(t, "cosine of what is cut off", cosine([]relatedness.Piece{{Document: 0, Start: 1, Length: 1},
		{Document: 3, Start: 2, Length: 2}}), 1, 1e-9)
	near(t, "cosine of the rest", cosine([]relatedness.Piece{{Document: 0, Length: 1},
		{Document: 3, Start: 2, Length: 2}}), 0, 1e-9)
}

// TestMeasure_RowsWithoutNeighbours checks that rows with one document, and no rows, have no neighbours.
func TestMeasure_RowsWithoutNeighbours(t *testing.T) {
	documents := []relatedness.Document{{IDs: []int32{1, 2, 3}}}
	for name, f := range map[string]relatedness.Metrics{
		"no documents":       relatedness.Measure(nil, nil),
		"no rows":            relatedness.Measure(documents, nil),
		"a row of one":       relatedness.Measure(documents, [][]relatedness.Piece{whole(documents, 0)}),
		"rows without piece": relatedness.Measure(documents, [][]relatedness.Piece{nil, {}}),
	} {
		if fmt.Sprintf("%+v", f) != fmt.Sprintf("%+v", relatedness.Metrics{}) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// powerLaw returns two documents for a row whose tokens occur f times with probability f^-a / zeta(a).
func powerLaw(r *rand.Rand, a float64, distinct int) []relatedness.Document {
	documents := make([]relatedness.Document, 2)
	const most = 100_000
	sums := make([]float64, most+1)
	for f := 1; f <= most; f++ {
		sums[f] = sums[f-1] + math.Pow(float64(f), -a)
	}
	for id := range int32(distinct) {
		u := r.Float64() * sums[most]
		f := 1
		for sums[f] < u {
			f++
		}
		for range f {
			d := &documents[r.IntN(2)]
			d.IDs = append(d.IDs, id)
		}
	}
	return documents
}

// TestMeasure_ZipfExponents checks both estimators of power-law exponents. The approximation is accurate only from 2
// on; it is used because it decreases when rows are burstier.
func TestMeasure_ZipfExponents(t *testing.T) {
	before := 0.0
	for _, a := range []float64{1.6, 2, 2.5, 3} {
		r := rand.New(rand.NewPCG(uint64(100*a), 1))
		documents := powerLaw(r, a, 20_000)
		f := relatedness.Measure(documents, [][]relatedness.Piece{whole(documents, 0, 1), whole(documents, 1, 0)})
		near(t, fmt.Sprintf("exponent of %v by maximum likelihood", a), f.ZipfZeta.Mean, a, 0.03)
		if f.ZipfMLE.Mean <= before || f.ZipfMLE.Mean > a+0.01 {
			t.Errorf("exponent of %v is approximated by %v", a, f.ZipfMLE.Mean)
		}
		before = f.ZipfMLE.Mean
		near(t, "deviation of equal rows", f.ZipfMLE.Std+f.ZipfZeta.Std, 0, 1e-9)
		sum := 0.0
		for _, v := range f.Counts {
			sum += v
		}
		near(t, "shares of counts", sum, 1, 1e-9)
	}
	// computed by hand: of three tokens two occur once and one four times, 1 + 3 / (2 ln 2 + ln 8)
	documents := []relatedness.Document{{IDs: []int32{1, 2, 2}}, {IDs: []int32{3, 2, 2}}}
	f := relatedness.Measure(documents, [][]relatedness.Piece{whole(documents, 0, 1)})
	near(t, "exponent", f.ZipfMLE.Mean, 1+3/(2*math.Log(2)+math.Log(8)), 1e-12)
	if len(f.Counts) != 4 || math.Abs(f.Counts[0]-2./3) > 1e-12 || math.Abs(f.Counts[3]-1./3) > 1e-12 ||
		len(f.Zipfs) != 1 {
		t.Errorf("shares of counts %v, exponents %v", f.Counts, f.Zipfs)
	}
	// one token that is always repeated, and no repeated token
	same := []relatedness.Document{{IDs: make([]int32, 50_000)}, {IDs: make([]int32, 50_000)}}
	f = relatedness.Measure(same, [][]relatedness.Piece{whole(same, 0, 1)})
	if f.ZipfMLE.Mean > 1.1 || f.ZipfZeta.Mean > 1.1 || len(f.Counts) > 10_000 {
		t.Errorf("a token 100,000 times: exponents %v and %v, %d counts", f.ZipfMLE.Mean, f.ZipfZeta.Mean, len(f.Counts))
	}
	distinct := []relatedness.Document{{IDs: []int32{1, 2, 3}}, {IDs: []int32{4, 5}}}
	f = relatedness.Measure(distinct, [][]relatedness.Piece{whole(distinct, 0, 1)})
	near(t, "exponent of tokens that come once", f.ZipfMLE.Mean, 1+1/math.Log(2), 1e-12)
	near(t, "exponent by maximum likelihood of tokens that come once", f.ZipfZeta.Mean, 4, 1e-6)
}

// TestMeasure_ComparesWithLimitedWindow checks that a document is compared only with the 128 before it, so that the
// time for a row does not grow with the square of its number of documents.
func TestMeasure_ComparesWithLimitedWindow(t *testing.T) {
	const n = 60_000
	documents := make([]relatedness.Document, n)
	row := make([]relatedness.Piece, n)
	for i := range documents {
		documents[i].IDs = []int32{int32(i), int32(i)}
		row[i] = relatedness.Piece{Document: i, Length: 2}
	}
	documents[1128], documents[2129] = documents[1000], documents[2000]
	if f := relatedness.Measure(documents, [][]relatedness.Piece{row}); f.Neighbours != n-1 ||
		f.NearDuplicates != 1./(n-1) {
		t.Errorf("%d neighbours, %v near-duplicates", f.Neighbours, f.NearDuplicates*(n-1))
	}
}
