package mixture

import (
	"fmt"

	"loaderd/shuffle"
)

// EpochOrder is the order in which an epoch takes the documents first ... last of a stream.
//
// In stream order, document k of the epoch is first+k. In a drawn order, the documents are cut into blocks, which are
// permuted. GroupDocuments/Block blocks form a group, and the documents of a group are permuted among each other. So
// neighbours in training are from the same block at most once in GroupDocuments/Block times. A group is read in
// ranges of a block. Position k of an epoch is computed without the positions before it.
type EpochOrder struct {
	First    uint64
	Last     uint64 // First-1 for an epoch without documents; 0 if unknown
	Shuffled bool

	block             uint64
	blocks            uint64      // of the epoch
	groupBlocks       uint64      // blocks per group
	key               shuffle.Key // of the epoch
	blockOrder        permutation // of the blocks
	lastBlockMissing  uint64      // documents missing from the last block of the stream
	lastBlockPosition uint64      // position of that block among the permuted blocks
	loadedGroup       uint64      // index of the group in docs, plus 1
	docs              []uint64    // sequences of the documents of a group, in their order
}

// GroupDocuments is the approximate number of documents in a group.
const GroupDocuments = 16384

// newStreamOrder returns the walk of the documents from first on, in stream order. last is the last document, or 0 if
// unknown.
func newStreamOrder(first, last uint64) *EpochOrder { return &EpochOrder{First: first, Last: last} }

// newShuffledOrder returns a walk of the documents first ... last in an order drawn for an epoch.
func newShuffledOrder(seed uint64, name string, epoch, first, last, block uint64) *EpochOrder {
	w := &EpochOrder{First: first, Last: last, Shuffled: true, block: block,
		key: shuffle.NewKey(seed, fmt.Sprintf("epoch %d of source %s", epoch, name))}
	n := last + 1 - first
	w.blocks = (n + block - 1) / block
	w.groupBlocks = max(GroupDocuments/block, 1)
	w.lastBlockMissing = w.blocks*block - n
	w.blockOrder = newPermutation(w.blocks, w.key)
	if w.blocks > 0 {
		w.lastBlockPosition = w.blockOrder.preimage(w.blocks - 1)
	}
	return w
}

// Len returns the number of documents of the epoch. Last must be known.
func (w *EpochOrder) Len() uint64 { return w.Last + 1 - w.First }

// At returns the sequence of document k of the epoch.
func (w *EpochOrder) At(k uint64) uint64 {
	if !w.Shuffled {
		return w.First + k
	}
	docs, at := w.Group(k)
	return docs[at]
}

// streamGroup returns the documents of the group that contains document k in stream order, and its index in them.
func (w *EpochOrder) streamGroup(k uint64) (docs []uint64, at int) {
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
func (w *EpochOrder) Group(k uint64) (docs []uint64, at int) {
	if !w.Shuffled {
		return w.streamGroup(k)
	}
	size := w.groupBlocks * w.block
	g, start := k/size, uint64(0)
	// after the group with the short block
	if with := w.lastBlockPosition / w.groupBlocks; k >= (with+1)*size-w.lastBlockMissing {
		g = (k + w.lastBlockMissing) / size
	}
	start = w.groupStart(g)
	if w.loadedGroup != g+1 {
		w.loadGroup(g)
	}
	return w.docs, int(k - start)
}

// groupStart returns the position of the first document of a group.
func (w *EpochOrder) groupStart(group uint64) uint64 {
	start := group * w.groupBlocks * w.block
	if group > w.lastBlockPosition/w.groupBlocks {
		start -= w.lastBlockMissing
	}
	return start
}

// loadGroup computes the order of a group.
func (w *EpochOrder) loadGroup(group uint64) {
	w.loadedGroup, w.docs = group+1, w.docs[:0]
	for i := group * w.groupBlocks; i < min((group+1)*w.groupBlocks, w.blocks); i++ {
		first := w.First + w.blockOrder.image(i)*w.block
		for s := first; s < first+w.block && s <= w.Last; s++ {
			w.docs = append(w.docs, s)
		}
	}
	base := w.groupStart(group) // draws of a group are keyed by its positions; keys below 2^63 are those of blocks
	for i := len(w.docs) - 1; i > 0; i-- {
		j := w.key.IntN(1<<63|(base+uint64(i)), i+1)
		w.docs[i], w.docs[j] = w.docs[j], w.docs[i]
	}
}

// permutation is a bijection of 0 ... n-1. It is a Feistel network over the least even number of bits that can
// represent n numbers. The network is repeated until the result is below n (cycle walking; Black and Rogaway, Ciphers
// with Arbitrary Finite Domains, 2002).
type permutation struct {
	n        uint64
	halfBits uint // bits of a half
	key      shuffle.Key
}

const feistelRounds = 4

func newPermutation(n uint64, key shuffle.Key) permutation {
	p := permutation{n: n, halfBits: 1, key: key}
	for uint64(1)<<(2*p.halfBits) < n {
		p.halfBits++
	}
	return p
}

// image returns the image of i.
func (p *permutation) image(i uint64) uint64 {
	for i = p.encrypt(i); i >= p.n; {
		i = p.encrypt(i)
	}
	return i
}

// preimage returns the number whose image is x.
func (p *permutation) preimage(x uint64) uint64 {
	for x = p.decrypt(x); x >= p.n; {
		x = p.decrypt(x)
	}
	return x
}

func (p *permutation) encrypt(x uint64) uint64 {
	l, r := x>>p.halfBits, x&(1<<p.halfBits-1)
	for round := range uint64(feistelRounds) {
		l, r = r, l^p.roundMask(round, r)
	}
	return l<<p.halfBits | r
}

func (p *permutation) decrypt(x uint64) uint64 {
	l, r := x>>p.halfBits, x&(1<<p.halfBits-1)
	for round := range uint64(feistelRounds) {
		l, r = r^p.roundMask(feistelRounds-1-round, l), l
	}
	return l<<p.halfBits | r
}

// roundMask returns the draw for a half in a round.
func (p *permutation) roundMask(round, half uint64) uint64 {
	return p.key.Uint64(round<<56|half) >> (64 - p.halfBits)
}
