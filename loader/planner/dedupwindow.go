package planner

// dedupWindow holds the ids of the last n documents. Its results depend on the preceding documents, not on time.
type dedupWindow struct {
	ring []uint64          // id of document k at k % n; 0 if it has no id
	last map[uint64]uint64 // id -> its latest document number
	next uint64            // number of the next document
}

func newDedupWindow(n int) *dedupWindow {
	return &dedupWindow{ring: make([]uint64, n), last: map[uint64]uint64{}}
}

// observe records the next document's id and reports whether it was among the last n. It always returns false for id
// 0 (no id).
func (r *dedupWindow) observe(id uint64) bool {
	n := uint64(len(r.ring))
	if n == 0 {
		return false
	}
	_, known := r.last[id]
	r.add(id)
	return known && id != 0
}

func (r *dedupWindow) add(id uint64) {
	n := uint64(len(r.ring))
	slot := &r.ring[r.next%n]
	if old := *slot; old != 0 && r.last[old]+n == r.next {
		delete(r.last, old)
	}
	*slot = id
	if id != 0 {
		r.last[id] = r.next
	}
	r.next++
}

// resize returns a window of n documents with the latest ids of r.
func (r *dedupWindow) resize(n int) *dedupWindow {
	size := uint64(len(r.ring))
	if size == uint64(n) {
		return r
	}
	out := newDedupWindow(n)
	for k := r.next - min(size, r.next); n > 0 && k < r.next; k++ {
		out.add(r.ring[k%size])
	}
	return out
}
