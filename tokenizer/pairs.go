package tokenizer

import "math/bits"

// A symbol is a piece of a word while it is merged: 0..255 are bytes, larger ones are tokens that merges make.
const (
	none       = ^uint32(0)
	symbolBits = 21
	symbolMask = 1<<symbolBits - 1
)

// pairTable maps a pair of symbols to the rank of their merge, packed in one word: left, right, rank, 21 bits each.
// Linear probing, at most half full. A few bits a pair, far less memory, tell of most pairs that they are not there.
type pairTable struct {
	slot  []uint64
	shift uint
	used  int
	maybe pairFilter
}

const emptySlot = ^uint64(0)

func newPairTable(n int) pairTable {
	lg := uint(bits.Len(uint(max(n, 8)*2 - 1)))
	t := pairTable{slot: make([]uint64, 1<<lg), shift: 64 - lg, maybe: newPairFilter(n)}
	for i := range t.slot {
		t.slot[i] = emptySlot
	}
	return t
}

func (t *pairTable) home(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> t.shift }

// put sets the rank of a pair; a later rank replaces an earlier one, as in the reference.
func (t *pairTable) put(left, right, rank uint32) {
	if 2*(t.used+1) > len(t.slot) {
		t.grow()
	}
	key := pairKey(left, right)
	last := uint64(len(t.slot) - 1)
	i := t.home(key)
	for ; t.slot[i&last] != emptySlot; i++ {
		if t.slot[i&last]>>symbolBits == key {
			t.used--
			break
		}
	}
	t.slot[i&last] = key<<symbolBits | uint64(rank)
	t.used++
	t.maybe.put(left, right)
}

func (t *pairTable) grow() {
	old := t.slot
	*t = newPairTable(len(old))
	for _, v := range old {
		if v != emptySlot {
			t.put(uint32(v>>(2*symbolBits)), uint32(v>>symbolBits&symbolMask), uint32(v&symbolMask))
		}
	}
}

func pairKey(left, right uint32) uint64 { return uint64(left)<<symbolBits | uint64(right) }

// rank is that of the pair's merge, or none.
func (t *pairTable) rank(left, right uint32) uint32 { return t.find(pairKey(left, right)) }

// find is the rank of the merge of the pair with a key, or none.
func (t *pairTable) find(key uint64) uint32 {
	s := t.slot
	for i := t.home(key); ; i++ {
		v := s[i&uint64(len(s)-1)]
		if v>>symbolBits == key {
			return uint32(v & symbolMask)
		}
		if v == emptySlot {
			return none
		}
	}
}

// pairFilter knows of most pairs that are not in a table that they are not: a bit a hash, most of them unset.
type pairFilter struct {
	bit   []uint64
	shift uint
}

func newPairFilter(n int) pairFilter {
	lg := uint(bits.Len(uint(max(n, 8)*8 - 1)))
	return pairFilter{make([]uint64, 1<<(lg-6)), 64 - lg}
}

func (f *pairFilter) place(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> f.shift }

func (f *pairFilter) put(left, right uint32) {
	h := f.place(pairKey(left, right))
	f.bit[h>>6] |= 1 << (h & 63)
}

// has is true for every pair that was put, and for few others.
func (f *pairFilter) has(left, right uint32) bool { return f.bitOf(pairKey(left, right)) != 0 }

// bitOf is 1 for every key that was put, and for few others.
func (f *pairFilter) bitOf(key uint64) int {
	h := f.place(key)
	return int(f.bit[h>>6] >> (h & 63) & 1)
}
