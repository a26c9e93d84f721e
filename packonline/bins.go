package packonline

import "loaderd/packonline/internal/bitset"

// bins packs pieces into bins of one capacity. The pieces are packed in descending order of length. Each is put into
// the bin that the fit chooses among those with room for it, or into a new bin. No memory is allocated once the
// slices have grown.
//
//   - Best fit chooses the bin with the least room. Bins with equal room are interchangeable, so each amount of room
//     has one queue of bins. A set of the amounts in use finds the queue: O(log64 L) per piece.
//   - First fit chooses the bin that was opened first. Lengths are in descending order. So a bin that is too full for
//     one length may have room for a later one. A bin that has room for one length has room for all later ones until
//     a piece is put into it. The bins with room for the current length are a set of their numbers, and its smallest
//     member is the choice. The other bins stay in the queue of their room until the lengths have decreased to it.
//     This costs O(log64 N) per piece, because each piece removes at most one bin from the set and adds it again.
//
// Ties: of equally long pieces the first one is packed first. Of bins with equal room, the one that has had that room
// longest is chosen.
type bins struct {
	capacity    int32
	useFirstFit bool    // first fit instead of best fit
	maxPieces   int32   // of a bin; 0 for no bound
	all         []bin   // in the order in which they were opened
	complete    []int32 // bins with room that have maxPieces; in no queue until all pieces are packed
	open        bitset.Set
	byRoom      []queue    // room -> bins that have it; only valid for members of open
	candidates  bitset.Set // first fit: bins with room for the current length

	lengths  bitset.Set // capacity - length of the pieces to pack: longest first
	rankEnds []int32    // member of lengths -> end of its pieces in order; 0 for all other lengths
	order    []int32    // rank -> piece: urgent pieces, then by descending length
	nextRank []int32    // rank -> next piece in the same bin
}

// bin is a row under construction. Its pieces are ranks in order. Pieces of neighbouring ranks are adjacent in
// memory, which makes access to the pieces of neighbouring bins local.
type bin struct {
	first, last int32 // first and last piece, in the order of insertion
	oldest      int32 // smallest of its pieces' numbers in the pool
	used        int32 // tokens
	pieces      int32
	nextBin     int32 // next bin with equal room
}

type queue struct{ first, last int32 }

const none = bitset.None

func newBins(capacity int32, first bool, maxPieces int) *bins {
	n := int(capacity) + 1
	return &bins{
		capacity:    capacity,
		maxPieces:   int32(maxPieces),
		useFirstFit: first,
		open:        bitset.New(n),
		byRoom:      make([]queue, n),
		candidates:  bitset.New(1),
		lengths:     bitset.New(n),
		rankEnds:    make([]int32, n),
	}
}

// pack fills s.all with the given pieces, each of which must fit into a bin. The first urgent pieces are put into
// bins before all others, in their order and by best fit. If sorted is not nil, it receives the pieces by rank and
// the bins refer to it. Then a large pool is read sequentially instead of at random.
func (s *bins) pack(pieces []bufferedPiece, urgent int, sorted []bufferedPiece) {
	for room := s.open.From(0); room != none; room = s.open.From(room) {
		s.open.Remove(room)
	}
	s.all, s.complete = s.all[:0], s.complete[:0]
	s.sortByLength(pieces, urgent, sorted)
	if s.useFirstFit && len(pieces) > s.candidates.Size() {
		s.candidates = bitset.New(2 * len(pieces))
	}
	rank := int32(urgent)
	for r := range rank {
		s.packBestFit(r, r+1, pieces[r].length)
	}
	for x := s.lengths.From(0); x != none; x = s.lengths.From(x) {
		end := s.rankEnds[x]
		s.lengths.Remove(x)
		s.rankEnds[x] = 0
		if s.useFirstFit {
			s.packFirstFit(rank, end, s.capacity-x)
		} else {
			s.packBestFit(rank, end, s.capacity-x)
		}
		rank = end
	}
	for n := s.candidates.From(0); n != none; n = s.candidates.From(n) {
		s.candidates.Remove(n)
		s.enqueue(n)
	}
	for _, n := range s.complete {
		s.appendToQueue(n)
	}
}

