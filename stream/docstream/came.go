package docstream

// came describes the ids of a draft that arrived as tokens, and their column values.
type came struct {
	columns [][]byte // values per received token, by column; nil for none
	from    int32    // position of the draft's first id among the received tokens
	end     int32    // position of the received end-of-document token, -1 for none
}

// none is the position of a token that was not received.
const none = -1

// span is a run of n tokens of an assembled document. They were received at positions first, first+1, ..., or, if
// first is none, not received but added.
type span struct{ first, n int32 }

// values holds a document's column values as they were received, and where each of its tokens was received.
type values struct {
	columns [][]byte // nil for a column that the document does not have, or as a whole
	spans   []span
}

// follow returns where each of the n tokens of an assembled document was received.
func (t *transform) follow(d *draft, begins, ends bool, n int) values {
	v := values{columns: d.came.columns, spans: make([]span, 0, 2)}
	if d.form == nil && begins == (d.first > 0) {
		v.put(span{d.came.from, int32(len(d.ids))})
	} else {
		own := make([]int32, len(d.own()))
		for i := range own {
			own[i] = d.came.from + int32(d.first+i)
		}
		put := added{none, sentinelIDs{none, none, none}}
		if d.first > 0 { // the BOS token was received
			put.bos = d.came.from
		}
		for _, place := range d.lay(make([]int32, 0, n), own, begins, put) {
			v.put(span{place, 1})
		}
	}
	if ends {
		v.put(span{d.came.end, 1})
	}
	return v
}

// put appends a span or extends the last one.
func (v *values) put(s span) {
	if k := len(v.spans) - 1; k >= 0 {
		if last := &v.spans[k]; s.first == none && last.first == none || s.first != none && last.first != none &&
			last.first+last.n == s.first {
			last.n += s.n
			return
		}
	}
	v.spans = append(v.spans, s)
}

// gather appends the values of the tokens of the spans. Tokens that were not received get the fill value.
func (c tokenColumn) gather(dst, values []byte, spans []span) []byte {
	for _, s := range spans {
		if s.first == none {
			dst = c.filled(dst, int(s.n))
		} else {
			dst = append(dst, values[int(s.first)*c.width:int(s.first+s.n)*c.width]...)
		}
	}
	return dst
}

// filled appends the fill value n times.
func (c tokenColumn) filled(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, c.fill...)
	}
	return dst
}
