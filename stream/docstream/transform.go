package docstream

import (
	"fmt"
	"slices"

	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream/deadletter"
)

// transform turns a document into the tokens that a run uses, in this order:
//
//	limit   a document with too many own tokens is cut, left out or split (see pieces)
//	fim     a document that is drawn becomes prefix, suffix and middle
//	around  the BOS token and the end-of-document token are added
//
// Own tokens are those that no transformation adds. Every step is a pure function of the document and of the run's
// configuration.
type transform struct {
	bos, end   int32  // -1 for none
	maxOwn     int    // maximum own tokens of a document, 0 for no limit
	longPolicy string // what happens to longer documents
	fim        *fim   // nil disables fill-in-the-middle
	limit      int    // maximum tokens of a document after all steps
	narrow     bool   // documents store their ids in 16 bits each
	columns    []tokenColumn
	decode     func(dst []byte, ids []int32) []byte
}

func newTransform(t Tokenization, limit int) (transform, error) {
	c := t.Documents
	x := transform{bos: -1, end: t.End, maxOwn: c.MaxTokens.At, longPolicy: c.MaxTokens.Do, limit: limit,
		narrow: t.VocabSize <= 1<<16, decode: t.Decode, columns: tokenColumns(c)}
	var err error
	if c.BOS.IsSet() {
		if x.bos, err = t.resolveToken("documents.bos", c.BOS); err != nil {
			return x, err
		}
	}
	if c.FIM.Rate > 0 {
		x.fim, err = newFIM(t)
	}
	return x, err
}

// resolveToken returns the id of a token of a resolved configuration.
func (t Tokenization) resolveToken(field string, token runconfig.Token) (int32, error) {
	id, ok := token.ID()
	if !ok || int(id) >= t.VocabSize {
		return -1, fmt.Errorf("%s: %q: want a token id below the vocabulary size %d", field, token, t.VocabSize)
	}
	return id, nil
}

// transformResult is the result of transforming a document: tokens, or why it is not used. A document whose tokens have
// no loss has both.
type transformResult struct {
	tokens       []int32
	loss         plan.LossRuns
	cut          bool // tokens were cut off
	skip         plan.Skip
	columnValues                   // column values of its tokens
	pieces       []transformResult // of a split document; the other fields are then empty
}

// draft is a document during its transformation. Its own tokens are ids[first:]. A token before them arrived with it
// and is the BOS token.
type draft struct {
	ids             []int32 // in the encoder's scratch space, unless given
	fromTokens      bool    // they arrived as tokens, with room for one more
	mayAliasScratch bool    // the result may be in the encoder's scratch space
	first           int
	// lengths of alternating runs of ids with and without a loss, any of which may be 0; nil: all have one
	loss           []int32
	endLoss        bool       // whether an end-of-document token has one
	tooLong        bool       // it has too many tokens and is left out
	cut            bool       // tokens were cut off
	split          bool       // it has too many tokens and is split
	continues      bool       // it is a piece of a split document, and not the last
	layout         *fimLayout // nil: not reordered
	receivedTokens            // what arrived with the ids
}

func (d *draft) ownIDs() []int32 { return d.ids[d.first:] }

// apply transforms a document. If ids are narrow, the tokens of a document that is not split are valid until the
// encoder's next document.
func (t *transform) apply(x *decodedDocument,
	e *workspace) (m transformResult, failed *deadletter.Problem, stack []byte) {
	var d draft
	switch {
	case x.tokens != nil:
		d = t.draftTokens(x)
	case len(x.parts) > 0:
		d, failed, stack = t.draftParts(x.parts, e)
	case len(x.text) > 0:
		d, failed, stack = t.draftText(x.text, e)
	}
	switch {
	case failed != nil:
		return m, failed, stack
	case len(d.ownIDs()) == 0:
		return transformResult{skip: plan.SkipEmpty}, nil, nil
	case d.tooLong:
		return transformResult{skip: plan.SkipLong}, nil, nil
	case d.split:
		return t.pieces(&d, e)
	}
	d.mayAliasScratch = t.narrow
	m, failed = t.complete(&d)
	return m, failed, nil
}

