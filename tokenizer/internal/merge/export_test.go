package merge

// Bounds, for tests.
const (
	GreedyWalk = greedyWalk
	GreedyText = greedyText
	WindowLook = windowLook
	KeepNodes  = keepNodes
)

// HasGreedy tells whether words are encoded greedily.
func (m *Merges) HasGreedy() bool { return m.greedy() != nil }

// WithoutGreedy is the same merges, which then go the way of all merges.
func (m *Merges) WithoutGreedy() *Merges {
	plain := *m
	plain.greedy = nil
	return &plain
}

// EncodeGreedily encodes as far as that is done without merging.
func (m *Merges) EncodeGreedily(s *Scratch, dst []int32, word []byte) (ids []int32, spelled int) {
	return m.greedy().encode(&s.greedy, dst, word)
}

// Ordered tells whether merges are in the order of training.
func (m *Merges) Ordered() bool { return m.ordered }

// ByRank and ByHeap are the two ways to merge a long word.
func (m *Merges) ByRank(s *Scratch, word []byte) []int32 { return m.byRank(s, nil, word) }
func (m *Merges) ByHeap(s *Scratch, word []byte) []int32 { return m.byHeap(s, nil, word) }

// Walked is how many bytes were looked at to encode greedily, Windows how many windows the last word ended in, Kept for
// how many symbols of long words there is room.
func (s *Scratch) Walked() int  { return s.greedy.walked }
func (s *Scratch) Windows() int { return s.greedy.windows.n }
func (s *Scratch) Kept() int    { return cap(s.node) }
