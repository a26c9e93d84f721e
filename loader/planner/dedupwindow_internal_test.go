package planner

import (
	"testing"

	"loaderd/loader/internal/codec"
)

// A resized window has the ids of the last documents that fit into both windows.
func TestDedupWindow_ResizeKeepsLastDocuments(t *testing.T) {
	for _, from := range []int{0, 1, 3, 6, 20} {
		for _, to := range []int{0, 1, 3, 6, 20} {
			r := newDedupWindow(from)
			for id := range uint64(10) {
				r.observe(id + 1)
			}
			r = r.resize(to)
			for k := range uint64(10) {
				id := k + 1
				_, known := r.last[id]
				if want := 10-int(k) <= min(from, to); known != want {
					t.Errorf("a window of %d that was one of %d knows document %d: %v", to, from, id, known)
				}
			}
			again := newDedupWindow(to)
			in := codec.Cursor{Buf: r.appendState(nil)}
			if err := again.restoreState(&in); err != nil || len(in.Buf) > 0 {
				t.Errorf("a window of %d that was one of %d is not restored: %v", to, from, err)
			}
		}
	}
}
