package packonline

import (
	"slices"

	"loaderd/packonline/internal/bitset"
)

// stock holds the buffered pieces of bucket and splice, by length and by age. A piece keeps its number while it is
// buffered. Of equally long pieces the oldest is first, so only the order of arrival has to be restored. Adding,
// taking and putting back cost O(log64 L), and no memory is allocated once the slices have grown.
type stock struct {
	lengths bitset.Set // in use
	queues  []queue    // length in use -> its pieces by age
	counts  []int32    // length -> number of its pieces
	ages    list       // all pieces
	// class -> its pieces; the class is the shortest row that holds them. Empty if only one class exists
	needs  []list
	items  []stockItem // by number
	tried  []int32     // lengths that eldest has already used
	vacant int32       // first number without a piece; such numbers are linked by behind
	pieces int
	tokens int64
	credit int // remaining credit of searches (bucket_credit.go)
	owed   int // credit at which searches stop, 0 or below
	work   int // total cost of searches since the stock was created
}

type stockItem struct {
	waiting
	behind int32 // next number without a piece
	class  int32
	links  [3]queue // neighbours (older, newer) in ages, in needs, and among pieces of its length
}

// list is a list of pieces by age, linked by the given index of their links.
type list struct {
	queue
	link int
}

// equals is the link index for pieces of one length; stock.queues has the ends of these lists.
const equals = 2

func newStock(longest int32, classes int) *stock {
	n := int(longest) + 1
	s := &stock{lengths: bitset.New(n), queues: make([]queue, n), counts: make([]int32, n),
		ages: list{queue{none, none}, 0}, vacant: none}
	for classes > 1 && len(s.needs) < classes {
		s.needs = append(s.needs, list{queue{none, none}, 1})
	}
	return s
}

// add adds the newest piece and returns its number.
func (s *stock) add(w waiting, class int) int32 {
	i := s.vacant
	if i == none {
		i = int32(len(s.items))
		s.items = append(s.items, stockItem{})
	} else {
		s.vacant = s.items[i].behind
	}
	q := &s.queues[w.length]
	if s.counts[w.length] == 0 {
		*q = queue{none, none}
	}
	x := stockItem{waiting: w, behind: none, class: int32(class)}
	x.links[s.ages.link], x.links[equals] = queue{s.ages.last, none}, queue{q.last, none}
	if len(s.needs) > 0 {
		l := &s.needs[class]
		x.links[l.link] = queue{l.last, none}
	}
	s.items[i] = x
	s.link(i)
	s.show(w.length)
	return i
}

// take takes the oldest piece of a length in use and returns its number, which is valid until free.
func (s *stock) take(length int32) int32 {
	i := s.queues[length].first
	s.takeItem(i)
	return i
}

// takeItem takes a piece by its number.
func (s *stock) takeItem(i int32) {
	s.spend(moveCost)
	x := &s.items[i]
	s.hide(x.length)
	s.remove(&s.queues[x.length], equals, i)
	s.remove(&s.ages.queue, s.ages.link, i)
	if len(s.needs) > 0 {
		l := &s.needs[x.class]
		s.remove(&l.queue, l.link, i)
	}
}

// putBack undoes take. Pieces must be put back in reverse order, without an add in between. Then every neighbour that
// the piece refers to is in its place again.
func (s *stock) putBack(i int32) {
	s.spend(moveCost)
	x := &s.items[i]
	s.show(x.length)
	s.link(i)
}

// link links a piece between its recorded neighbours, in all its lists.
func (s *stock) link(i int32) {
	x := &s.items[i]
	s.insert(&s.queues[x.length], equals, i)
	s.insert(&s.ages.queue, s.ages.link, i)
	if len(s.needs) > 0 {
		l := &s.needs[x.class]
		s.insert(&l.queue, l.link, i)
	}
}

// hide removes a piece of a length in use from the set of lengths until show, for searches that use lengths only.
func (s *stock) hide(length int32) {
	if s.counts[length]--; s.counts[length] == 0 {
		s.lengths.Remove(length)
	}
	s.pieces--
	s.tokens -= int64(length)
}

// show undoes hide.
func (s *stock) show(length int32) {
	if s.counts[length]++; s.counts[length] == 1 {
		s.lengths.Add(length)
	}
	s.pieces++
	s.tokens += int64(length)
}

// free releases the number of a taken piece.
func (s *stock) free(i int32) {
	s.items[i].behind = s.vacant
	s.vacant = i
}

// insert links a piece between its recorded neighbours.
func (s *stock) insert(ends *queue, link int, i int32) {
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
func (s *stock) remove(ends *queue, link int, i int32) {
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

// need returns the pieces of a class.
func (s *stock) need(class int) *list {
	if len(s.needs) == 0 {
		return &s.ages
	}
	return &s.needs[class]
}

// newer returns the piece that follows i in a list, or none after the last one.
func (s *stock) newer(l *list, i int32) int32 { return s.items[i].links[l.link].last }

// oldest returns the oldest piece, or nil.
func (s *stock) oldest() *waiting {
	if s.ages.first == none {
		return nil
	}
	return &s.items[s.ages.first].waiting
}

// list returns the pieces in order of arrival.
func (s *stock) list() []waiting {
	out := make([]waiting, 0, s.pieces)
	for i := s.ages.first; i != none; i = s.newer(&s.ages, i) {
		out = append(out, s.items[i].waiting)
	}
	return out
}

// first returns the oldest piece of a length, or nil.
func (s *stock) first(length int32) *waiting {
	if !s.has(length) {
		return nil
	}
	return &s.items[s.queues[length].first].waiting
}

// eldest calls use with the lengths of the oldest pieces, at most the given number, until use returns true. It
// reports whether use did. use must leave the stock unchanged if it returns false, so that no length is tried twice.
// eldest also stops when the remaining credit is at most credit.
func (s *stock) eldest(most, credit int, use func(length int32) bool) bool {
	s.tried = s.tried[:0]
	for i := s.ages.first; i != none && most > 0; most-- {
		if n := s.items[i].length; !slices.Contains(s.tried, n) {
			if use(n) {
				return true
			}
			if s.tried = append(s.tried, n); s.credit <= credit {
				return false
			}
		}
		i = s.newer(&s.ages, i)
	}
	return false
}

// mean returns an approximate mean length of the pieces, at least 1.
func (s *stock) mean() int32 { return int32(s.tokens/int64(s.pieces+1)) + 1 }
