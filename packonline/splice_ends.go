package packonline

import "encoding/binary"

// ends counts how the rows of splice ended.
type ends struct {
	related   int64 // filled with related pieces
	mixed     int64 // filled with one related piece and others of matching lengths
	length    int64 // related pieces, filled with others of matching lengths
	padded    int64 // related pieces and padding
	trimmed   int64 // full, with the last document cut
	unrelated int64 // packed by length only
	silent    int64 // documents without the data that the retriever compares
}

// list returns the counts in the order of a state.
func (e *ends) list() []*int64 {
	return []*int64{&e.related, &e.mixed, &e.length, &e.padded, &e.trimmed, &e.unrelated, &e.silent}
}

// Detail returns how rows have ended since the start, across all restores of the state. The counts of rows add up to
// Counts.Rows. It also returns the number of documents without the data that the retriever compares: a path, an
// embedding or a term.
func (p *splice) Detail() map[string]int64 {
	e := p.ends
	return map[string]int64{
		"rows_ended_related":   e.related,
		"rows_ended_mixed":     e.mixed,
		"rows_ended_by_length": e.length,
		"rows_ended_padded":    e.padded,
		"rows_ended_trimmed":   e.trimmed,
		"rows_unrelated":       e.unrelated,
		"rows_of_one_document": p.counts.Rows - e.related - e.mixed - e.length - e.padded - e.trimmed - e.unrelated,
		"documents_silent":     e.silent,
	}
}

// byLength counts the rows that pack makes as packed by length.
func (p *splice) byLength(pack func()) {
	before := p.counts.Rows
	pack()
	p.ends.unrelated += p.counts.Rows - before
}

func (e ends) append(b []byte) []byte {
	for _, n := range e.list() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	return b
}

func (r *reader) ends(c Counts) (e ends) {
	left := c.Rows
	for _, n := range e.list() {
		what := "rows that ended so"
		if n == &e.silent {
			what, left = "silent documents", c.Documents
		}
		*n = r.number(what, left)
		left -= *n
	}
	return e
}
