// Package history keeps how a run went in bounded memory, however long it is: by step, counted from the records of its
// plan, and by time, from what a daemon sees. Both are pyramids: a fixed number of points, of which two neighbours
// become one when there are too many.
package history

// points is how many points a pyramid keeps at most, and recent how many of the newest it keeps one by one.
const (
	points = 1024
	recent = 600
)

// pyramid is a series of summaries that cover everything, and its newest entries one by one.
type pyramid[T any] struct {
	merge  func(into *T, next T)
	width  int // entries of a point
	whole  []T
	in     int // entries of the last point
	newest []T
}

func newPyramid[T any](merge func(into *T, next T)) pyramid[T] {
	return pyramid[T]{merge: merge, width: 1}
}

// add appends an entry; same is a clone of it.
func (p *pyramid[T]) add(entry, same T) {
	if p.in == p.width || len(p.whole) == 0 {
		if len(p.whole) == points {
			p.halve()
		}
		p.whole, p.in = append(p.whole, entry), 0
	} else {
		p.merge(&p.whole[len(p.whole)-1], entry)
	}
	p.in++
	if len(p.newest) == recent {
		copy(p.newest, p.newest[1:])
		p.newest = p.newest[:recent-1]
	}
	p.newest = append(p.newest, same)
}

// halve makes one point of each two. All of them are full.
func (p *pyramid[T]) halve() {
	for i := range points / 2 {
		p.whole[i] = p.whole[2*i]
		p.merge(&p.whole[i], p.whole[2*i+1])
	}
	clear(p.whole[points/2:])
	p.whole, p.width = p.whole[:points/2], 2*p.width
}
