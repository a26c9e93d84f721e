package docstream

// receivedTokens describes the ids of a draft that arrived as tokens, and their column values.
type receivedTokens struct {
	columns [][]byte // values per received token, by column; nil for none
	from    int32    // position of the draft's first id among the received tokens
	end     int32    // position of the received end-of-document token, -1 for none
}

// notReceived is the position of a token that was not received.
const notReceived = -1

// tokenRun is a run of n tokens of an assembled document. They were received at positions first, first+1, ..., or, if
// first is none, not received but added.
type tokenRun struct{ first, n int32 }

// columnValues holds a document's column values as they were received, and where each of its tokens was received.
type columnValues struct {
	columns   [][]byte // nil for a column that the document does not have, or as a whole
	tokenRuns []tokenRun
}

// locateTokens returns where each of the n tokens of an assembled document was received.
func (t *transform) locateTokens(d *draft, begins, ends bool, n int) columnValues {
	v := columnValues{columns: d.receivedTokens.columns, tokenRuns: make([]tokenRun, 0, 2)}
	if d.layout == nil && begins == (d.first > 0) {
		v.addRun(tokenRun{d.receivedTokens.from, int32(len(d.ids))})
	} else {
		own := make([]int32, len(d.ownIDs()))
		for i := range own {
			own[i] = d.receivedTokens.from + int32(d.first+i)
		}
		put := addedTokens{notReceived, sentinelIDs{notReceived, notReceived, notReceived}}
		if d.first > 0 { // the BOS token was received
			put.bos = d.receivedTokens.from
		}
		for _, place := range d.appendTokens(make([]int32, 0, n), own, begins, put) {
			v.addRun(tokenRun{place, 1})
		}
	}
	if ends {
		v.addRun(tokenRun{d.receivedTokens.end, 1})
	}
	return v
}

// addRun appends a span or extends the last one.
func (v *columnValues) addRun(s tokenRun) {
	if k := len(v.tokenRuns) - 1; k >= 0 {
		if last := &v.tokenRuns[k]; s.first == notReceived && last.first == notReceived || s.first != notReceived &&
			last.first != notReceived &&
			last.first+last.n == s.first {
			last.n += s.n
			return
		}
	}
	v.tokenRuns = append(v.tokenRuns, s)
}

// appendRuns appends the values of the tokens of the spans. Tokens that were not received get the fill value.
func (c tokenColumn) appendRuns(dst, values []byte, spans []tokenRun) []byte {
	for _, s := range spans {
		if s.first == notReceived {
			dst = c.appendFill(dst, int(s.n))
		} else {
			dst = append(dst, values[int(s.first)*c.width:int(s.first+s.n)*c.width]...)
		}
	}
	return dst
}

// appendFill appends the fill value n times.
func (c tokenColumn) appendFill(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, c.fill...)
	}
	return dst
}
