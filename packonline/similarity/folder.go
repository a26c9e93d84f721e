package similarity

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// folder holds the documents of a folder in the order of their sequences, in blocks of at most blockSize. Adding and
// removing moves documents of one block only. A search skips blocks in which all documents are too long.
type folder struct {
	blocks []block
	size   int // documents
}

// block is a part of a folder. It is never empty.
type block struct {
	members  []member // by seq
	shortest int32    // minimum of their lengths
}

type member struct {
	seq    uint64
	seat   int32
	length int32
}

// blockSize is the maximum number of documents of a block. Neighbours with at most half as many together are merged.
const blockSize = 64

func compareMembers(a, b member) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.seat, b.seat))
}

// findBlock returns the last block that begins at or before m, else the first one.
func (f *folder) findBlock(m member) int {
	last := len(f.blocks) - 1
	if compareMembers(f.blocks[last].members[0], m) <= 0 { // documents usually arrive in order
		return last
	}
	after, _ := slices.BinarySearchFunc(f.blocks, m, func(b block, m member) int {
		if compareMembers(b.members[0], m) <= 0 {
			return -1
		}
		return 1
	})
	return max(0, after-1)
}

func (f *folder) add(m member) {
	f.size++
	if len(f.blocks) == 0 {
		f.blocks = append(f.blocks, newBlock(m))
		return
	}
	i := f.findBlock(m)
	b := &f.blocks[i]
	at, _ := slices.BinarySearchFunc(b.members, m, compareMembers)
	if len(b.members) == blockSize {
		if at == blockSize {
			f.blocks = slices.Insert(f.blocks, i+1, newBlock(m))
			return
		}
		half := newBlock(b.members[blockSize/2:]...)
		b.members = b.members[:blockSize/2]
		b.updateShortest()
		f.blocks = slices.Insert(f.blocks, i+1, half)
		if b = &f.blocks[i]; at > blockSize/2 {
			b, at = &f.blocks[i+1], at-blockSize/2
		}
	}
	b.members = slices.Insert(b.members, at, m)
	b.shortest = min(b.shortest, m.length)
}

func newBlock(members ...member) block {
	b := block{members: slices.Clone(members)}
	b.updateShortest()
	return b
}

// updateShortest sets shortest.
func (b *block) updateShortest() {
	b.shortest = math.MaxInt32
	for _, m := range b.members {
		b.shortest = min(b.shortest, m.length)
	}
}

// remove removes a document of the folder.
func (f *folder) remove(seq uint64, seat int32) {
	f.size--
	m := member{seq: seq, seat: seat}
	i := f.findBlock(m)
	b := &f.blocks[i]
	at, _ := slices.BinarySearchFunc(b.members, m, compareMembers)
	length := b.members[at].length
	b.members = slices.Delete(b.members, at, at+1)
	switch {
	case len(b.members) == 0:
		f.blocks = slices.Delete(f.blocks, i, i+1)
		return
	case length == b.shortest:
		b.updateShortest()
	}
	if i+1 < len(f.blocks) {
		f.merge(i)
	}
	if i > 0 {
		f.merge(i - 1)
	}
}

// merge merges a block and the next one if they are small.
func (f *folder) merge(i int) {
	a, b := &f.blocks[i], &f.blocks[i+1]
	if len(a.members)+len(b.members) <= blockSize/2 {
		a.members, a.shortest = append(a.members, b.members...), min(a.shortest, b.shortest)
		f.blocks = slices.Delete(f.blocks, i+1, i+2)
	}
}

// fittingSeats returns the seats of the documents of at most longest tokens, in order.
func (f *folder) fittingSeats(longest int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i := range f.blocks {
			if f.blocks[i].shortest > longest {
				continue
			}
			for _, m := range f.blocks[i].members {
				if m.length <= longest && !yield(m.seat) {
					return
				}
			}
		}
	}
}
