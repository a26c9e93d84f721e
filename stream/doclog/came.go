package doclog

// came is what came with the ids of a draft that came as tokens.
type came struct {
	columns [][]byte // of values for each token that came; nil for none
	from    int32    // place among those of the first id
	end     int32    // place of the end-of-document token, -1 where it did not come
}

// none is the place of a token that did not come.
const none = -1

// span is some tokens of a document that is put together: those that came at places first, first+1, ..., or, where
// first is none, that did not come.
type span struct{ first, n int32 }

// values are those of a document's tokens in the run's columns, as they came, and where each of its tokens came from.
type values struct {
	columns [][]byte // nil for one that the document has not, or for all of them
	spans   []span
}

// follow says where the tokens of a document that is put together came from, n of them.
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
		if d.first > 0 { // it came
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

// put appends a span, or makes the last one longer.
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

// gather appends the values of a document's tokens.
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

// filled appends the fill of n tokens.
func (c tokenColumn) filled(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, c.fill...)
	}
	return dst
}
