package packonline

// bins packs pieces into bins of one capacity by best-fit-decreasing: each piece, longest first, goes into the bin with the least
// room that still holds it. Bins with equal room are interchangeable, so they are kept in one list for each amount of room and a
// set of the amounts in use finds the list: O(log64 L) a piece. It allocates nothing once its slices have grown.
//
// Ties: of equally long pieces the first one comes first, of bins with equal room the one that has had it longest.
type bins struct {
	capacity int32
	all      []bin // in the order they were opened
	open     bitset
	byRoom   []queue // room -> bins that have it; meaningful for members of open

	lengths  bitset  // capacity - length of the pieces to pack: longest first
	byLength []int32 // member of lengths -> first such piece
	link     []int32 // piece -> next one in the same list of byLength, then in the same bin
}

// bin is a row under construction. Pieces are indexes.
type bin struct {
	first, last int32 // of its pieces, in the order they went in
	oldest      int32 // smallest of its pieces
	used        int32 // tokens
	behind      int32 // next bin with equal room
}

type queue struct{ first, last int32 }

const none = -1

func newBins(capacity int32) *bins {
	n := int(capacity) + 1
	return &bins{
		capacity: capacity,
		open:     newBitset(n),
		byRoom:   make([]queue, n),
		lengths:  newBitset(n),
		byLength: make([]int32, n),
	}
}

// pack fills s.all with the given pieces, all of which fit a bin.
func (s *bins) pack(pieces []waiting) {
	for room := s.open.from(0); room != none; room = s.open.from(room) {
		s.open.remove(room)
	}
	s.all = s.all[:0]
	s.sort(pieces)
	for x := s.lengths.from(0); x != none; x = s.lengths.from(x) {
		s.lengths.remove(x)
		length := s.capacity - x
		for i := s.byLength[x]; i != none; {
			next := s.link[i]
			s.put(i, length)
			i = next
		}
	}
}

// sort lists the pieces by length. Going backwards leaves each list in the order of the pieces.
func (s *bins) sort(pieces []waiting) {
	if len(pieces) > cap(s.link) {
		s.link = make([]int32, 2*len(pieces))
	}
	s.link = s.link[:len(pieces)]
	for i := len(pieces) - 1; i >= 0; i-- {
		x := s.capacity - pieces[i].length
		if s.lengths.has(x) {
			s.link[i] = s.byLength[x]
		} else {
			s.link[i] = none
			s.lengths.add(x)
		}
		s.byLength[x] = int32(i)
	}
}

// put puts piece i into the best bin.
func (s *bins) put(i, length int32) {
	s.link[i] = none
	var n int32
	room := s.open.from(length)
	if room == none {
		n, room = int32(len(s.all)), s.capacity
		s.all = append(s.all, bin{i, i, i, length, none})
	} else {
		n = s.byRoom[room].first
		b := &s.all[n]
		if b.behind == none {
			s.open.remove(room)
		} else {
			s.byRoom[room].first = b.behind
		}
		s.link[b.last] = i
		b.last, b.oldest, b.used, b.behind = i, min(b.oldest, i), b.used+length, none
	}
	room -= length
	switch {
	case room == 0: // full
	case s.open.has(room):
		s.all[s.byRoom[room].last].behind = n
		s.byRoom[room].last = n
	default:
		s.open.add(room)
		s.byRoom[room] = queue{n, n}
	}
}

// fullest returns the bin with the least room among those that are not full, nil without one.
func (s *bins) fullest() *bin { return s.withRoom(1) }

// next returns the bin that follows b in ascending order of room, nil behind the last.
func (s *bins) next(b *bin) *bin {
	if b.behind != none {
		return &s.all[b.behind]
	}
	return s.withRoom(s.capacity - b.used + 1)
}

func (s *bins) withRoom(least int32) *bin {
	room := s.open.from(least)
	if room == none {
		return nil
	}
	return &s.all[s.byRoom[room].first]
}
