package forecast

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/shuffle"
)

// sample is a random sample of the remaining documents of a source, each at most once. It grows while it is used,
// which reduces its error.
//
// It is drawn in runs of consecutive documents of the stream; the start of each run is uniformly distributed. For one
// message, a server reads a whole block of up to 8 MiB and caches it for a while. Single documents would therefore
// read a block each: hundreds of megabytes and most of the processor at a start. As a drawback, consecutive documents
// may be similar, and a run then carries little more information than one document. The error is therefore computed
// over runs, not documents (estimateMean). For unrelated neighbours it is as small as that of the same number of single
// documents. For similar neighbours it is correspondingly larger.
//
// The sample records places in the order in which the run reads documents, so that documents read since can be left
// out.
type sample struct {
	epoch       uint64
	from, to    uint64 // range of places that it is drawn from
	documents   []sampledDocument
	runs        int
	drawnPlaces map[uint64]bool // places drawn, in [from, to)
	key         shuffle.Key
	unit        mixture.ShareUnit
}

// sampledDocument is a document of a sample.
type sampledDocument struct {
	place uint64
	run   int
	plan.Arrival
}

func newSample(seed uint64, unit mixture.ShareUnit, source int, epoch, from, to uint64) *sample {
	return &sample{epoch: epoch, from: from, to: to, drawnPlaces: map[uint64]bool{}, unit: unit,
		key: shuffle.NewKey(seed, fmt.Sprintf("sample of source %d from %d to %d", source, from, to))}
}

// covers reports whether the sample covers an epoch's places in [from, to), or is close enough: up to a tenth of the
// documents may have arrived since.
func (s *sample) covers(epoch, from, to uint64) bool {
	return s != nil && s.epoch == epoch && s.from <= from && from <= s.to && s.to <= to && to-s.to <= (to-from)/10
}

// removeBefore removes the documents before a place.
func (s *sample) removeBefore(place uint64) {
	s.from = max(s.from, place)
	s.documents = slices.DeleteFunc(s.documents, func(d sampledDocument) bool { return d.place < place })
	maps.DeleteFunc(s.drawnPlaces, func(p uint64, _ bool) bool { return p < place })
}

const (
	// minGrowthRuns is the minimum number of runs by which a sample grows at a time.
	minGrowthRuns = 16
	// maxRunDocuments bounds the documents of a run.
	maxRunDocuments = 64
	// maxFirstRun bounds the documents of the first run, when their size is still unknown.
	maxFirstRun = 8
)

// grow draws more documents until the sample has size documents, or the new ones have that many tokens. It reads the
// runs one after the other and calls rest after each, so that the server caches few blocks.
func (s *sample) grow(ctx context.Context, docs document.Documents, walk *mixture.EpochOrder, size int, tokens int64,
	rest func(context.Context) error) error {
	documents, share, read := min(max((size-len(s.documents))/minGrowthRuns, 1), maxRunDocuments), tokens/minGrowthRuns,
		int64(0)
	for read < tokens && len(s.documents) < size && len(s.drawnPlaces) < int(s.to-s.from) {
		n := min(documents, maxFirstRun)
		if mean := s.meanTokens(); mean > 0 {
			n = min(documents, max(int(float64(share)/mean), 1))
		}
		places := s.drawRun(walk, n)
		more, err := s.readDrawn(ctx, docs, places)
		if err != nil {
			return err
		}
		for _, d := range more {
			read += int64(d.Length)
		}
		for _, place := range places {
			s.drawnPlaces[place] = true // including those that cannot be read
		}
		s.documents = append(s.documents, more...)
		if err := rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// meanTokens returns the mean number of tokens of a stored document; 0 if none was drawn.
func (s *sample) meanTokens() float64 {
	sum := 0.0
	for i := range s.documents {
		sum += float64(s.documents[i].Length)
	}
	return sum / max(float64(len(s.documents)), 1)
}

// drawRun draws a run of at most n documents that are not in the sample yet; at least one such document must exist. It
// returns their places by sequence.
func (s *sample) drawRun(walk *mixture.EpochOrder, n int) map[uint64]uint64 {
	left := s.to - s.from
	start := s.from + uint64(s.key.IntN(uint64(s.runs), int(left)))
	for s.drawnPlaces[start] {
		if start++; start == s.to {
			start = s.from
		}
	}
	s.runs++
	places := make(map[uint64]uint64, n)
	first := walk.At(start)
	for sequence := first; sequence < first+uint64(n); sequence++ {
		if place, ok := walk.Index(sequence); ok && s.from <= place && place < s.to && !s.drawnPlaces[place] {
			places[sequence] = place
		}
	}
	return places
}

// readDrawn reads the run that was drawn last, as far as it is readable now.
func (s *sample) readDrawn(ctx context.Context, docs document.Documents,
	places map[uint64]uint64) (out []sampledDocument, err error) {
	var mu sync.Mutex
	err = docs.Refetch(ctx, slices.Sorted(maps.Keys(places)), func(d document.Document) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, sampledDocument{places[d.Sequence], s.runs, d.Arrival().WithoutUnusedLoss(s.unit)})
	})
	slices.SortFunc(out, func(a, b sampledDocument) int { return cmp.Compare(a.place, b.place) })
	return out, err
}

// documentsFrom returns the drawn documents from a place on.
func (s *sample) documentsFrom(place uint64) (out []sampledDocument) {
	for _, d := range s.documents {
		if d.place >= place {
			out = append(out, d)
		}
	}
	return out
}

// lossPart estimates the part of the used tokens that have a loss. Without used documents it is 1.
func (s *sample) lossPart(selection *plan.Selection) float64 {
	if s == nil || !s.unit.CountsLoss() {
		return 1
	}
	tokens, loss := 0.0, 0.0
	for i := range s.documents {
		tokens += float64(s.documents[i].UsedTokens(selection))
		loss += float64(s.documents[i].UsedLossTokens(selection))
	}
	if tokens == 0 {
		return 1
	}
	return loss / tokens
}

// estimateMean estimates the mean number of tokens per document from a sample of that many documents, and its standard
// error. Skipped documents count as zero tokens. The documents of a run must be adjacent in some. A few runs may be
// similar by chance, so the error is at least that of the same number of single documents.
func estimateMean(some []sampledDocument, of float64, s *plan.Selection) (mean, deviation float64) {
	n := float64(len(some))
	if n == 0 {
		return 0, 0
	}
	for i := range some {
		mean += float64(some[i].UsedTokens(s))
	}
	mean /= n
	// deviations from the mean: of single documents, and of whole runs
	runs, alone, together := 0.0, 0.0, 0.0
	for first, i := 0, 0; i < len(some); first = i {
		off := 0.0
		for ; i < len(some) && some[i].run == some[first].run; i++ {
			x := float64(some[i].UsedTokens(s)) - mean
			alone += x * x
			off += x
		}
		together += off * off
		runs++
	}
	unseen := math.Sqrt(max(1-n/of, 0)) // finite population correction: a complete sample has no error
	if runs < minVarianceRuns {
		return mean, mean * unseen
	}
	together *= runs / (runs - 3) // the variance of few runs is itself uncertain: Student's distribution
	return mean, math.Sqrt(max(together, alone)) / n * unseen
}

// minVarianceRuns is the minimum number of runs from which a variance is estimated.
const minVarianceRuns = 4