// complete completes a document, or a piece of one, whose own tokens are final.
func (t *transform) complete(d *draft) (m transformResult, failed *deadletter.Problem) {
	if m, failed = t.assemble(d); failed == nil && !m.loss.HasLoss() {
		m.skip, m.cut = plan.SkipMasked, false
	}
	return m, failed
}

// draftTokens drafts a document that arrived as tokens. It may have arrived with the BOS and end-of-document tokens.
func (t *transform) draftTokens(x *decodedDocument) draft {
	d := draft{ids: x.tokens, fromTokens: true, loss: x.loss, receivedTokens: receivedTokens{columns: x.columns, end: -1}}
	d.endLoss = d.lastHasLoss()
	t.trimEnd(&d)
	t.detectBOS(&d)
	drawn, is := t.fim.drawTokens(d.ownIDs())
	if t.shorten(&d); is && x.loss == nil && !d.tooLong && !d.split {
		d.layout = drawn.cutTokens(len(d.ownIDs()))
	}
	return d
}

// draftParts drafts a document that arrived as parts of a text. Its end has the loss of the last part, even of an empty
// one, and also if the text itself ends with the end-of-document token.
func (t *transform) draftParts(parts []part, e *workspace) (d draft, failed *deadletter.Problem, stack []byte) {
	var ends []int
	if d.ids, ends, failed, stack = e.encodeParts(parts, t.limit); failed != nil {
		return d, failed, stack
	}
	before := 0
	for i, end := range ends {
		d.loss = appendRun(d.loss, parts[i].loss, end-before)
		before = end
	}
	t.trimEnd(&d)
	d.endLoss = parts[len(parts)-1].loss
	t.detectBOS(&d)
	t.shorten(&d)
	return d, nil, nil
}

// draftText drafts a document that arrived as a text. Fill-in-the-middle cuts it between characters and tokenizes each
// part separately. If that is not possible, it cuts between tokens.
func (t *transform) draftText(text []byte, e *workspace) (d draft, failed *deadletter.Problem, stack []byte) {
	drawn, is := t.fim.drawText(text)
	d.endLoss = true
	if !is || t.maxOwn > 0 || t.fim.addsSpaces {
		if d.ids, failed, stack = e.encode(text); failed != nil {
			return d, failed, stack
		}
		t.detectBOS(&d)
		if t.shorten(&d); !is || d.tooLong || len(d.ownIDs()) == 0 || d.split {
			return d, nil, nil
		}
	}
	switch {
	case t.fim.addsSpaces || d.cut && t.decode == nil:
		text = nil
	case d.cut:
		text = trimPartialCharacter(t.decode(nil, d.ownIDs()))
	}
	if len(text) == 0 { // also if only part of a character is left
		d.layout = drawn.cutTokens(len(d.ownIDs()))
		return d, nil, nil
	}
	failed, stack = t.applyFIM(&d, drawn, text, e)
	return d, failed, stack
}

// applyFIM sets a draft to a text after fill-in-the-middle: cut between characters, each part tokenized separately.
func (t *transform) applyFIM(d *draft, drawn fimDraw, text []byte,
	e *workspace) (failed *deadletter.Problem, stack []byte) {
	parts, form := drawn.cutText(text)
	ids, ends, failed, stack := e.encodeParts(parts, t.limit)
	if failed != nil {
		return failed, stack
	}
	d.ids, d.first = ids, 0
	t.detectBOS(d)
	form.a, form.b = max(ends[0]-d.first, 0), max(ends[1]-d.first, 0)
	d.layout = &form
	return nil, nil
}

// detectBOS records whether a document already begins with the BOS token.
func (t *transform) detectBOS(d *draft) {
	if len(d.ids) > 0 && d.ids[0] == t.bos {
		d.first = 1
	}
}

// trimEnd removes the end-of-document token that a document arrived with.
func (t *transform) trimEnd(d *draft) {
	if n := len(d.ids); n > 0 && d.ids[n-1] == t.end {
		d.truncate(n - 1)
		d.receivedTokens.end = int32(n - 1)
	}
}

