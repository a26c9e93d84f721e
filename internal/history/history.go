// Package history stores the course of a run in bounded memory, independent of the run's length: by step, from the
// records of the plan, and by time, from a daemon's samples. Both are pyramids: series with a bounded number of
// points, in which pairs of neighbours are merged when it is exceeded.
package history

// points is the maximum number of points of a pyramid, and recent the number of newest entries that it keeps
// unmerged.
const (
	points = 1024
	recent = 600
)

// pyramid is a series of points that summarize all entries, and its newest entries unmerged.
type pyramid[T any] struct {
	merge  func(into *T, next T)
	width  int // entries per point
	whole  []T
	in     int // entries in the last point
	newest []T
}

func newPyramid[T any](merge func(into *T, next T)) pyramid[T] {
	return pyramid[T]{merge: merge, width: 1}
}

// add appends an entry. same must be a copy of it.
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

// halve merges pairs of neighbouring points. All points must be full.
func (p *pyramid[T]) halve() {
	for i := range points / 2 {
		p.whole[i] = p.whole[2*i]
		p.merge(&p.whole[i], p.whole[2*i+1])
	}
	clear(p.whole[points/2:])
	p.whole, p.width = p.whole[:points/2], 2*p.width
}
