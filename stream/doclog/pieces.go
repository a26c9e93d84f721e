package doclog

import (
	"slices"
	"unicode/utf8"

	"loaderd/loader/plan"
	"loaderd/stream/deadletter"
)

// pieces makes of a document that is too long as few documents as can be, of nearly the same number of tokens each: so
// none is a rest with hardly anything to learn from. Each is filled in by itself and has the token before documents;
// the document ends with the last of them, and so that alone has an end-of-document token.
func (t *transform) pieces(d *draft, e *encoder) (m made, failed *deadletter.Problem, stack []byte) {
	own, fills := d.own(), t.fim != nil && d.loss == nil
	if fills && !d.given {
		own = slices.Clone(own) // tokens of a piece take their place in the scratch space
	}
	n := (len(own) + t.max - 1) / t.max
	m.pieces = make([]made, n)
	for i := range n {
		from, to := len(own)*i/n, len(own)*(i+1)/n
		p := draft{ids: own[from:to], goesOn: i+1 < n, endLoss: d.endLoss, came: d.came}
		p.came.from += int32(d.first + from)
		if i == 0 { // with the token that came before it
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

// fillPiece fills a piece in, if it is drawn: that of a text between characters, where it begins and ends with whole
// ones and a tokenizer makes the same of them wherever they stand.
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
