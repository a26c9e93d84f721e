package packonline

// run is a sequence of tokens that is cut every length tokens. It holds the row under construction: fewer than length
// tokens, in order of arrival, one piece per document.
type run struct {
	length int32
	row    []waiting
	used   int32 // tokens in row
}

// feed appends a piece and emits the rows that it fills. A document that is cut here for the first time counts as
// split.
func (r *run) feed(t *tally, w waiting, out *Rows) {
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
		if r.used == r.length {
			r.end(t, out)
		}
	}
}

// expire emits the row if its oldest piece must not wait for another document.
func (r *run) expire(t *tally, out *Rows) {
	if len(r.row) > 0 && t.due(r.row[0], 0) {
		r.end(t, out)
	}
}

// end emits the row under construction, if it has tokens.
func (r *run) end(t *tally, out *Rows) {
	if len(r.row) == 0 {
		return
	}
	for _, w := range r.row {
		out.add(Piece{w.doc, w.start, w.length}, t.age(w))
	}
	t.close(r.length, r.used, out)
	r.row, r.used = r.row[:0], 0
}

// restore adopts the pieces of a state. It returns an error if they cannot be the row under construction of r.
func (r *run) restore(row []waiting) error {
	used, err := underConstruction(row, r.length)
	if err != nil {
		return err
	}
	r.row, r.used = row, used
	return nil
}
