package mixture

import (
	"fmt"

	"loaderd/shuffle"
)

// Walk is the order in which an epoch takes the documents first ... last of a stream.
//
// In stream order, document k of the epoch is first+k. In a drawn order, the documents are cut into blocks, which are
// permuted. GroupDocuments/Block blocks form a group, and the documents of a group are permuted among each other. So
// neighbours in training are from the same block at most once in GroupDocuments/Block times. A group is read in
// ranges of a block. Position k of an epoch is computed without the positions before it.
type Walk struct {
	First uint64
	Last  uint64 // First-1 for an epoch without documents; 0 if unknown
	Drawn bool

	block  uint64
	blocks uint64      // of the epoch
	each   uint64      // blocks per group
	key    shuffle.Key // of the epoch
	outer  permutation // of the blocks
	short  uint64      // documents missing from the last block of the stream
	at     uint64      // position of that block among the permuted blocks
	group  uint64      // index of the group in docs, plus 1
	docs   []uint64    // sequences of the documents of a group, in their order
}

// GroupDocuments is the approximate number of documents in a group.
const GroupDocuments = 16384

// inOrder returns the walk of the documents from first on, in stream order. last is the last document, or 0 if
// unknown.
func inOrder(first, last uint64) *Walk { return &Walk{First: first, Last: last} }

// drawn returns a walk of the documents first ... last in an order drawn for an epoch.
func drawn(seed uint64, name string, epoch, first, last, block uint64) *Walk {
	w := &Walk{First: first, Last: last, Drawn: true, block: block,
		key: shuffle.NewKey(seed, fmt.Sprintf("epoch %d of source %s", epoch, name))}
	n := last + 1 - first
	w.blocks = (n + block - 1) / block
	w.each = max(GroupDocuments/block, 1)
	w.short = w.blocks*block - n
	w.outer = newPermutation(w.blocks, w.key)
	if w.blocks > 0 {
		w.at = w.outer.place(w.blocks - 1)
	}
	return w
}

// Len returns the number of documents of the epoch. Last must be known.
func (w *Walk) Len() uint64 { return w.Last + 1 - w.First }

// At returns the sequence of document k of the epoch.
func (w *Walk) At(k uint64) uint64 {
	if !w.Drawn {
		return w.First + k
	}
	docs, at := w.Group(k)
	return docs[at]
}

// groupOf returns the documents of the group that contains document k in stream order, and its index in them.
func (w *Walk) groupOf(k uint64) (docs []uint64, at int) {
	first := k - k%GroupDocuments
	w.docs = w.docs[:0]
	for s := w.First + first; s <= w.Last && s < w.First+first+GroupDocuments; s++ {
		w.docs = append(w.docs, s)
	}
	return w.docs, int(k - first)
}

// Group returns the sequences of the documents that are permuted together with document k, and its index in them.
// They are valid until the next call. In stream order nothing is permuted; a group is GroupDocuments consecutive
// documents, and Last must be known.
func (w *Walk) Group(k uint64) (docs []uint64, at int) {
	if !w.Drawn {
		return w.groupOf(k)
	}
	size := w.each * w.block
	g, start := k/size, uint64(0)
	if with := w.at / w.each; k >= (with+1)*size-w.short { // after the group with the short block
		g = (k + w.short) / size
	}
	start = w.start(g)
	if w.group != g+1 {
		w.draw(g)
	}
	return w.docs, int(k - start)
}

// start returns the position of the first document of a group.
func (w *Walk) start(group uint64) uint64 {
	start := group * w.each * w.block
	if group > w.at/w.each {
		start -= w.short
	}
	return start
}

// draw computes the order of a group.
func (w *Walk) draw(group uint64) {
	w.group, w.docs = group+1, w.docs[:0]
	for i := group * w.each; i < min((group+1)*w.each, w.blocks); i++ {
		first := w.First + w.outer.at(i)*w.block
		for s := first; s < first+w.block && s <= w.Last; s++ {
			w.docs = append(w.docs, s)
		}
	}
	base := w.start(group) // draws of a group are keyed by its positions; keys below 2^63 are those of blocks
	for i := len(w.docs) - 1; i > 0; i-- {
		j := w.key.Below(1<<63|(base+uint64(i)), i+1)
		w.docs[i], w.docs[j] = w.docs[j], w.docs[i]
	}
}

// permutation is a bijection of 0 ... n-1. It is a Feistel network over the least even number of bits that can
// represent n numbers. The network is repeated until the result is below n (cycle walking; Black and Rogaway, Ciphers
// with Arbitrary Finite Domains, 2002).
type permutation struct {
	n    uint64
	half uint // bits of a half
	key  shuffle.Key
}

const rounds = 4

func newPermutation(n uint64, key shuffle.Key) permutation {
	p := permutation{n: n, half: 1, key: key}
	for uint64(1)<<(2*p.half) < n {
		p.half++
	}
	return p
}

// at returns the image of i.
func (p *permutation) at(i uint64) uint64 {
	for i = p.forward(i); i >= p.n; {
		i = p.forward(i)
	}
	return i
}

// place returns the number whose image is x.
func (p *permutation) place(x uint64) uint64 {
	for x = p.backward(x); x >= p.n; {
		x = p.backward(x)
	}
	return x
}

func (p *permutation) forward(x uint64) uint64 {
	l, r := x>>p.half, x&(1<<p.half-1)
	for round := range uint64(rounds) {
		l, r = r, l^p.mask(round, r)
	}
	return l<<p.half | r
}

func (p *permutation) backward(x uint64) uint64 {
	l, r := x>>p.half, x&(1<<p.half-1)
	for round := range uint64(rounds) {
		l, r = r^p.mask(rounds-1-round, l), l
	}
	return l<<p.half | r
}

// mask returns the draw for a half in a round.
func (p *permutation) mask(round, half uint64) uint64 {
	return p.key.Uint64(round<<56|half) >> (64 - p.half)
}
