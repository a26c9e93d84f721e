package packonline

import "loaderd/packonline/internal/bitset"

// bins packs pieces into bins of one capacity: each piece, longest first, goes into the bin that the fit chooses among
// those with room for it, or into a new one. It allocates nothing once its slices have grown.
//
//   - Best fit chooses the bin with the least room. Bins with equal room are interchangeable, so they are kept in one
//     queue for each
//     amount of room, and a set of the amounts in use finds the queue: O(log64 L) a piece.
//   - First fit chooses the bin that was opened first. Lengths come in descending order, so a bin that is too full for
//     one length may
//     take a later one, and a bin that has room for one has room for all that come until a piece goes into it. The bins
//     with room for
//     the length at hand are a set of their numbers, whose smallest is the choice; the others wait in the queue of
//     their room until
//     the lengths have come down to it: O(log64 N) a piece, for each piece moves one bin out of the set and back in at
//     most once.
//
// Ties: of equally long pieces the first one comes first, of bins with equal room the one that has had it longest.
type bins struct {
	capacity int32
	first    bool  // the fit
	all      []bin // in the order they were opened
	open     bitset.Set
	byRoom   []queue    // room -> bins that have it; meaningful for members of open
	ready    bitset.Set // first fit: bins with room for the length at hand

	lengths bitset.Set // capacity - length of the pieces to pack: longest first
	ends    []int32    // member of lengths -> end of its pieces in order; 0 for all others
	order   []int32    // rank -> piece: urgent ones, then by descending length
	link    []int32    // rank -> next one in the same bin
}

// bin is a row under construction. Its pieces are ranks in order: neighbours in rank are neighbours in memory, where
// pieces of neighbouring bins are looked for.
type bin struct {
	first, last int32 // of its pieces, in the order they went in
	oldest      int32 // smallest of its pieces, a number in the pool
	used        int32 // tokens
	behind      int32 // next bin with equal room
}

type queue struct{ first, last int32 }

const none = bitset.None

func newBins(capacity int32, first bool) *bins {
	n := int(capacity) + 1
	return &bins{
		capacity: capacity,
		first:    first,
		open:     bitset.New(n),
		byRoom:   make([]queue, n),
		ready:    bitset.New(1),
		lengths:  bitset.New(n),
		ends:     make([]int32, n),
	}
}

// pack fills s.all with the given pieces, all of which fit a bin. The first so many, urgent, go into bins before all
// others, in their order and by best fit. With a place for the pieces, sorted, it puts them there by rank, and the bins
// hold those: a large pool is then read from one end to the other and not at random.
func (s *bins) pack(pieces []waiting, urgent int, sorted []waiting) {
	for room := s.open.From(0); room != none; room = s.open.From(room) {
		s.open.Remove(room)
	}
	s.all = s.all[:0]
	s.sort(pieces, urgent, sorted)
	if s.first && len(pieces) > s.ready.Size() {
		s.ready = bitset.New(2 * len(pieces))
	}
	rank := int32(urgent)
	for r := range rank {
		s.bestFit(r, r+1, pieces[r].length)
	}
	for x := s.lengths.From(0); x != none; x = s.lengths.From(x) {
		end := s.ends[x]
		s.lengths.Remove(x)
		s.ends[x] = 0
		if s.first {
			s.firstFit(rank, end, s.capacity-x)
		} else {
			s.bestFit(rank, end, s.capacity-x)
		}
		rank = end
	}
	for n := s.ready.From(0); n != none; n = s.ready.From(n) {
		s.ready.Remove(n)
		s.queue(n)
	}
}

