package packonline

import (
	"errors"
	"fmt"
	"slices"
	"sort"
)

// naive is the naive bucketing method of Beyond Fixed Length (section 4), a baseline. A document is put into the
// smallest bucket that holds it completely, or into the longest bucket if none does. The documents of a bucket are
// concatenated and cut as in concat. So a document is cut almost as often as with one row length, because this
// depends on the tokens before it in its row, not on its own length. The paper uses the buckets 2048 to 16384; here
// they are those of the configuration.
//
// It buffers one row under construction per bucket, with one piece per document. A row with a piece that would become
// older than MaxAge is emitted with padding. A document costs O(buckets + rows it ends).
type naive struct {
	packerBase
	runs []tokenRun // one per row length
}

func newNaive(c Config) Packer {
	t := newTally(c)
	return &naive{packerBase: t, runs: newTokenRuns(t.lengths)}
}

func newTokenRuns(lengths []int32) []tokenRun {
	runs := make([]tokenRun, len(lengths))
	for i, l := range lengths {
		runs[i].length = l
	}
	return runs
}

func (p *naive) Add(d Doc, out *Rows) {
	p.countDocument(d)
	r := &p.runs[bucketFor(p.lengths, d.Length)]
	r.addPiece(&p.packerBase, bufferedPiece{d.Seq, p.now(), 0, d.Length}, out)
	for i := range p.runs {
		p.runs[i].emitIfDue(&p.packerBase, out)
	}
}

// bucketFor returns the index of the smallest of the ascending lengths that holds n tokens, or of the last one if
// none does.
func bucketFor(lengths []int32, n int32) int {
	for i, l := range lengths[:len(lengths)-1] {
		if n <= l {
			return i
		}
	}
	return len(lengths) - 1
}

func (p *naive) Flush(out *Rows) {
	for i := range p.runs {
		p.runs[i].emitRow(&p.packerBase, out)
	}
}

func (p *naive) Pending() Pending {
	pieces, oldest := 0, (*bufferedPiece)(nil)
	for i := range p.runs {
		row := p.runs[i].row
		pieces += len(row)
		if w := firstPiece(row); w != nil && (oldest == nil || w.arrived < oldest.arrived) {
			oldest = w
		}
	}
	return p.pending(pieces, oldest)
}

func (p *naive) Each(f func(Piece)) { eachPiece(f, p.rowLists()...) }

func (p *naive) AppendState(b []byte) []byte { return p.appendState(b, p.rowLists()...) }

// rowLists returns the buffered pieces of each run.
func (p *naive) rowLists() [][]bufferedPiece {
	lists := make([][]bufferedPiece, len(p.runs))
	for i := range p.runs {
		lists[i] = p.runs[i].row
	}
	return lists
}

func (p *naive) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, len(p.runs))
	if err != nil {
		return nil, err
	}
	if err := checkOrder(byArrival(lists...)); err != nil {
		return nil, err
	}
	runs := newTokenRuns(t.lengths)
	for i, row := range lists {
		if err := errors.Join(runs[i].restore(row), t.checkDocuments(len(row))); err != nil {
			return nil, err
		}
		for _, w := range row {
			if total := w.start + w.length; bucketFor(t.lengths, total) != i {
				return nil, fmt.Errorf("restore packer: document %d of %d tokens waits for a row of %d", w.doc, total, t.lengths[i])
			}
		}
	}
	p.packerBase, p.runs = t, runs
	return rest, nil
}

// byArrival returns the pieces of several lists in order of arrival.
func byArrival(lists ...[]bufferedPiece) []bufferedPiece {
	all := slices.Concat(lists...)
	sort.Slice(all, func(i, j int) bool { return all[i].arrived < all[j].arrived })
	return all
}
