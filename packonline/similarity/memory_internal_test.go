package similarity

import "testing"

// TestIndex_ListsReturnMemory checks that terms which all documents of the pool had in succession do not use memory
// that grows with their number. Neither do the seats of removed documents.
func TestIndex_ListsReturnMemory(t *testing.T) {
	const pool = 1000
	x := New(Config{Retriever: "bm25", Postings: 1})
	terms := func(i int) *Hint { return &Hint{Terms: []uint32{uint32(i/pool)<<weightBits | 1}} }
	for i := range 200 * pool {
		if i >= pool {
			x.Remove(int32(i % pool))
		}
		x.Add(int32(i%pool), Entry{Seq: uint64(i), Length: 1, Hint: terms(i)})
	}
	held := 0
	for _, p := range x.retriever.(*bm25).pages {
		if p != nil {
			for _, list := range p.lists {
				held += cap(list)
			}
		}
	}
	if held > 20*pool || len(x.entries) > pool+pool/removedPart+maxRemoved+1 {
		t.Errorf("%d postings and %d seats are held for %d", held, len(x.entries), pool)
	}
}
