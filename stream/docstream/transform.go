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
	bos, end int32  // -1 for none
	max      int    // maximum own tokens of a document, 0 for no limit
	do       string // what happens to longer documents
	fim      *fim   // nil disables fill-in-the-middle
	limit    int    // maximum tokens of a document after all steps
	narrow   bool   // documents store their ids in 16 bits each
	columns  []tokenColumn
	decode   func(dst []byte, ids []int32) []byte
}

func newTransform(t Tokenizing, limit int) (transform, error) {
	c := t.Documents
	x := transform{bos: -1, end: t.End, max: c.MaxTokens.At, do: c.MaxTokens.Do, limit: limit,
		narrow: t.VocabSize <= 1<<16, decode: t.Decode, columns: tokenColumns(c)}
	var err error
	if c.BOS.Set() {
		if x.bos, err = t.id("documents.bos", c.BOS); err != nil {
			return x, err
		}
	}
	if c.FIM.Rate > 0 {
		x.fim, err = newFIM(t)
	}
	return x, err
}

// id returns the id of a token of a resolved configuration.
func (t Tokenizing) id(field string, token runconfig.Token) (int32, error) {
	id, ok := token.ID()
	if !ok || int(id) >= t.VocabSize {
		return -1, fmt.Errorf("%s: %q: want a token id below the vocabulary size %d", field, token, t.VocabSize)
	}
	return id, nil
}

// made is the result of transforming a document: tokens, or why it is not used. A document whose tokens have no loss
// has both.
type made struct {
	tokens []int32
	loss   plan.LossRuns
	cut    bool // tokens were cut off
	skip   plan.Skip
	values        // column values of its tokens
	pieces []made // of a split document; the other fields are then empty
}

// draft is a document during its transformation. Its own tokens are ids[first:]. A token before them arrived with it
// and is the BOS token.
type draft struct {
	ids     []int32 // in the encoder's scratch space, unless given
	given   bool    // they arrived as tokens, with room for one more
	stays   bool    // the result may be in the encoder's scratch space
	first   int
	loss    []int32 // lengths of alternating runs of ids with and without a loss, any of which may be 0; nil: all have one
	endLoss bool    // whether an end-of-document token has one
	long    bool    // it has too many tokens and is left out
	cut     bool    // tokens were cut off
	split   bool    // it has too many tokens and is split
	goesOn  bool    // it is a piece of a split document, and not the last
	form    *form   // nil: not reordered
	came            // what arrived with the ids
}

func (d *draft) own() []int32 { return d.ids[d.first:] }

// document transforms a document. If ids are narrow, the tokens of a document that is not split are valid until the
// encoder's next document.
func (t *transform) document(x *decoded, e *encoder) (m made, failed *deadletter.Problem, stack []byte) {
	var d draft
	switch {
	case x.tokens != nil:
		d = t.given(x)
	case len(x.parts) > 0:
		d, failed, stack = t.parts(x.parts, e)
	case len(x.text) > 0:
		d, failed, stack = t.text(x.text, e)
	}
	switch {
	case failed != nil:
		return m, failed, stack
	case len(d.own()) == 0:
		return made{skip: plan.SkipEmpty}, nil, nil
	case d.long:
		return made{skip: plan.SkipLong}, nil, nil
	case d.split:
		return t.pieces(&d, e)
	}
	d.stays = t.narrow
	m, failed = t.whole(&d)
	return m, failed, nil
}

// whole completes a document, or a piece of one, whose own tokens are final.
func (t *transform) whole(d *draft) (m made, failed *deadletter.Problem) {
	if m, failed = t.around(d); failed == nil && !m.loss.Any() {
		m.skip, m.cut = plan.SkipMasked, false
	}
	return m, failed
}

// given drafts a document that arrived as tokens. It may have arrived with the BOS and end-of-document tokens.
func (t *transform) given(x *decoded) draft {
	d := draft{ids: x.tokens, given: true, loss: x.loss, came: came{columns: x.columns, end: -1}}
	d.endLoss = d.lastLoss()
	t.ended(&d)
	t.begin(&d)
	drawn, is := t.fim.ofTokens(d.own())
	if t.shorten(&d); is && x.loss == nil && !d.long && !d.split {
		d.form = drawn.over(len(d.own()))
	}
	return d
}

// parts drafts a document that arrived as parts of a text. Its end has the loss of the last part, even of an empty
// one, and also if the text itself ends with the end-of-document token.
func (t *transform) parts(parts []part, e *encoder) (d draft, failed *deadletter.Problem, stack []byte) {
	var ends []int
	if d.ids, ends, failed, stack = e.encodeParts(parts, t.limit); failed != nil {
		return d, failed, stack
	}
	before := 0
	for i, end := range ends {
		d.loss = appendRun(d.loss, parts[i].loss, end-before)
		before = end
	}
	t.ended(&d)
	d.endLoss = parts[len(parts)-1].loss
	t.begin(&d)
	t.shorten(&d)
	return d, nil, nil
}

