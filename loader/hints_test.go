package loader_test

import "loaderd/packonline/related"

// hintOf is what a document of the tests is about: one of a few subjects.
func hintOf(sequence uint64) *related.Hint {
	subject := uint32(sequence % 7)
	h := &related.Hint{Path: related.Path([]string{"a/b/c", "a/b/d", "a/e", "f"}[sequence%4]), Vector: make([]int8, 4)}
	for i := range uint32(5) {
		h.Terms = append(h.Terms, (10*subject+2*i)<<8|uint32(sequence%200+1))
		h.Vector[i%4] = int8(subject*i%5) - 2
	}
	return h
}
