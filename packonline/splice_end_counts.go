package packonline

import "encoding/binary"

// rowEndCounts counts how the rows of splice ended.
type rowEndCounts struct {
	related     int64 // filled with related pieces
	mixed       int64 // filled with one related piece and others of matching lengths
	byLength    int64 // related pieces, filled with others of matching lengths
	padded      int64 // related pieces and padding
	trimmed     int64 // full, with the last document cut
	unrelated   int64 // packed by length only
	withoutHint int64 // documents without the data that the retriever compares
}

// counters returns the counts in the order of a state.
func (e *rowEndCounts) counters() []*int64 {
	return []*int64{&e.related, &e.mixed, &e.byLength, &e.padded, &e.trimmed, &e.unrelated, &e.withoutHint}
}

// Detail returns how rows have ended since the start, across all restores of the state. The counts of rows add up to
// Counts.Rows. It also returns the number of documents without the data that the retriever compares: a path, an
// embedding or a term.
func (p *splice) Detail() map[string]int64 {
	e := p.endCounts
	return map[string]int64{
		"rows_ended_related":   e.related,
		"rows_ended_mixed":     e.mixed,
		"rows_ended_by_length": e.byLength,
		"rows_ended_padded":    e.padded,
		"rows_ended_trimmed":   e.trimmed,
		"rows_unrelated":       e.unrelated,
		"rows_of_one_document": p.counts.Rows - e.related - e.mixed - e.byLength - e.padded - e.trimmed - e.unrelated,
		"documents_silent":     e.withoutHint,
	}
}

// countByLength counts the rows that pack makes as packed by length.
func (p *splice) countByLength(pack func()) {
	before := p.counts.Rows
	pack()
	p.endCounts.unrelated += p.counts.Rows - before
}

func (e rowEndCounts) appendState(b []byte) []byte {
	for _, n := range e.counters() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	return b
}

func (r *reader) readEndCounts(c Counts) (e rowEndCounts) {
	left := c.Rows
	for _, n := range e.counters() {
		what := "rows that ended so"
		if n == &e.withoutHint {
			what, left = "silent documents", c.Documents
		}
		*n = r.number(what, left)
		left -= *n
	}
	return e
}