// text drafts a document that arrived as a text. Fill-in-the-middle cuts it between characters and tokenizes each
// part separately. If that is not possible, it cuts between tokens.
func (t *transform) text(text []byte, e *encoder) (d draft, failed *deadletter.Problem, stack []byte) {
	drawn, is := t.fim.ofText(text)
	d.endLoss = true
	if !is || t.max > 0 || t.fim.spaced {
		if d.ids, failed, stack = e.encode(text); failed != nil {
			return d, failed, stack
		}
		t.begin(&d)
		if t.shorten(&d); !is || d.long || len(d.own()) == 0 || d.split {
			return d, nil, nil
		}
	}
	switch {
	case t.fim.spaced || d.cut && t.decode == nil:
		text = nil
	case d.cut:
		text = wholeCharacters(t.decode(nil, d.own()))
	}
	if len(text) == 0 { // also if only part of a character is left
		d.form = drawn.over(len(d.own()))
		return d, nil, nil
	}
	failed, stack = t.fill(&d, drawn, text, e)
	return d, failed, stack
}

// fill sets a draft to a text after fill-in-the-middle: cut between characters, each part tokenized separately.
func (t *transform) fill(d *draft, drawn drawn, text []byte, e *encoder) (failed *deadletter.Problem, stack []byte) {
	parts, form := drawn.characters(text)
	ids, ends, failed, stack := e.encodeParts(parts, t.limit)
	if failed != nil {
		return failed, stack
	}
	d.ids, d.first = ids, 0
	t.begin(d)
	form.a, form.b = max(ends[0]-d.first, 0), max(ends[1]-d.first, 0)
	d.form = &form
	return nil, nil
}

// begin records whether a document already begins with the BOS token.
func (t *transform) begin(d *draft) {
	if len(d.ids) > 0 && d.ids[0] == t.bos {
		d.first = 1
	}
}

// ended removes the end-of-document token that a document arrived with.
func (t *transform) ended(d *draft) {
	if n := len(d.ids); n > 0 && d.ids[n-1] == t.end {
		d.keep(n - 1)
		d.came.end = int32(n - 1)
	}
}

// lastLoss reports whether the last token has a loss.
func (d *draft) lastLoss() bool {
	last := len(d.loss) - 1
	for last > 0 && d.loss[last] == 0 {
		last--
	}
	return last < 0 || last%2 == 0
}

// shorten applies the limit.
func (t *transform) shorten(d *draft) {
	switch {
	case t.max == 0 || len(d.own()) <= t.max:
	case t.do == runconfig.MaxDrop:
		d.long = true
	case t.do == runconfig.MaxCut:
		d.cut = true
		d.keep(d.first + t.max)
	case t.do == runconfig.MaxSplit: // before fill-in-the-middle, which may add tokens
		d.split = true
	}
}

// keep truncates the draft to its first n ids.
func (d *draft) keep(n int) {
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

// around assembles the tokens of a document, with the BOS token before them and the end-of-document token if the
// document ends with them.
func (t *transform) around(d *draft) (m made, failed *deadletter.Problem) {
	own := d.own()
	begins, puts, ends := t.bos >= 0, t.bos >= 0 && d.first == 0, t.end >= 0 && !d.cut && !d.goesOn
	n := len(own)
	if d.form != nil {
		n += sentinels
	}
	if begins {
		n++
	}
	if ends {
		n++
	}
	if n > t.limit {
		return m, bad(tooLarge, "%d tokens, a document may have %d", n, t.limit)
	}
	m.cut, m.loss = d.cut, d.runs(puts, ends)
	laid := puts || d.form != nil || d.cut && !d.stays
	m.tokens = d.ids
	if laid {
		put := added{bos: t.bos}
		if d.form != nil {
			put.sentinelIDs = t.fim.sentinelIDs
		}
		m.tokens = d.lay(make([]int32, 0, n), own, begins, put)
	}
	if ends {
		m.tokens = append(m.tokens, t.end)
	}
	if !laid && !d.given && !d.stays {
		// a copy of the scratch space, made with the end included so that the new memory is not cleared first
		m.tokens = slices.Clone(m.tokens)
	}
	if d.came.columns != nil {
		m.values = t.follow(d, begins, ends, n)
	}
	return m, nil
}

// added holds the tokens that are put before and into a document, or the values at their positions.
type added struct {
	bos int32
	sentinelIDs
}

// lay assembles one value per token of a document up to its end: its own, and those that are put before and among
// them.
func (d *draft) lay(dst, own []int32, begins bool, put added) []int32 {
	if begins {
		dst = append(dst, put.bos)
	}
	if d.form != nil {
		return put.fill(dst, own, *d.form)
	}
	return append(dst, own...)
}

// runs returns which tokens have a loss if a token was put before or behind them. A token before them has the loss of
// the document's first token.
func (d *draft) runs(before, behind bool) plan.LossRuns {
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
