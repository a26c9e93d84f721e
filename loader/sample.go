package loader

import (
	"cmp"
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
	return s != nil && s.epoch == epoch && s.from <= from && from <= s.to && s.to <= to && to-s.to <= (to-from)/10
}

// taken leaves out the documents before a place.
func (s *sample) taken(place uint64) {
	s.from = max(s.from, place)
	s.drawn = slices.DeleteFunc(s.drawn, func(d drawn) bool { return d.place < place })
}

const (
	// sampledFirst is how many documents of a sample are drawn at first; then so many times as many as there are.
	sampledFirst = 64
	sampledTimes = 8
	// sampledTogether is how many of them are read at a time.
	sampledTogether = 16
)

// grow draws more documents until there are so many, or those that came have about so many tokens. They are read in the order of the stream: a server
// that gets one of its documents reads all that lie in one file with it, megabytes, and anew for the next one of another file. It rests between two reads.
func (s *sample) grow(ctx context.Context, docs Documents, walk *mixture.Walk, size int, tokens int64, rest func(context.Context) error) error {
	places := s.draw(size)
	slices.Sort(places)
	sequences := map[uint64]uint64{} // by place
	for _, place := range places {
		sequences[place] = walk.At(place)
	}
	slices.SortFunc(places, s.order)
	for len(places) > 0 && tokens > 0 {
		n := min(s.together(tokens), len(places))
		slices.SortFunc(places[:n], func(a, b uint64) int { return cmp.Compare(sequences[a], sequences[b]) })
		var more []drawn
		for part := range slices.Chunk(places[:n], sampledTogether) {
			some, err := read(ctx, docs, part, sequences)
			if err != nil {
				return err
			}
			more = append(more, some...)
			if err := rest(ctx); err != nil {
				return err
			}
		}
		slices.SortFunc(more, func(a, b drawn) int { return s.order(a.place, b.place) })
		for _, d := range more {
			s.places[d.place] = true
			tokens -= int64(d.Length)
		}
		s.drawn = append(s.drawn, more...)
		places = places[n:]
	}
	return nil
}

// together returns how many documents to draw at a time: so many as have the tokens, by the mean of those that there are.
func (s *sample) together(tokens int64) int {
	sum := int64(0)
	for _, d := range s.drawn {
		sum += int64(d.Length)
	}
	if sum == 0 {
		return sampledFirst
	}
	n := float64(tokens) / float64(sum) * float64(len(s.drawn))
	return int(min(max(n, sampledFirst), float64(sampledTimes*len(s.drawn))))
}

// order orders places by a draw, and so in no order of the stream.
func (s *sample) order(a, b uint64) int {
	return cmp.Compare(s.key.Uint64(1<<63|a), s.key.Uint64(1<<63|b))
}

// draw draws places that are not in the sample, until it has so many.
func (s *sample) draw(size int) (places []uint64) {
	left := s.to - s.from
	if left <= uint64(size) {
		for place := s.from; place < s.to; place++ {
			if !s.places[place] {
				places = append(places, place)
			}
		}
		return places
	}
	now := map[uint64]bool{}
	for ; len(s.drawn)+len(places) < size && s.draws < 1<<32; s.draws++ {
		place := s.from + uint64(s.key.Below(s.draws, int(left)))
		if !s.places[place] && !now[place] {
			places, now[place] = append(places, place), true
		}
	}
	return places
}

// read reads the documents at some places, as far as they can be read now.
func read(ctx context.Context, docs Documents, places []uint64, sequences map[uint64]uint64) (out []drawn, err error) {
	at := map[uint64]uint64{} // places by sequence
	for _, place := range places {
		at[sequences[place]] = place
	}
	var mu sync.Mutex
	err = docs.Again(ctx, sortedKeys(at), func(d Document) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, drawn{at[d.Sequence], d.arrival().Lengths()})
	})
	return out, err
}

func sortedKeys(m map[uint64]uint64) []uint64 {
	out := make([]uint64, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
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

// meanOf returns the mean of the tokens that a document gives, of so many of which some are drawn, and its standard error. Documents that are left out give
// none.
func meanOf(some []drawn, of float64, c mixture.Source) (mean, deviation float64) {
	n := float64(len(some))
	if n == 0 {
		return 0, 0
	}
	sum, squares := 0.0, 0.0
	for i := range some {
		x := float64(some[i].Used(c))
		sum += x
		squares += x * x
	}
	mean = sum / n
	if n < 2 {
		return mean, mean
	}
	variance := max(squares-n*mean*mean, 0) / (n - 1)
	unseen := max(1-n/of, 0) // of a sample of all documents nothing is in doubt
	return mean, math.Sqrt(variance / n * unseen)
}
