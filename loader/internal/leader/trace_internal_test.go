package leader

import (
	"testing"

	"loaderd/loader/document"
)

// The number of sampled documents is bounded, even if they are never planned.
func TestTraces_NumberIsBounded(t *testing.T) {
	x := traces{}
	for n := range uint64(3 * maxTraces) {
		if x.addDocument(n, &document.Trace{}); len(x) > maxTraces {
			t.Fatalf("%d traces are kept", len(x))
		}
	}
	if _, kept := x[3*maxTraces-1]; !kept {
		t.Error("the last one is not")
	}
}
