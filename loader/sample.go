package loader

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/shuffle"
)

// sample are some of the documents of a source that are left, drawn with equal chances and each once. It grows while it is used: what it says becomes better.
//
// It goes by places in the order in which the run takes documents, so that those that were taken since can be left out.
type sample struct {
	epoch    uint64
	from, to uint64 // places that it is drawn of
	drawn    []drawn
	places   map[uint64]bool // of all that were drawn
	key      shuffle.Key
	draws    uint64
}

// drawn is a document of a sample.
type drawn struct {
	place uint64
	plan.Arrival
}

func newSample(seed uint64, source int, epoch, from, to uint64) *sample {
	return &sample{epoch: epoch, from: from, to: to, places: map[uint64]bool{}, key: shuffle.NewKey(seed, fmt.Sprintf("sample of source %d from %d to %d", source, from, to))}
}

// serves reports whether a sample is one of the places from one on to another of an epoch, or may stand for it: documents that came since may be a tenth.
func (s *sample) serves(epoch, from, to uint64) bool {
	return s != nil && s.epoch == epoch && s.from <= from && s.to <= to && (to-from)-(s.to-min(from, s.to)) <= (to-from)/10
}

// taken leaves out the documents before a place.
func (s *sample) taken(place uint64) {
	s.from = max(s.from, place)
	s.drawn = slices.DeleteFunc(s.drawn, func(d drawn) bool { return d.place < place })
}

// whole reports whether every document is in the sample.
func (s *sample) whole() bool { return uint64(len(s.drawn)) >= s.to-s.from }

// grow draws more documents until there are so many.
func (s *sample) grow(ctx context.Context, docs Documents, walk *mixture.Walk, size int) error {
	var places []uint64
	left := s.to - s.from
	if left <= uint64(size) {
		for place := s.from; place < s.to; place++ {
			if !s.places[place] {
				places = append(places, place)
			}
		}
	} else {
		for want := size - len(s.drawn); want > 0 && s.draws < 1<<32; s.draws++ {
			place := s.from + uint64(s.key.Below(s.draws, int(left)))
			if !s.places[place] {
				places, want = append(places, place), want-1
				s.places[place] = true
			}
		}
		for _, place := range places {
			delete(s.places, place) // until it is read
		}
	}
	return s.read(ctx, docs, walk, places)
}

// read reads the documents at some places.
func (s *sample) read(ctx context.Context, docs Documents, walk *mixture.Walk, places []uint64) error {
	slices.Sort(places)
	at := map[uint64]uint64{} // places by sequence
	for _, place := range places {
		at[walk.At(place)] = place
	}
	var mu sync.Mutex
	var more []drawn
	err := docs.Again(ctx, sortedKeys(at), func(d Document) {
		mu.Lock()
		defer mu.Unlock()
		more = append(more, drawn{at[d.Sequence], d.arrival()})
	})
	for _, d := range more {
		s.places[d.place] = true
	}
	slices.SortFunc(more, func(a, b drawn) int { // in no order of the stream
		x, y := s.key.Uint64(1<<63|a.place), s.key.Uint64(1<<63|b.place)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	s.drawn = append(s.drawn, more...)
	return err
}

func sortedKeys(m map[uint64]uint64) []uint64 {
	out := make([]uint64, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// mean returns the mean of the tokens that a document gives, and its standard error. Documents that are left out give none.
func (s *sample) mean(c mixture.Source) (mean, deviation float64) {
	n := float64(len(s.drawn))
	if n == 0 {
		return 0, 0
	}
	sum, squares := 0.0, 0.0
	for i := range s.drawn {
		x := float64(s.drawn[i].Used(c))
		sum += x
		squares += x * x
	}
	mean = sum / n
	if n < 2 {
		return mean, mean
	}
	variance := max(squares-n*mean*mean, 0) / (n - 1)
	unseen := max(1-n/float64(s.to-s.from), 0) // of a sample of all documents nothing is in doubt
	return mean, math.Sqrt(variance / n * unseen)
}
