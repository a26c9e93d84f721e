package merge

// Bounds, exported for tests.
const (
	GreedyWalk = maxWalkRatio
	GreedyText = maxGreedyToken
	WindowLook = windowProbe
	KeepNodes  = maxKeptNodes
)

// HasGreedy reports whether words are encoded greedily.
func (m *Merges) HasGreedy() bool { return m.greedy() != nil }

// WithoutGreedy returns the same merges without a greedy encoder.
func (m *Merges) WithoutGreedy() *Merges {
	plain := *m
	plain.greedy = nil
	return &plain
}

// EncodeGreedily encodes the part of a word that needs no merging.
func (m *Merges) EncodeGreedily(s *Scratch, dst []int32, word []byte) (ids []int32, spelled int) {
	return m.greedy().encode(&s.greedy, dst, word)
}

// Ordered reports whether merges are in the order of training.
func (m *Merges) Ordered() bool { return m.isOrdered }

// ByRank and ByHeap are the two algorithms for merging a long word.
func (m *Merges) ByRank(s *Scratch, word []byte) []int32 { return m.mergeByRank(s, nil, word) }
func (m *Merges) ByHeap(s *Scratch, word []byte) []int32 { return m.mergeByHeap(s, nil, word) }

// Walked returns how many bytes greedy encoding has read. Windows returns the number of windows at the end of the
// last word. Kept returns the capacity for symbols of long words.
func (s *Scratch) Walked() int  { return s.greedy.walked }
func (s *Scratch) Windows() int { return s.greedy.windows.n }
func (s *Scratch) Kept() int    { return cap(s.node) }
