package docstream

import (
	"slices"
	"unicode/utf8"

	"loaderd/loader/plan"
	"loaderd/stream/deadletter"
)

// pieces splits a document that is too long into as few documents as possible, with nearly equal numbers of tokens.
// No piece is therefore a short remainder with little to learn from. Fill-in-the-middle applies to each piece
// separately, and each has the BOS token. Only the last piece ends the document, so only it has an end-of-document
// token.
func (t *transform) pieces(d *draft, e *encoder) (m made, failed *deadletter.Problem, stack []byte) {
	own, fills := d.own(), t.fim != nil && d.loss == nil
	if fills && !d.given {
		own = slices.Clone(own) // encoding a piece overwrites the scratch space
	}
	n := (len(own) + t.max - 1) / t.max
	m.pieces = make([]made, n)
	for i := range n {
		from, to := len(own)*i/n, len(own)*(i+1)/n
		p := draft{ids: own[from:to], goesOn: i+1 < n, endLoss: d.endLoss, came: d.came}
		p.came.from += int32(d.first + from)
		if i == 0 { // with the BOS token that it arrived with
			p = draft{ids: d.ids[:d.first+to], first: d.first, goesOn: true, came: d.came}
		} else {
			t.begin(&p)
		}
		if d.loss != nil {
			p.loss = plan.LossRuns(d.loss).Append(nil, int32(d.first+to-len(p.ids)), int32(d.first+to))
		}
		if fills {
			if failed, stack = t.fillPiece(&p, !d.given, e); failed != nil {
				return made{}, failed, stack
			}
		}
		if m.pieces[i], failed = t.whole(&p); failed != nil {
			return made{}, failed, nil
		}
	}
	return m, nil, nil
}

// fillPiece applies fill-in-the-middle to a piece if it is drawn. A piece of a text is cut between characters if it
// consists of whole characters and the tokenizer encodes it the same at any position. Any other piece is cut between
// tokens.
func (t *transform) fillPiece(p *draft, ofText bool, e *encoder) (failed *deadletter.Problem, stack []byte) {
	drawn, is := t.fim.ofTokens(p.own())
	if !is {
		return nil, nil
	}
	if ofText && t.decode != nil && !t.fim.spaced && !t.fim.begins {
		if text := t.decode(nil, p.own()); len(text) > 0 && utf8.Valid(text) {
			return t.fill(p, drawn, text, e)
		}
	}
	p.form = drawn.over(len(p.own()))
	return nil, nil
}
