// Package pairs is a hash table from two numbers of 21 bits to a third one: from two symbols to the rank of their
// merge, from two characters to the one that they compose to.
package pairs

import "math/bits"

// SymbolBits is the size of a number; None is what a pair has that is not in the table.
const (
	None       = ^uint32(0)
	SymbolBits = 21
	SymbolMask = 1<<SymbolBits - 1
)

// Table maps a pair of symbols to a rank, packed in one word: left, right, rank, 21 bits each.
// Linear probing, at most half full. A few bits a pair, far less memory, tell of most pairs that they are not there.
type Table struct {
	Slot  []uint64 // a power of two of them; for readers that ask for many places before they look at one
	shift uint
	used  int
	Maybe pairFilter
}

const emptySlot = ^uint64(0)

// New makes a table with room for n pairs; it grows.
func New(n int) Table {
	lg := uint(bits.Len(uint(max(n, 8)*2 - 1)))
	t := Table{Slot: make([]uint64, 1<<lg), shift: 64 - lg, Maybe: newPairFilter(n)}
	for i := range t.Slot {
		t.Slot[i] = emptySlot
	}
	return t
}

// Home is the first slot where the pair of a key may be.
func (t *Table) Home(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> t.shift }

// Put sets the rank of a pair; a later rank replaces an earlier one, as in the reference.
func (t *Table) Put(left, right, rank uint32) {
	if 2*(t.used+1) > len(t.Slot) {
		t.grow()
	}
	key := Key(left, right)
	last := uint64(len(t.Slot) - 1)
	i := t.Home(key)
	for ; t.Slot[i&last] != emptySlot; i++ {
		if t.Slot[i&last]>>SymbolBits == key {
			t.used--
			break
		}
	}
	t.Slot[i&last] = key<<SymbolBits | uint64(rank)
	t.used++
	t.Maybe.put(left, right)
}

func (t *Table) grow() {
	old := t.Slot
	*t = New(len(old))
	for _, v := range old {
		if v != emptySlot {
			t.Put(uint32(v>>(2*SymbolBits)), uint32(v>>SymbolBits&SymbolMask), uint32(v&SymbolMask))
		}
	}
}

// Key names a pair.
func Key(left, right uint32) uint64 { return uint64(left)<<SymbolBits | uint64(right) }

// Rank is that of the pair's merge, or none.
func (t *Table) Rank(left, right uint32) uint32 { return t.Find(Key(left, right)) }

// Find is the rank of the merge of the pair with a key, or none.
func (t *Table) Find(key uint64) uint32 {
	s := t.Slot
	for i := t.Home(key); ; i++ {
		v := s[i&uint64(len(s)-1)]
		if v>>SymbolBits == key {
			return uint32(v & SymbolMask)
		}
		if v == emptySlot {
			return None
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
	h := f.place(Key(left, right))
	f.bit[h>>6] |= 1 << (h & 63)
}

// Has is true for every pair that was put, and for few others.
func (f *pairFilter) Has(left, right uint32) bool { return f.BitOf(Key(left, right)) != 0 }

// BitOf is 1 for every key that was put, and for few others.
func (f *pairFilter) BitOf(key uint64) int {
	h := f.place(key)
	return int(f.bit[h>>6] >> (h & 63) & 1)
}