// lastHasLoss reports whether the last token has a loss.
func (d *draft) lastHasLoss() bool {
	last := len(d.loss) - 1
	for last > 0 && d.loss[last] == 0 {
		last--
	}
	return last < 0 || last%2 == 0
}

// shorten applies the limit.
func (t *transform) shorten(d *draft) {
	switch {
	case t.maxOwn == 0 || len(d.ownIDs()) <= t.maxOwn:
	case t.longPolicy == runconfig.MaxDrop:
		d.tooLong = true
	case t.longPolicy == runconfig.MaxCut:
		d.cut = true
		d.truncate(d.first + t.maxOwn)
	case t.longPolicy == runconfig.MaxSplit: // before fill-in-the-middle, which may add tokens
		d.split = true
	}
}

// truncate truncates the draft to its first n ids.
func (d *draft) truncate(n int) {
	d.ids = d.ids[:n]
	if d.loss == nil {
		return
	}
	kept := make([]int32, 0, len(d.loss))
	for _, run := range d.loss {
		run = min(run, int32(n))
		kept = append(kept, run)
		n -= int(run)
	}
	d.loss = kept
}

// assemble assembles the tokens of a document, with the BOS token before them and the end-of-document token if the
// document ends with them.
func (t *transform) assemble(d *draft) (m transformResult, failed *deadletter.Problem) {
	own := d.ownIDs()
	begins, puts, ends := t.bos >= 0, t.bos >= 0 && d.first == 0, t.end >= 0 && !d.cut && !d.continues
	n := len(own)
	if d.layout != nil {
		n += sentinelCount
	}
	if begins {
		n++
	}
	if ends {
		n++
	}
	if n > t.limit {
		return m, newProblem(tooLarge, "%d tokens, a document may have %d", n, t.limit)
	}
	m.cut, m.loss = d.cut, d.lossRuns(puts, ends)
	laid := puts || d.layout != nil || d.cut && !d.mayAliasScratch
	m.tokens = d.ids
	if laid {
		put := addedTokens{bos: t.bos}
		if d.layout != nil {
			put.sentinelIDs = t.fim.sentinelIDs
		}
		m.tokens = d.appendTokens(make([]int32, 0, n), own, begins, put)
	}
	if ends {
		m.tokens = append(m.tokens, t.end)
	}
	if !laid && !d.fromTokens && !d.mayAliasScratch {
		// a copy of the scratch space, made with the end included so that the new memory is not cleared first
		m.tokens = slices.Clone(m.tokens)
	}
	if d.receivedTokens.columns != nil {
		m.columnValues = t.locateTokens(d, begins, ends, n)
	}
	return m, nil
}

// addedTokens holds the tokens that are put before and into a document, or the values at their positions.
type addedTokens struct {
	bos int32
	sentinelIDs
}

// appendTokens assembles one value per token of a document up to its end: its own, and those that are put before and
// among them.
func (d *draft) appendTokens(dst, own []int32, begins bool, put addedTokens) []int32 {
	if begins {
		dst = append(dst, put.bos)
	}
	if d.layout != nil {
		return put.appendParts(dst, own, *d.layout)
	}
	return append(dst, own...)
}

// lossRuns returns which tokens have a loss if a token was put before or behind them. A token before them has the loss
// of the document's first token.
func (d *draft) lossRuns(before, behind bool) plan.LossRuns {
	if d.loss == nil {
		return nil
	}
	lengths := make([]int32, 0, len(d.loss)+4)
	if before {
		first := 0
		for d.loss[first] == 0 {
			first++
		}
		if lengths = appendRun(lengths, first%2 == 0, 1); len(lengths)%2 == 1 {
			lengths = append(lengths, 0) // the document's own runs begin with tokens that have a loss
		}
	}
	lengths = append(lengths, d.loss...)
	if behind {
		lengths = appendRun(lengths, d.endLoss, 1)
	}
	return plan.NewLossRuns(lengths)
}

// appendRun appends a run of n tokens with or without a loss to alternating runs.
func appendRun(lengths []int32, loss bool, n int) []int32 {
	if (len(lengths)%2 == 0) != loss {
		lengths = append(lengths, 0)
	}
	return append(lengths, int32(n))
}
