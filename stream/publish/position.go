package publish

// Position is a position in an input, from which a reader of the input can continue.
type Position struct {
	// Entries, Offset and Line are the reader's own: what it has read, and where.
	Entries int64 `json:"entries,omitempty"`
	Offset  int64 `json:"offset,omitempty"`
	Line    int64 `json:"line,omitempty"`
	// Documents is how many first documents of the input precede it. Skipped of them are not in the stream.
	Documents int64 `json:"documents"`
	Skipped   int64 `json:"skipped,omitempty"`
	// Origin is the origin of the last one, and Index its index among the documents of that origin.
	Origin string `json:"origin"`
	Index  int    `json:"index,omitempty"`
}

// isValid reports whether the position precedes the uncommitted documents of a record.
func (p *Position) isValid(v recordValue) bool {
	return p.Entries >= 0 && p.Offset >= 0 && p.Line >= 0 && p.Index >= 0 && int64(p.Index) < p.Documents &&
		p.Skipped >= 0 && p.Skipped <= v.Skipped && p.Skipped <= p.Documents && p.Documents <= v.Documents &&
		p.Documents-p.Skipped <= v.Documents-v.Skipped
}

// Mark declares that a reader of the input can continue at a position that precedes all documents not offered yet. Of
// p, only Entries, Offset and Line are used.
func (r *Record) Mark(p Position) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.offered == 0 {
		return
	}
	r.mark = &Position{p.Entries, p.Offset, p.Line, r.offered, 0, r.origin, r.index}
}

// Position returns a position that precedes all documents of the input that are not committed, as marked by an earlier
// publisher. ok is false if there is none.
func (r *Record) Position() (p Position, ok bool) {
	if r.complete || r.value.Position == nil {
		return p, false
	}
	return *r.value.Position, true
}

// ContinueAt makes the first document after a position that Position has returned the next one to be offered.
func (r *Record) ContinueAt(p Position) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.offered, r.origin, r.index = p.Documents, p.Origin, p.Index
	r.p.committer.addProgress(0, 0, p.Documents-p.Skipped, 0)
}

// setPosition records a position if exactly the committed documents precede it. It copies the position, because its
// skipped documents are counted only here.
func (v *recordValue) setPosition(p *Position) {
	if p == nil || p.Documents != v.Documents {
		return
	}
	at := *p
	at.Skipped = v.Skipped
	v.Position = &at
}
