package packonline

// concat joins all documents into one run of tokens and cuts it every L tokens, which is common practice since GPT. A
// document that is cut continues in the next row. Padding only occurs in a flush, when a piece would exceed
// MaxAge, and in rows of MaxDocumentsPerRow documents.
//
// Only the row under construction is buffered: fewer than L tokens, and one piece per document. A document costs O(1
// + rows it ends).
type concat struct {
	packerBase
	row  []bufferedPiece // in order of arrival
	used int32           // tokens in row
}

func newConcat(c Config) Packer { return &concat{packerBase: newTally(c)} }

func (p *concat) Add(d Doc, out *Rows) {
	p.countDocument(d)
	start, left := int32(0), d.Length
	if left > p.longest-p.used {
		p.counts.Truncated++
	}
	for left > 0 {
		n := min(left, p.longest-p.used)
		p.row = append(p.row, bufferedPiece{d.Seq, p.now(), start, n})
		p.used += n
		start, left = start+n, left-n
		if p.used == p.longest || p.documentsLeft(len(p.row)) == 0 {
			p.emit(out)
		}
	}
	if len(p.row) > 0 && p.isDue(p.row[0], 0) {
		p.emit(out)
	}
}

func (p *concat) Flush(out *Rows) {
	if len(p.row) > 0 {
		p.emit(out)
	}
}

func (p *concat) emit(out *Rows) {
	for _, w := range p.row {
		out.add(Piece{w.doc, w.start, w.length}, p.age(w))
	}
	p.closeRow(p.longest, p.used, out)
	p.row, p.used = p.row[:0], 0
}

func (p *concat) Pending() Pending { return p.pending(len(p.row), firstPiece(p.row)) }

func (p *concat) Each(f func(Piece)) { eachPiece(f, p.row) }

func (p *concat) AppendState(b []byte) []byte { return p.appendState(b, p.row) }

func (p *concat) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, 1)
	if err != nil {
		return nil, err
	}
	row := lists[0]
	used, err := countRowTokens(row, p.longest)
	if err != nil {
		return nil, err
	}
	if err := t.checkDocuments(len(row)); err != nil {
		return nil, err
	}
	p.packerBase, p.row, p.used = t, row, used
	return rest, nil
}
