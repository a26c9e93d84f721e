package packonline

// tokenRun is a sequence of tokens that is cut every length tokens. It holds the row under construction: fewer than
// length tokens, in order of arrival, one piece per document.
type tokenRun struct {
	length int32
	row    []bufferedPiece
	used   int32 // tokens in row
}

// addPiece appends a piece and emits the rows that it fills. A document that is cut here for the first time counts as
// split.
func (r *tokenRun) addPiece(t *packerBase, w bufferedPiece, out *Rows) {
	if w.start == 0 && w.length > r.length-r.used {
		t.counts.Truncated++
	}
	for w.length > 0 {
		head := w
		head.length = min(w.length, r.length-r.used)
		r.row = append(r.row, head)
		r.used += head.length
		w.start += head.length
		w.length -= head.length
		if r.used == r.length || t.documentsLeft(len(r.row)) == 0 {
			r.emitRow(t, out)
		}
	}
}

// emitIfDue emits the row if its oldest piece must not wait for another document.
func (r *tokenRun) emitIfDue(t *packerBase, out *Rows) {
	if len(r.row) > 0 && t.isDue(r.row[0], 0) {
		r.emitRow(t, out)
	}
}

// emitRow emits the row under construction, if it has tokens.
func (r *tokenRun) emitRow(t *packerBase, out *Rows) {
	if len(r.row) == 0 {
		return
	}
	for _, w := range r.row {
		out.add(Piece{w.doc, w.start, w.length}, t.age(w))
	}
	t.closeRow(r.length, r.used, out)
	r.row, r.used = r.row[:0], 0
}

// restore adopts the pieces of a state. It returns an error if they cannot be the row under construction of r.
func (r *tokenRun) restore(row []bufferedPiece) error {
	used, err := countRowTokens(row, r.length)
	if err != nil {
		return err
	}
	r.row, r.used = row, used
	return nil
}
