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
func (t *transform) pieces(d *draft, e *workspace) (m transformResult, failed *deadletter.Problem, stack []byte) {
	own, fills := d.ownIDs(), t.fim != nil && d.loss == nil
	if fills && !d.fromTokens {
		own = slices.Clone(own) // encoding a piece overwrites the scratch space
	}
	n := (len(own) + t.maxOwn - 1) / t.maxOwn
	m.pieces = make([]transformResult, n)
	for i := range n {
		from, to := len(own)*i/n, len(own)*(i+1)/n
		p := draft{ids: own[from:to], continues: i+1 < n, endLoss: d.endLoss, receivedTokens: d.receivedTokens}
		p.receivedTokens.from += int32(d.first + from)
		if i == 0 { // with the BOS token that it arrived with
			p = draft{ids: d.ids[:d.first+to], first: d.first, continues: true, receivedTokens: d.receivedTokens}
		} else {
			t.detectBOS(&p)
		}
		if d.loss != nil {
			p.loss = plan.LossRuns(d.loss).AppendRuns(nil, int32(d.first+to-len(p.ids)), int32(d.first+to))
		}
		if fills {
			if failed, stack = t.fillPiece(&p, !d.fromTokens, e); failed != nil {
				return transformResult{}, failed, stack
			}
		}
		if m.pieces[i], failed = t.complete(&p); failed != nil {
			return transformResult{}, failed, nil
		}
	}
	return m, nil, nil
}

// fillPiece applies fill-in-the-middle to a piece if it is drawn. A piece of a text is cut between characters if it
// consists of whole characters and the tokenizer encodes it the same at any position. Any other piece is cut between
// tokens.
func (t *transform) fillPiece(p *draft, ofText bool, e *workspace) (failed *deadletter.Problem, stack []byte) {
	drawn, is := t.fim.drawTokens(p.ownIDs())
	if !is {
		return nil, nil
	}
	if ofText && t.decode != nil && !t.fim.addsSpaces && !t.fim.marksTextStart {
		if text := t.decode(nil, p.ownIDs()); len(text) > 0 && utf8.Valid(text) {
			return t.applyFIM(p, drawn, text, e)
		}
	}
	p.layout = drawn.cutTokens(len(p.ownIDs()))
	return nil, nil
}
