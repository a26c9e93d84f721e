package packonline

import "fmt"

// concat joins all documents into one run of tokens and cuts it every L tokens, the usual practice since GPT. A document that a cut
// goes through continues in the next row. It pads only when it is flushed, or when a piece would wait beyond MaxAge.
//
// What waits is the row under construction: fewer than L tokens, and one piece a document. A document costs O(1 + rows it ends).
type concat struct {
	tally
	row  []waiting // in order of arrival
	used int32     // tokens in row
}

func newConcat(c Config) *concat { return &concat{tally: newTally(c)} }

func (p *concat) Add(d Doc, out *Rows) {
	p.arrive(d)
	start, left := int32(0), d.Length
	if left > p.length-p.used {
		p.counts.Truncated++
	}
	for left > 0 {
		n := min(left, p.length-p.used)
		p.row = append(p.row, waiting{d.Seq, p.now(), start, n})
		p.used += n
		start, left = start+n, left-n
		if p.used == p.length {
			p.emit(out)
		}
	}
	if len(p.row) > 0 && p.due(p.row[0], 0) {
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
	p.close(p.used, out)
	p.row, p.used = p.row[:0], 0
}

func (p *concat) Pending() Pending { return p.pending(p.row) }

func (p *concat) AppendState(b []byte) []byte { return p.appendState(b, p.row) }

func (p *concat) RestoreState(b []byte) ([]byte, error) {
	t, row, rest, err := p.readState(b)
	if err != nil {
		return nil, err
	}
	used := t.pending(row).Tokens
	if used >= int64(p.length) {
		return nil, fmt.Errorf("restore packer: %d tokens wait for a row of %d", used, p.length)
	}
	for i, w := range row {
		if i > 0 && w.start > 0 {
			return nil, fmt.Errorf("restore packer: document %d starts at %d in the middle of a row", w.doc, w.start)
		}
	}
	p.tally, p.row, p.used = t, row, int32(used)
	return rest, nil
}
