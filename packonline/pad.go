package packonline

// pad gives every document its own rows, as in Optimizing Packing and Shuffling (A.3). A document is cut into pieces
// of (atom - 1) tokens, each followed by an end-of-document token. The last piece, with the token that ends the
// document, has at most the length of an atom. Padding fills the rest: up to the atom if that is at most a row, else
// up to the next multiple of a row, so that no row is only padding.
//
// The slot for the token after a piece from the middle of a document counts as padding here. Padding and the end of
// documents have the same id unless a run is configured otherwise, and padding is always masked. In a run without
// end-of-document tokens the last piece has one more token of text.
//
// For atoms of several rows, Rows.Joined reports which rows belong together. Nothing is buffered, so there are no
// pool and no ages. A document costs O(rows).
type pad struct {
	packerBase
	atom int64 // tokens
}

func newPad(c Config) Packer {
	p := &pad{packerBase: newTally(c)}
	p.atom = int64(max(c.Atom, 1)) * int64(p.longest)
	return p
}

func (p *pad) Add(d Doc, out *Rows) {
	p.countDocument(d)
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	for start, left := int32(0), d.Length; left > 0; {
		n := left
		if int64(left) > p.atom {
			n = int32(p.atom - 1)
		}
		p.emit(d.Seq, start, n, out)
		start, left = start+n, left-n
	}
}

// emit appends the rows of one atom.
func (p *pad) emit(doc uint64, start, n int32, out *Rows) {
	for first := true; n > 0; first = false {
		used := min(n, p.longest)
		out.add(Piece{doc, start, used}, 0)
		if first {
			p.closeRow(p.longest, used, out)
		} else {
			p.closeJoinedRow(p.longest, used, out)
		}
		start, n = start+used, n-used
	}
}

func (p *pad) Flush(*Rows) {}

func (p *pad) Pending() Pending { return p.pending(0, nil) }

func (p *pad) Each(func(Piece)) {} // nothing is buffered

func (p *pad) AppendState(b []byte) []byte { return p.appendState(b) }

func (p *pad) RestoreState(b []byte) ([]byte, error) {
	t, _, rest, err := p.readState(b, 0)
	if err != nil {
		return nil, err
	}
	p.packerBase = t
	return rest, nil
}
