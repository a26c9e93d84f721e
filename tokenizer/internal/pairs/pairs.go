// Package pairs is a hash table from two numbers of 21 bits to a third one: from two symbols to the rank of their
// merge, or from two characters to their composition.
package pairs

import "math/bits"

// SymbolBits is the size of a number; None is the value of a pair that is not in the table.
const (
	None       = ^uint32(0)
	SymbolBits = 21
	SymbolMask = 1<<SymbolBits - 1
)

// Table maps a pair of symbols to a rank, packed in one word: left, right, rank, 21 bits each. It uses linear
// probing, and is at most half full. A filter of a few bits per pair, far less memory, excludes most pairs that are
// not in the table.
type Table struct {
	Slots  []uint64 // a power of two of them; exported for readers that prefetch many places
	shift  uint
	used   int
	Filter pairFilter
}

const emptySlot = ^uint64(0)

// New returns a table with room for n pairs; it grows if necessary.
func New(n int) Table {
	lg := uint(bits.Len(uint(max(n, 8)*2 - 1)))
	t := Table{Slots: make([]uint64, 1<<lg), shift: 64 - lg, Filter: newPairFilter(n)}
	for i := range t.Slots {
		t.Slots[i] = emptySlot
	}
	return t
}

// FirstSlot returns the first slot where the pair of a key may be.
func (t *Table) FirstSlot(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> t.shift }

// Put sets the rank of a pair; a later rank replaces an earlier one, as in the reference.
func (t *Table) Put(left, right, rank uint32) {
	if 2*(t.used+1) > len(t.Slots) {
		t.grow()
	}
	key := Key(left, right)
	last := uint64(len(t.Slots) - 1)
	i := t.FirstSlot(key)
	for ; t.Slots[i&last] != emptySlot; i++ {
		if t.Slots[i&last]>>SymbolBits == key {
			t.used--
			break
		}
	}
	t.Slots[i&last] = key<<SymbolBits | uint64(rank)
	t.used++
	t.Filter.put(left, right)
}

func (t *Table) grow() {
	old := t.Slots
	*t = New(len(old))
	for _, v := range old {
		if v != emptySlot {
			t.Put(uint32(v>>(2*SymbolBits)), uint32(v>>SymbolBits&SymbolMask), uint32(v&SymbolMask))
		}
	}
}

// Key returns the key of a pair.
func Key(left, right uint32) uint64 { return uint64(left)<<SymbolBits | uint64(right) }

// Rank returns the rank of the pair's merge, or None.
func (t *Table) Rank(left, right uint32) uint32 { return t.RankOfKey(Key(left, right)) }

// RankOfKey returns the rank of the merge of the pair with a key, or None.
func (t *Table) RankOfKey(key uint64) uint32 {
	s := t.Slots
	for i := t.FirstSlot(key); ; i++ {
		v := s[i&uint64(len(s)-1)]
		if v>>SymbolBits == key {
			return uint32(v & SymbolMask)
		}
		if v == emptySlot {
			return None
		}
	}
}

// pairFilter excludes most pairs that are not in a table: a bit per hash, most of them unset.
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
	h := f.place(Key(left, right))
	f.bit[h>>6] |= 1 << (h & 63)
}

// MayHave is true for every pair in the table, and for few others.
func (f *pairFilter) MayHave(left, right uint32) bool { return f.BitOf(Key(left, right)) != 0 }

// BitOf is 1 for every key in the table, and for few others.
func (f *pairFilter) BitOf(key uint64) int {
	h := f.place(key)
	return int(f.bit[h>>6] >> (h & 63) & 1)
}
