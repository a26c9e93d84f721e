package packonline

import "encoding/binary"

// ends counts how the rows of splice ended.
type ends struct {
	related   int64 // full of related pieces
	mixed     int64 // filled with a related piece and others of the right lengths
	length    int64 // filled with others of the right lengths, behind related ones
	padded    int64 // related and padded
	trimmed   int64 // full, the last document was cut
	unrelated int64 // made by length alone
	silent    int64 // documents that do not say what the retriever asks for
}

// list is what a state holds.
func (e *ends) list() []*int64 {
	return []*int64{&e.related, &e.mixed, &e.length, &e.padded, &e.trimmed, &e.unrelated, &e.silent}
}

// Detail returns how the rows ended since the beginning, whatever Packers have carried the state since; all of them
// together are the rows of Counts. Beside that it returns how many documents do not say what the retriever asks for:
// without a path, an embedding or a term.
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

// byLength counts the rows that pack makes.
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
