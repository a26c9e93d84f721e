// Package history stores the course of a run in bounded memory, independent of the run's length: by step, from the
// records of the plan, and by time, from a daemon's samples. Both are pyramids: series with a bounded number of
// points, in which pairs of neighbours are merged when it is exceeded.
package history

// maxPoints is the maximum number of points of a pyramid, and recent the number of newest entries that it keeps
// unmerged.
const (
	maxPoints = 1024
	maxNewest = 600
)

// pyramid is a series of points that summarize all entries, and its newest entries unmerged.
type pyramid[T any] struct {
	merge       func(into *T, next T)
	width       int // entries per point
	summary     []T
	lastEntries int // entries in the last point
	newest      []T
}

func newPyramid[T any](merge func(into *T, next T)) pyramid[T] {
	return pyramid[T]{merge: merge, width: 1}
}

// add appends an entry. same must be a copy of it.
func (p *pyramid[T]) add(entry, same T) {
	if p.lastEntries == p.width || len(p.summary) == 0 {
		if len(p.summary) == maxPoints {
			p.mergePairs()
		}
		p.summary, p.lastEntries = append(p.summary, entry), 0
	} else {
		p.merge(&p.summary[len(p.summary)-1], entry)
	}
	p.lastEntries++
	if len(p.newest) == maxNewest {
		copy(p.newest, p.newest[1:])
		p.newest = p.newest[:maxNewest-1]
	}
	p.newest = append(p.newest, same)
}

// mergePairs merges pairs of neighbouring points. All points must be full.
func (p *pyramid[T]) mergePairs() {
	for i := range maxPoints / 2 {
		p.summary[i] = p.summary[2*i]
		p.merge(&p.summary[i], p.summary[2*i+1])
	}
	clear(p.summary[maxPoints/2:])
	p.summary, p.width = p.summary[:maxPoints/2], 2*p.width
}
