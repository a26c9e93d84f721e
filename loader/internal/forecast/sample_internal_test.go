package forecast

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/testscale"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// shelved holds documents of given lengths, the first with sequence 1. It records which documents are read together.
type shelved struct {
	document.Documents
	lengths []int
	asked   [][]uint64
	rests   int
}

func (s *shelved) Refetch(_ context.Context, sequences []uint64, f func(document.Document)) error {
	s.asked = append(s.asked, sequences)
	for _, x := range sequences {
		f(document.Document{Sequence: x, Content: document.Content{Tokens: make([]int32, s.lengths[x-1])}})
	}
	return nil
}

// alike returns lengths that are similar in groups of together neighbours, and their mean.
func alike(draw *rand.Rand, n, together int) (lengths []int, mean float64) {
	factor := 0.0
	for i := range n {
		if i%together == 0 {
			factor = math.Exp(draw.NormFloat64() * 0.7)
		}
		lengths = append(lengths, 1+int(factor*40*math.Exp(draw.NormFloat64()*0.5)))
		mean += float64(lengths[i]) / float64(n)
	}
	return lengths, mean
}

// drawOf draws a sample of up to size documents.
func drawOf(t *testing.T, docs *shelved, walk *mixture.EpochOrder, seed uint64, size int, tokens int64) *sample {
	t.Helper()
	s := newSample(seed, mixture.ShareTokens, 0, 0, 0, walk.Len())
	if err := s.grow(t.Context(), docs, walk, size, tokens, func(context.Context) error {
		docs.rests++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// walks returns orders in which a source may be read.
func walks(n int) map[string]*mixture.EpochOrder {
	return map[string]*mixture.EpochOrder{
		"in order": mixture.NewEpochOrder(0, "", mixture.Source{}, mixture.SourceRange{First: 1}, uint64(n), 0),
		"drawn": mixture.NewEpochOrder(7, "web", mixture.Source{Block: mixture.DefaultBlock},
			mixture.SourceRange{First: 1, Sealed: true}, uint64(n), 0),
	}
}

// The standard error of a sample is correct even if neighbouring documents are similar: in 19 of 20 cases, the true
// mean is within two standard errors.
func TestSample_ErrorHoldsForSimilarNeighbours(t *testing.T) {
	const n = 20_000
	seeds := testscale.Of(60, 200)
	for name, walk := range walks(n) {
		for _, together := range []int{1, 100} {
			missed := 0
			for seed := range uint64(seeds) {
				lengths, truth := alike(rand.New(rand.NewPCG(seed, 1)), n, together)
				s := drawOf(t, &shelved{lengths: lengths}, walk, seed, 1024, 4<<20)
				mean, off := estimateMean(s.documents, n, &plan.Selection{})
				if math.Abs(mean-truth) > 2*off {
					missed++
				}
			}
			if missed > seeds/8 {
				t.Errorf("%s, %d alike: the truth is further off than two standard errors in %d of %d cases", name, together,
					missed, seeds)
			}
		}
	}
}

// A sample is read in few runs of neighbours, and has every document at most once.
func TestSample_ReadsFewRunsOfNeighbours(t *testing.T) {
	lengths, _ := alike(rand.New(rand.NewPCG(1, 1)), 20_000, 1)
	for name, walk := range walks(len(lengths)) {
		docs := &shelved{lengths: lengths}
		s := drawOf(t, docs, walk, 1, 1024, 4<<20)
		for _, run := range docs.asked {
			if reach := run[len(run)-1] - run[0]; reach >= maxRunDocuments {
				t.Errorf("%s: a run reaches over %d documents", name, reach+1)
			}
		}
		if len(docs.asked) > 2*minGrowthRuns || docs.rests != len(docs.asked) {
			t.Errorf("%s: %d runs of %d documents, %d rests", name, len(docs.asked), len(s.documents), docs.rests)
		}
		all := slices.Concat(docs.asked...)
		slices.Sort(all)
		if once := slices.Compact(slices.Clone(all)); len(once) != len(all) || len(all) != len(s.documents) ||
			len(all) < 1024 {
			t.Errorf("%s: of %d documents that were read %d are in the sample, %d different ones", name, len(all),
				len(s.documents), len(once))
		}
		for _, d := range s.documents {
			if d.Length != lengths[walk.At(d.place)-1] {
				t.Fatalf("%s: at place %d is a document of %d tokens, and not the one drawn", name, d.place, d.Length)
			}
		}
	}
}

// A sample of few documents has all of them and no error. A sample of large documents is bounded in tokens and has
// short runs.
func TestSample_BoundedInTokens(t *testing.T) {
	lengths, truth := alike(rand.New(rand.NewPCG(1, 1)), 700, 10)
	walk := walks(len(lengths))["in order"]
	s := drawOf(t, &shelved{lengths: lengths}, walk, 1, 1024, 4<<20)
	if mean, off := estimateMean(s.documents, 700, &plan.Selection{}); len(s.documents) != 700 ||
		math.Abs(mean-truth) > 1e-6 ||
		off != 0 {
		t.Errorf("of 700 documents %d are drawn; their mean is %v±%v, and it is %v", len(s.documents), mean, off, truth)
	}
	large := &shelved{lengths: slices.Repeat([]int{10_000}, 20_000)}
	s = drawOf(t, large, walks(20_000)["in order"], 1, 1024, 1<<20)
	if len(large.asked) < minGrowthRuns || len(s.documents) > 120 {
		t.Errorf("%d documents of 10,000 tokens are drawn in %d runs", len(s.documents), len(large.asked))
	}
}
