package packonline

import (
	"slices"

	"loaderd/packonline/internal/bitset"
)

// indexedPool holds the buffered pieces of bucket and splice, by length and by age. A piece keeps its number while it
// is buffered. Of equally long pieces the oldest is first, so only the order of arrival has to be restored. Adding,
// taking and putting back cost O(log64 L), and no memory is allocated once the slices have grown.
type indexedPool struct {
	lengths bitset.Set // in use
	queues  []queue    // length in use -> its pieces by age
	counts  []int32    // length -> number of its pieces
	byAge   ageList    // all pieces
	// class -> its pieces; the class is the shortest row that holds them. Empty if only one class exists
	byClass      []ageList
	items        []poolItem // by number
	triedLengths []int32    // lengths that eldest has already used
	vacant       int32      // first number without a piece; such numbers are linked by behind
	pieces       int
	tokens       int64
	credit       int // remaining credit of searches (bucket_credit.go)
	minCredit    int // credit at which searches stop, 0 or below
	work         int // total cost of searches since the stock was created
}

type poolItem struct {
	bufferedPiece
	nextVacant int32 // next number without a piece
	class      int32
	links      [3]queue // neighbours (older, newer) in ages, in needs, and among pieces of its length
}

// ageList is a list of pieces by age, linked by the given index of their links.
type ageList struct {
	queue
	link int
}

// lengthLink is the link index for pieces of one length; stock.queues has the ends of these lists.
const lengthLink = 2

func newIndexedPool(longest int32, classes int) *indexedPool {
	n := int(longest) + 1
	s := &indexedPool{lengths: bitset.New(n), queues: make([]queue, n), counts: make([]int32, n),
		byAge: ageList{queue{none, none}, 0}, vacant: none}
	for classes > 1 && len(s.byClass) < classes {
		s.byClass = append(s.byClass, ageList{queue{none, none}, 1})
	}
	return s
}

// add adds the newest piece and returns its number.
func (s *indexedPool) add(w bufferedPiece, class int) int32 {
	i := s.vacant
	if i == none {
		i = int32(len(s.items))
		s.items = append(s.items, poolItem{})
	} else {
		s.vacant = s.items[i].nextVacant
	}
	q := &s.queues[w.length]
	if s.counts[w.length] == 0 {
		*q = queue{none, none}
	}
	x := poolItem{bufferedPiece: w, nextVacant: none, class: int32(class)}
	x.links[s.byAge.link], x.links[lengthLink] = queue{s.byAge.last, none}, queue{q.last, none}
	if len(s.byClass) > 0 {
		l := &s.byClass[class]
		x.links[l.link] = queue{l.last, none}
	}
	s.items[i] = x
	s.linkItem(i)
	s.showLength(w.length)
	return i
}

// takeOldest takes the oldest piece of a length in use and returns its number, which is valid until free.
func (s *indexedPool) takeOldest(length int32) int32 {
	i := s.queues[length].first
	s.takeItem(i)
	return i
}

// takeItem takes a piece by its number.
func (s *indexedPool) takeItem(i int32) {
	s.spendCredit(moveCost)
	x := &s.items[i]
	s.hideLength(x.length)
	s.remove(&s.queues[x.length], lengthLink, i)
	s.remove(&s.byAge.queue, s.byAge.link, i)
	if len(s.byClass) > 0 {
		l := &s.byClass[x.class]
		s.remove(&l.queue, l.link, i)
	}
}

// putBack undoes take. Pieces must be put back in reverse order, without an add in between. Then every neighbour
// that the piece refers to is in its place again.
func (s *indexedPool) putBack(i int32) {
	s.spendCredit(moveCost)
	x := &s.items[i]
	s.showLength(x.length)
	s.linkItem(i)
}

