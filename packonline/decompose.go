package packonline

import (
	"errors"
	"fmt"
	"math/bits"
)

// decompose is dataset decomposition (Pouransari et al. 2024, section 2.1; DD in table 1 of Beyond Fixed Length), a
// baseline. A document is split into pieces whose lengths are the powers of two that add up to its own, longest
// first, and each piece is a row. So no row joins documents or is padded, and nearly every document is split. The row
// lengths must be powers of two, each twice the one before. A document longer than the longest row is first cut into
// as many such rows as it fills.
//
// The rest of a document that is shorter than the smallest bucket is its tail. Tails are concatenated and cut into
// rows of the smallest bucket, so that no token is lost. They are padded only in a flush, or when a piece would
// exceed MaxAge. Only these rows hold several documents, and only they are buffered: one row under construction with
// one piece per document. A document costs O(buckets + rows).
type decompose struct {
	packerBase
	tails tokenRun
}

func newDecompose(c Config) Packer {
	t := newTally(c)
	return &decompose{packerBase: t, tails: tokenRun{length: t.lengths[0]}}
}

// validateDecompose requires the row lengths of a binary split, and whole rows.
func validateDecompose(c Config) (bad []FieldError) {
	for i, l := range c.Buckets {
		field := fmt.Sprintf("buckets[%d]", i)
		switch {
		case bits.OnesCount(uint(l)) != 1:
			bad = append(bad, FieldError{field, l, "a power of two, since decompose splits documents in powers of two"})
		case i > 0 && l != 2*c.Buckets[i-1]:
			bad = append(bad, FieldError{field, l, fmt.Sprintf("%d: every power of two between the smallest and the largest row",
				2*c.Buckets[i-1])})
		}
	}
	if c.Atom < 1 {
		bad = append(bad, FieldError{"atom", c.Atom,
			"1 or more rows: a row of decompose is one piece of one document, rows merged from parts would not be"})
	}
	return bad
}

func (p *decompose) Add(d Doc, out *Rows) {
	p.countDocument(d)
	start, left := int32(0), d.Length
	for k := len(p.lengths) - 1; k >= 0; k-- {
		for n := p.lengths[k]; left >= n; start, left = start+n, left-n {
			if start == 0 && left > n {
				p.counts.Truncated++
			}
			out.add(Piece{d.Seq, start, n}, 0)
			p.closeRow(n, n, out)
		}
	}
	if left > 0 {
		p.tails.addPiece(&p.packerBase, bufferedPiece{d.Seq, p.now(), start, left}, out)
	}
	p.tails.emitIfDue(&p.packerBase, out)
}

func (p *decompose) Flush(out *Rows) { p.tails.emitRow(&p.packerBase, out) }

func (p *decompose) Pending() Pending { return p.pending(len(p.tails.row), firstPiece(p.tails.row)) }

func (p *decompose) Each(f func(Piece)) { eachPiece(f, p.tails.row) }

func (p *decompose) AppendState(b []byte) []byte { return p.appendState(b, p.tails.row) }

func (p *decompose) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, 1)
	if err != nil {
		return nil, err
	}
	tails := tokenRun{length: t.lengths[0], row: lists[0]}
	if err := errors.Join(checkOrder(tails.row), t.checkDocuments(len(tails.row))); err != nil {
		return nil, err
	}
	for i, w := range tails.row {
		if w.length >= tails.length-tails.used {
			return nil, fmt.Errorf("restore packer: %d tokens or more wait for a row of %d", tails.used+w.length, tails.length)
		}
		if i > 0 && w.start%tails.length != 0 {
			return nil, fmt.Errorf("restore packer: the tail of document %d starts at %d, which is not a multiple of %d", w.doc,
				w.start, tails.length)
		}
		tails.used += w.length
	}
	p.packerBase, p.tails = t, tails
	return rest, nil
}