// sortByLength assigns the first ranks to the urgent pieces, in their order. The other pieces follow by descending
// length, equally long ones in their order. It is a counting sort that only visits lengths in use.
func (s *bins) sortByLength(pieces []bufferedPiece, urgent int, sorted []bufferedPiece) {
	s.order, s.nextRank = resize(s.order, len(pieces)), resize(s.nextRank, len(pieces))
	for i := range urgent {
		s.order[i] = int32(i)
	}
	for i := urgent; i < len(pieces); i++ {
		x := s.capacity - pieces[i].length
		if s.rankEnds[x] == 0 {
			s.lengths.Add(x)
		}
		s.rankEnds[x]++
	}
	end := int32(urgent)
	var tokens int64
	for x := s.lengths.From(0); x != none; x = s.lengths.From(x + 1) {
		tokens += int64(s.rankEnds[x]) * int64(s.capacity-x)
		s.rankEnds[x], end = end, end+s.rankEnds[x]
	}
	if bins := int(tokens/int64(s.capacity)) + 1; bins > cap(s.all) { // lower bound; few inputs need many more
		s.all = make([]bin, 0, bins+bins/8)
	}
	for i := urgent; i < len(pieces); i++ {
		rank := &s.rankEnds[s.capacity-pieces[i].length]
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

// packBestFit puts the pieces of ranks [from, to), all of the given length, into the bins with the least sufficient
// room.
func (s *bins) packBestFit(from, to, length int32) {
	for r := from; r < to; r++ {
		room := s.open.From(length)
		if room == none {
			s.enqueue(s.newBin(r, length))
			continue
		}
		n := s.byRoom[room].first
		b := s.putPiece(n, r, length)
		if b.nextBin == none {
			s.open.Remove(room)
		} else {
			s.byRoom[room].first = b.nextBin
		}
		s.enqueue(n)
	}
}

// packFirstFit puts the pieces of ranks [from, to), all of the given length, into the first bins with room.
func (s *bins) packFirstFit(from, to, length int32) {
	for room := s.open.From(length); room != none; room = s.open.From(room) {
		s.open.Remove(room)
		for n := s.byRoom[room].first; n != none; n = s.all[n].nextBin {
			s.candidates.Add(n)
		}
	}
	n := int32(0) // a piece as long as the one before cannot fit into a bin before that one's
	for r := from; r < to; r++ {
		if n = s.candidates.From(n); n == none {
			n = s.newBin(r, length)
			s.candidates.Add(n)
		} else {
			s.putPiece(n, r, length)
		}
		if s.capacity-s.all[n].used < length || s.isComplete(n) {
			s.candidates.Remove(n)
			s.enqueue(n)
		}
	}
}

// newBin opens a bin with the piece of rank r.
func (s *bins) newBin(r, length int32) int32 {
	s.nextRank[r] = none
	s.all = append(s.all, bin{r, r, s.order[r], length, 1, none})
	return int32(len(s.all) - 1)
}

// putPiece puts the piece of rank r into bin n.
func (s *bins) putPiece(n, r, length int32) *bin {
	b := &s.all[n]
	s.nextRank[r] = none
	s.nextRank[b.last] = r
	b.last, b.oldest, b.used, b.pieces = r, min(b.oldest, s.order[r]), b.used+length, b.pieces+1
	return b
}

// isComplete reports whether bin n has the maximum number of pieces.
func (s *bins) isComplete(n int32) bool { return s.all[n].pieces == s.maxPieces }

// enqueue appends bin n to the queue of its room, unless it is full or complete.
func (s *bins) enqueue(n int32) {
	if s.isComplete(n) {
		s.complete = append(s.complete, n)
		return
	}
	s.appendToQueue(n)
}

// appendToQueue appends bin n to the queue of its room, unless it is full.
func (s *bins) appendToQueue(n int32) {
	b := &s.all[n]
	b.nextBin = none
	room := s.capacity - b.used
	switch {
	case room == 0:
	case s.open.Has(room):
		s.all[s.byRoom[room].last].nextBin = n
		s.byRoom[room].last = n
	default:
		s.open.Add(room)
		s.byRoom[room] = queue{n, n}
	}
}

// fullestBin returns the bin with the least room that is at least the given amount, or nil.
func (s *bins) fullestBin(least int32) *bin {
	if room := s.open.From(least); room != none {
		return &s.all[s.byRoom[room].first]
	}
	return nil
}

// nextFullest returns the bin after b in ascending order of room, or nil after the last one.
func (s *bins) nextFullest(b *bin) *bin {
	if b.nextBin != none {
		return &s.all[b.nextBin]
	}
	return s.fullestBin(s.capacity - b.used + 1)
}
