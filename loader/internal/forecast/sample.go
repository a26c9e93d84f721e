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

// sample are some of the documents of a source that are left, each once. It grows while it is used: what it says
// becomes better.
//
// It is drawn in runs of documents that lie side by side in the stream; where they begin is drawn with equal chances. A
// server reads a whole block of messages, up to 8 MiB, for one of them, and holds it for a while: as many documents by
// themselves take a block each, and so hundreds of megabytes and most of the processor at a start. The price: documents
// that lie side by side may be alike, and then a run says little more than one of them. So the error is reckoned by
// runs, not by documents (meanOf): where neighbours have nothing in common it is as small as that of as many documents
// by themselves, and where they are alike it is as large as it has to be.
//
// It goes by places in the order in which the run takes documents, so that those that were taken since can be left out.
type sample struct {
	epoch    uint64
	from, to uint64 // places that it is drawn of
	drawn    []drawn
	runs     int
	places   map[uint64]bool // from ... to-1 that were drawn
	key      shuffle.Key
}

// drawn is a document of a sample.
type drawn struct {
	place uint64
	run   int
	plan.Arrival
}

func newSample(seed uint64, source int, epoch, from, to uint64) *sample {
	return &sample{epoch: epoch, from: from, to: to, places: map[uint64]bool{},
		key: shuffle.NewKey(seed, fmt.Sprintf("sample of source %d from %d to %d", source, from, to))}
}

// serves reports whether a sample is one of the places from one on to another of an epoch, or may stand for it:
// documents that came since may be a tenth.
func (s *sample) serves(epoch, from, to uint64) bool {
	return s != nil && s.epoch == epoch && s.from <= from && from <= s.to && s.to <= to && to-s.to <= (to-from)/10
}

// taken leaves out the documents before a place.
func (s *sample) taken(place uint64) {
	s.from = max(s.from, place)
	s.drawn = slices.DeleteFunc(s.drawn, func(d drawn) bool { return d.place < place })
	maps.DeleteFunc(s.places, func(p uint64, _ bool) bool { return p < place })
}

const (
	// growsRuns is how many runs a sample grows by at a time, at the least.
	growsRuns = 16
	// runDocuments bounds the documents of a run ...
	runDocuments = 64
	// ... and firstRun those of the first one: how large they are is not known yet.
	firstRun = 8
)

// grow draws more documents until there are so many, or those that came have so many tokens. It reads one run after the
// other and rests behind each: the server holds few blocks.
func (s *sample) grow(ctx context.Context, docs document.Documents, walk *mixture.Walk, size int, tokens int64,
	rest func(context.Context) error) error {
	documents, share, read := min(max((size-len(s.drawn))/growsRuns, 1), runDocuments), tokens/growsRuns, int64(0)
	for read < tokens && len(s.drawn) < size && len(s.places) < int(s.to-s.from) {
		n := min(documents, firstRun)
		if mean := s.mean(); mean > 0 {
			n = min(documents, max(int(float64(share)/mean), 1))
		}
		places := s.draw(walk, n)
		more, err := s.read(ctx, docs, places)
		if err != nil {
			return err
		}
		for _, d := range more {
			read += int64(d.Length)
		}
		for _, place := range places {
			s.places[place] = true // also of those that cannot be read
		}
		s.drawn = append(s.drawn, more...)
		if err := rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mean returns the mean of the tokens of a document as it is stored, 0 where none was drawn.
func (s *sample) mean() float64 {
	sum := 0.0
	for i := range s.drawn {
		sum += float64(s.drawn[i].Length)
	}
	return sum / max(float64(len(s.drawn)), 1)
}

// draw draws a run of at most n documents that are not in the sample, of which there must be some. It returns their
// places by their sequences.
func (s *sample) draw(walk *mixture.Walk, n int) map[uint64]uint64 {
	left := s.to - s.from
	start := s.from + uint64(s.key.Below(uint64(s.runs), int(left)))
	for s.places[start] {
		if start++; start == s.to {
			start = s.from
		}
	}
	s.runs++
	places := make(map[uint64]uint64, n)
	first := walk.At(start)
	for sequence := first; sequence < first+uint64(n); sequence++ {
		if place, ok := walk.Place(sequence); ok && s.from <= place && place < s.to && !s.places[place] {
			places[sequence] = place
		}
	}
	return places
}

// read reads the run that was drawn last, as far as it can be read now.
func (s *sample) read(ctx context.Context, docs document.Documents, places map[uint64]uint64) (out []drawn, err error) {
	var mu sync.Mutex
	err = docs.Again(ctx, slices.Sorted(maps.Keys(places)), func(d document.Document) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, drawn{places[d.Sequence], s.runs, d.Arrival().Lengths()})
	})
	slices.SortFunc(out, func(a, b drawn) int { return cmp.Compare(a.place, b.place) })
	return out, err
}

// behind returns the documents from a place on.
func (s *sample) behind(place uint64) (out []drawn) {
	for _, d := range s.drawn {
		if d.place >= place {
			out = append(out, d)
		}
	}
	return out
}

// meanOf returns the mean of the tokens that a document gives, of so many of which some are drawn, and its standard
// error. Documents that are left out give none. Those of a run stand side by side. Few runs may be like each other by
// chance: the error is no smaller than that of as many documents by themselves.
func meanOf(some []drawn, of float64, c mixture.Source) (mean, deviation float64) {
	n := float64(len(some))
	if n == 0 {
		return 0, 0
	}
	for i := range some {
		mean += float64(some[i].Used(c))
	}
	mean /= n
	// how far the tokens of documents, and those of runs, are from what the mean says
	runs, alone, together := 0.0, 0.0, 0.0
	for first, i := 0, 0; i < len(some); first = i {
		off := 0.0
		for ; i < len(some) && some[i].run == some[first].run; i++ {
			x := float64(some[i].Used(c)) - mean
			alone += x * x
			off += x
		}
		together += off * off
		runs++
	}
	unseen := math.Sqrt(max(1-n/of, 0)) // of a sample of all documents nothing is in doubt
	if runs < leastRuns {
		return mean, mean * unseen
	}
	together *= runs / (runs - 3) // of few runs it is in doubt how unlike they are: Student's distribution
	return mean, math.Sqrt(max(together, alone)) / n * unseen
}

// leastRuns are enough runs to say how unlike they are.
const leastRuns = 4