// linkItem links a piece between its recorded neighbours, in all its lists.
func (s *indexedPool) linkItem(i int32) {
	x := &s.items[i]
	s.insert(&s.queues[x.length], lengthLink, i)
	s.insert(&s.byAge.queue, s.byAge.link, i)
	if len(s.byClass) > 0 {
		l := &s.byClass[x.class]
		s.insert(&l.queue, l.link, i)
	}
}

// hideLength removes a piece of a length in use from the set of lengths until show, for searches that use lengths only.
func (s *indexedPool) hideLength(length int32) {
	if s.counts[length]--; s.counts[length] == 0 {
		s.lengths.Remove(length)
	}
	s.pieces--
	s.tokens -= int64(length)
}

// showLength undoes hide.
func (s *indexedPool) showLength(length int32) {
	if s.counts[length]++; s.counts[length] == 1 {
		s.lengths.Add(length)
	}
	s.pieces++
	s.tokens += int64(length)
}

// freeItem releases the number of a taken piece.
func (s *indexedPool) freeItem(i int32) {
	s.items[i].nextVacant = s.vacant
	s.vacant = i
}

// insert links a piece between its recorded neighbours.
func (s *indexedPool) insert(ends *queue, link int, i int32) {
	at := s.items[i].links[link]
	if at.first == none {
		ends.first = i
	} else {
		s.items[at.first].links[link].last = i
	}
	if at.last == none {
		ends.last = i
	} else {
		s.items[at.last].links[link].first = i
	}
}

// remove unlinks a piece, which keeps the record of its neighbours.
func (s *indexedPool) remove(ends *queue, link int, i int32) {
	at := s.items[i].links[link]
	if at.first == none {
		ends.first = at.last
	} else {
		s.items[at.first].links[link].last = at.last
	}
	if at.last == none {
		ends.last = at.first
	} else {
		s.items[at.last].links[link].first = at.first
	}
}

// classList returns the pieces of a class.
func (s *indexedPool) classList(class int) *ageList {
	if len(s.byClass) == 0 {
		return &s.byAge
	}
	return &s.byClass[class]
}

// newerItem returns the piece that follows i in a list, or none after the last one.
func (s *indexedPool) newerItem(l *ageList, i int32) int32 { return s.items[i].links[l.link].last }

// oldest returns the oldest piece, or nil.
func (s *indexedPool) oldest() *bufferedPiece {
	if s.byAge.first == none {
		return nil
	}
	return &s.items[s.byAge.first].bufferedPiece
}

// listPieces returns the pieces in order of arrival.
func (s *indexedPool) listPieces() []bufferedPiece {
	out := make([]bufferedPiece, 0, s.pieces)
	for i := s.byAge.first; i != none; i = s.newerItem(&s.byAge, i) {
		out = append(out, s.items[i].bufferedPiece)
	}
	return out
}

// oldestOfLength returns the oldest piece of a length, or nil.
func (s *indexedPool) oldestOfLength(length int32) *bufferedPiece {
	if !s.hasLength(length) {
		return nil
	}
	return &s.items[s.queues[length].first].bufferedPiece
}

// tryOldest calls use with the lengths of the oldest pieces, at most the given number, until use returns true. It
// reports whether use did. use must leave the stock unchanged if it returns false, so that no length is tried twice.
// eldest also stops when the remaining credit is at most credit.
func (s *indexedPool) tryOldest(most, credit int, use func(length int32) bool) bool {
	s.triedLengths = s.triedLengths[:0]
	for i := s.byAge.first; i != none && most > 0; most-- {
		if n := s.items[i].length; !slices.Contains(s.triedLengths, n) {
			if use(n) {
				return true
			}
			if s.triedLengths = append(s.triedLengths, n); s.credit <= credit {
				return false
			}
		}
		i = s.newerItem(&s.byAge, i)
	}
	return false
}

// meanLength returns an approximate mean length of the pieces, at least 1.
func (s *indexedPool) meanLength() int32 { return int32(s.tokens/int64(s.pieces+1)) + 1 }
