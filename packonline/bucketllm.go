package packonline

import (
	"fmt"
	"math/bits"
)

// bucketLLM is the greedy multi-bucket method of Beyond Fixed Length (Algorithms 1 and 2): bucketllm and, without the
// pair heuristic, bucketllm-v0. While the pool holds at least S = Pool documents, rows are made (Algorithm 1):
//
//   - The row is the smallest bucket that holds the longest document of the pool. It takes the longest document that
//     still fits until none does (Algorithm 2, lines 2 to 18).
//   - bucketllm makes one more check before it places a document tau. Let s be the space before it and r = s -
//     len(tau) the space after it. The check applies if the shortest document of the pool is longer than r, and r is
//     more than the share P = PaddingThreshold of the row. Then bucketllm places, instead of tau, the two documents
//     a, b with the greatest len(a) + len(b) <= s that is above len(tau), if such a pair exists (lines 6 to 11,
//     equation 4). The paper has <= r there, which no pair can satisfy, because each of a, b is longer than r. Its
//     other requirement, more tokens than tau in the same space, is satisfied by <= s.
//   - The documents of the row are permuted randomly, here keyed by (Seed, number of the row) (line 26).
//   - If more than the share P of the row is left, the first tokens of the pool's shortest document fill it. The rest
//     of that document stays in the pool (lines 27 to 29). Otherwise, and if the pool is empty, the space is padding
//     (line 31).
//
// For a document as long as the longest bucket or longer, full rows are emitted at arrival and the rest is buffered.
// The paper puts such a document into the pool and cuts d[0:b] off when it is the longest there and the row is empty
// (lines 21 to 23). Because the longest is placed first, these are the same rows, at most a pool earlier. So no piece
// in the pool is longer than a row, and the size of the pool bounds the buffered pieces.
//
// A flush makes rows until the pool is empty. The paper does not define what happens to the last S-1 documents.
//
// Short documents complete rows and long ones seed them. So the paper's method leaves documents of medium length in
// the pool without bound: for half of a million documents in a pool of 100,000. MaxAge is not in the paper. A piece
// that one more document would make too old seeds a row immediately, and is placed in it regardless of line 6. With
// MaxAge = 0 the method is the paper's.
//
//   - invariant 3: after Add fewer than Pool pieces are buffered, and at most MaxAge if that is set: at most one per
//     document.
//   - invariant 4: with a MaxAge, no piece is older when it is emitted.
//   - invariant 5: a piece costs O(log64 L). A row costs one search for a pair of at most maxPairSteps such steps,
//     because nothing fits after the document or the pair that it places.
type bucketLLM struct {
	packerBase
	pool  *sortedPool
	row   []bufferedPiece // under construction, empty between calls
	pairs bool
}

func newBucketLLM(c Config) Packer   { return makeBucketLLM(c, true) }
func newBucketLLMv0(c Config) Packer { return makeBucketLLM(c, false) }

func makeBucketLLM(c Config, pairs bool) *bucketLLM {
	t := newTally(c)
	return &bucketLLM{packerBase: t, pool: newSortedPool(t.longest), pairs: pairs}
}

func (p *bucketLLM) Add(d Doc, out *Rows) {
	p.countDocument(d)
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	if start := p.emitFullRows(d, out); start < d.Length {
		p.pool.add(bufferedPiece{d.Seq, p.now(), start, d.Length - start})
	}
	for p.pool.pieces >= p.config.Pool {
		p.emit(p.pool.longestAtMost(p.longest), false, out)
	}
	if p.pool.pieces > 0 && p.isDue(*p.pool.pieceAt(p.pool.oldest), 0) {
		p.emit(p.pool.oldest, true, out)
	}
}

func (p *bucketLLM) Flush(out *Rows) {
	for p.pool.pieces > 0 {
		p.emit(p.pool.longestAtMost(p.longest), false, out)
	}
}

// emit makes a row from the piece at place tau, which is kept in it if it is due, and pieces that fit into the rest.
func (p *bucketLLM) emit(tau int32, due bool, out *Rows) {
	length := p.lengths[bucketFor(p.lengths, p.pool.pieceAt(tau).length)]
	room, threshold := length, int32(p.config.PaddingThreshold*float64(length))
	for ; tau != none; tau = p.pool.longestAtMost(room) {
		n := p.pool.pieceAt(tau).length
		left := room - n
		if p.pairs && !due && left > threshold && left < p.pool.pieceAt(p.pool.shortest()).length {
			if a, b := p.pool.bestPair(n, room); a != none {
				room -= p.addPiece(a) + p.addPiece(b)
				continue
			}
		}
		room -= p.addPiece(tau)
		due = false
	}
	p.shuffleRow()
	if i := p.pool.shortest(); i != none && room > threshold {
		w := p.pool.cutHead(i, room)
		if w.start == 0 {
			p.counts.Truncated++
		}
		p.row = append(p.row, w)
		room = 0
	}
	for _, w := range p.row {
		out.add(Piece{w.doc, w.start, w.length}, p.age(w))
	}
	p.row = p.row[:0]
	p.closeRow(length, length-room, out)
}

// addPiece moves a piece from the pool into the row and returns its length.
func (p *bucketLLM) addPiece(i int32) int32 {
	w := p.pool.remove(i)
	p.row = append(p.row, w)
	return w.length
}

// shuffleRow permutes the pieces of the row, keyed by (Seed, number of the row).
func (p *bucketLLM) shuffleRow() {
	key := splitMix64(p.config.Seed ^ splitMix64(uint64(p.counts.Rows)))
	for i := len(p.row) - 1; i > 0; i-- {
		j, _ := bits.Mul64(splitMix64(key+uint64(i)), uint64(i+1))
		p.row[i], p.row[j] = p.row[j], p.row[i]
	}
}

// splitMix64 is the output function of SplitMix64 (Steele, Lea, Flood 2014) after one step.
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (p *bucketLLM) Pending() Pending {
	if p.pool.oldest == none {
		return p.pending(0, nil)
	}
	return p.pending(p.pool.pieces, p.pool.pieceAt(p.pool.oldest))
}

func (p *bucketLLM) Each(f func(Piece)) { eachPiece(f, p.pool.listPieces()) }

func (p *bucketLLM) AppendState(b []byte) []byte { return p.appendState(b, p.pool.listPieces()) }

func (p *bucketLLM) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, 1)
	if err != nil {
		return nil, err
	}
	pieces := lists[0]
	if len(pieces) >= p.config.Pool {
		return nil, fmt.Errorf("restore packer: %d pieces wait, a pool of %d makes rows of so many", len(pieces),
			p.config.Pool)
	}
	if err := checkOrder(byArrival(pieces)); err != nil {
		return nil, err
	}
	for i, w := range pieces {
		if w.length >= t.longest || i > 0 && w.length < pieces[i-1].length {
			return nil, fmt.Errorf("restore packer: %d tokens of document %d wait for a row of %d behind a piece of %d",
				w.length, w.doc, t.longest, pieces[max(i-1, 0)].length)
		}
	}
	pool := newSortedPool(t.longest)
	pool.restore(pieces)
	p.packerBase, p.pool = t, pool
	return rest, nil
}