// sort ranks the urgent pieces first, in their order, and the others by descending length, equally long ones in their
// order: a counting sort that touches only lengths in use.
func (s *bins) sort(pieces []waiting, urgent int, sorted []waiting) {
	s.order, s.link = resize(s.order, len(pieces)), resize(s.link, len(pieces))
	for i := range urgent {
		s.order[i] = int32(i)
	}
	for i := urgent; i < len(pieces); i++ {
		x := s.capacity - pieces[i].length
		if s.ends[x] == 0 {
			s.lengths.Add(x)
		}
		s.ends[x]++
	}
	end := int32(urgent)
	var tokens int64
	for x := s.lengths.From(0); x != none; x = s.lengths.From(x + 1) {
		tokens += int64(s.ends[x]) * int64(s.capacity-x)
		s.ends[x], end = end, end+s.ends[x]
	}
	if bins := int(tokens/int64(s.capacity)) + 1; bins > cap(s.all) { // at least; few inputs need many more
		s.all = make([]bin, 0, bins+bins/8)
	}
	for i := urgent; i < len(pieces); i++ {
		rank := &s.ends[s.capacity-pieces[i].length]
		if sorted == nil {
			s.order[*rank] = int32(i)
		} else {
			s.order[*rank] = *rank
			sorted[*rank] = pieces[i]
		}
		*rank++
	}
}

func resize(s []int32, n int) []int32 {
	if n > cap(s) {
		return make([]int32, n, n+n/8)
	}
	return s[:n]
}

// bestFit puts the pieces of ranks [from, to), all of one length, where there is the least room.
func (s *bins) bestFit(from, to, length int32) {
	for r := from; r < to; r++ {
		room := s.open.From(length)
		if room == none {
			s.queue(s.newBin(r, length))
			continue
		}
		n := s.byRoom[room].first
		b := s.put(n, r, length)
		if b.behind == none {
			s.open.Remove(room)
		} else {
			s.byRoom[room].first = b.behind
		}
		s.queue(n)
	}
}

// firstFit puts the pieces of ranks [from, to), all of one length, into the first bins with room.
func (s *bins) firstFit(from, to, length int32) {
	for room := s.open.From(length); room != none; room = s.open.From(room) {
		s.open.Remove(room)
		for n := s.byRoom[room].first; n != none; n = s.all[n].behind {
			s.ready.Add(n)
		}
	}
	n := int32(0) // a piece as long as the one before finds no room before that one's bin
	for r := from; r < to; r++ {
		if n = s.ready.From(n); n == none {
			n = s.newBin(r, length)
			s.ready.Add(n)
		} else {
			s.put(n, r, length)
		}
		if s.capacity-s.all[n].used < length {
			s.ready.Remove(n)
			s.queue(n)
		}
	}
}

// newBin opens a bin with the piece of rank r.
func (s *bins) newBin(r, length int32) int32 {
	s.link[r] = none
	s.all = append(s.all, bin{r, r, s.order[r], length, none})
	return int32(len(s.all) - 1)
}

// put puts the piece of rank r into bin n.
func (s *bins) put(n, r, length int32) *bin {
	b := &s.all[n]
	s.link[r] = none
	s.link[b.last] = r
	b.last, b.oldest, b.used = r, min(b.oldest, s.order[r]), b.used+length
	return b
}

// queue appends bin n to those of its room, unless it has none.
func (s *bins) queue(n int32) {
	b := &s.all[n]
	b.behind = none
	room := s.capacity - b.used
	switch {
	case room == 0:
	case s.open.Has(room):
		s.all[s.byRoom[room].last].behind = n
		s.byRoom[room].last = n
	default:
		s.open.Add(room)
		s.byRoom[room] = queue{n, n}
	}
}

// fullest returns the bin with the least room among those with at least that much, nil without one.
func (s *bins) fullest(least int32) *bin {
	if room := s.open.From(least); room != none {
		return &s.all[s.byRoom[room].first]
	}
	return nil
}

// next returns the bin that follows b in ascending order of room, nil behind the last.
func (s *bins) next(b *bin) *bin {
	if b.behind != none {
		return &s.all[b.behind]
	}
	return s.fullest(s.capacity - b.used + 1)
}
