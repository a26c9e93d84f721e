package plan

import "testing"

// The operations of Position agree with those of sets of documents.
func TestPosition_MatchesDocumentSets(t *testing.T) {
	const documents = 6
	covered := func(p Position) (n int) {
		for sequence := uint64(1); sequence <= documents; sequence++ {
			if p.Covers(sequence) {
				n++
			}
		}
		return n
	}
	if covered(Position{}) != 0 || PositionBefore(0) != (Position{}) || PositionBefore(1) != (Position{}) {
		t.Error("a position before all documents covers one")
	}
	for i := range uint64(documents) {
		p := PositionAfter(i)
		if covered(p) != int(i) || p.Last() != i || p.Next() != i+1 || p != PositionBefore(i+1) {
			t.Errorf("behind document %d: %s covers %d documents, last %d, next %d", i, p, covered(p), p.Last(), p.Next())
		}
		for k := range uint64(documents) {
			q := PositionAfter(k)
			if least := p.Min(q); covered(least) != int(min(i, k)) {
				t.Errorf("the least of %s and %s is %s", p, q, least)
			}
			if most := p.Max(q); covered(most) != int(max(i, k)) {
				t.Errorf("the most of %s and %s is %s", p, q, most)
			}
			if p.Reaches(q) != (i >= k) {
				t.Errorf("%s reaches %s: %v", p, q, p.Reaches(q))
			}
		}
	}
}
