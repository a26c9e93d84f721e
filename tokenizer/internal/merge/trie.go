package merge

import (
	"slices"
	"strings"
)

// A trie of byte strings in one array. A cell has the byte that leads to it in bits 0..8 (noByte in an empty cell),
// its base in bits 9..31 and its symbol, or none, above. The cell for byte b is at base^b. No two cells share a base,
// except base 0 of cells without children, so the byte is enough to identify a child. Cell 0 is the root.
const (
	noByte    = 256
	byteMask  = 1<<9 - 1
	baseShift = 9
	baseMask  = 1<<23 - 1
	emptyCell = uint64(none)<<32 | noByte
)

// longest returns the symbol of the longest string that is a prefix of s, or none, and how many bytes of s it has
// read.
func (g *greedyMerges) longest(s []byte) (symbol uint32, walked int) {
	trie := g.trie
	symbol = none
	cell := trie[0]
	for i, b := range s {
		cell = trie[uint32(cell)>>baseShift^uint32(b)]
		if uint32(cell)&byteMask != uint32(b) {
			return symbol, i
		}
		if here := uint32(cell >> 32); here != none {
			symbol = here
		}
	}
	return symbol, len(s)
}

// trieEntry is a string with its symbol.
type trieEntry struct {
	text   string
	symbol uint32
}

// newTrie returns the trie of distinct strings, none of them empty; ok is false for too many strings.
func newTrie(list []trieEntry) (trie []uint64, ok bool) {
	slices.SortFunc(list, func(a, b trieEntry) int { return strings.Compare(a.text, b.text) })
	b := &trieBuilder{}
	for range 2 {
		b.grow()
	}
	ok = b.fillCell(0, list, 0)
	return b.cell, ok
}

// trieBuilder places cells. The free cells of the last blocks form a list; free cells before them stay unused.
type trieBuilder struct {
	cell []uint64
	free []freeCell
	head uint32   // first cell of the list; 0 ends it
	used []uint64 // a bit per base
}

type freeCell struct{ prev, next uint32 }

const (
	trieBlock  = 256
	trieWindow = 32 // number of blocks whose free cells are listed
)

func (b *trieBuilder) grow() {
	n := uint32(len(b.cell))
	for i := n; i < n+trieBlock; i++ {
		b.cell = append(b.cell, emptyCell)
		b.free = append(b.free, freeCell{next: b.head})
		if n > 0 { // the root's block has no other cells, because base 0 refers to it
			b.free[b.head].prev = i
			b.head = i
		}
	}
	b.used = append(b.used, make([]uint64, trieBlock/64)...)
	if n > trieWindow*trieBlock {
		for i := n - trieWindow*trieBlock; i < n-(trieWindow-1)*trieBlock; i++ {
			if b.cell[i] == emptyCell {
				b.removeFree(i)
			}
		}
	}
}

// removeFree removes a cell from the list.
func (b *trieBuilder) removeFree(i uint32) {
	f := b.free[i]
	if b.head == i {
		b.head = f.next
	} else {
		b.free[f.prev].next = f.next
	}
	b.free[f.next].prev = f.prev
}

// fillCell fills the cell at a place for the strings of a list, which have their first depth bytes in common, and all
// cells below it.
func (b *trieBuilder) fillCell(at uint32, list []trieEntry, depth int) bool {
	if len(list[0].text) == depth {
		b.cell[at] = b.cell[at]&(1<<32-1) | uint64(list[0].symbol)<<32
		list = list[1:]
	}
	if len(list) == 0 {
		return true
	}
	var bytes []byte
	var ends []int
	for i := range list {
		if c := list[i].text[depth]; i == 0 || c != bytes[len(bytes)-1] {
			bytes, ends = append(bytes, c), append(ends, i)
		}
		ends[len(ends)-1] = i + 1
	}
	base := b.findBase(bytes)
	if base > baseMask {
		return false
	}
	b.cell[at] |= uint64(base) << baseShift
	b.used[base>>6] |= 1 << (base & 63)
	for _, c := range bytes {
		b.removeFree(base ^ uint32(c))
		b.cell[base^uint32(c)] = uint64(none)<<32 | uint64(c)
	}
	start := 0
	for k, c := range bytes {
		if !b.fillCell(base^uint32(c), list[start:ends[k]], depth+1) {
			return false
		}
		start = ends[k]
	}
	return true
}

// findBase returns a base with room for the cells of the bytes.
func (b *trieBuilder) findBase(bytes []byte) uint32 {
	for {
		for i := b.head; i != 0; i = b.free[i].next {
			if base := i ^ uint32(bytes[0]); b.used[base>>6]>>(base&63)&1 == 0 && b.hasRoom(base, bytes) {
				return base
			}
		}
		b.grow()
	}
}

func (b *trieBuilder) hasRoom(base uint32, bytes []byte) bool {
	for _, c := range bytes[1:] {
		if b.cell[base^uint32(c)] != emptyCell {
			return false
		}
	}
	return true
}
