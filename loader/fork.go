package loader

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"loaderd/packonline"
)

// Parent is the run that a run was forked from. The new run plans what the parent's steps before Step left: the rest of the
// documents Floor ... Cursor, and all that follow.
type Parent struct {
	Run         string `json:"run"`
	Step        uint64 `json:"step"`
	Fingerprint string `json:"fingerprint"`
	Floor       uint64 `json:"floor"`  // all documents below are used up
	Cursor      uint64 `json:"cursor"` // no document behind is used
	Taken       []byte `json:"taken"`  // the tokens of documents Floor ... Cursor that the steps before Step hold; see takenForm
}

// takenForm is the form of Parent.Taken, in uvarints: for each document that is used in part or whole, in order of sequences, the
// distance from the one before (from Floor for the first), the number of its ranges, and for each of these the distance of its start
// from the end of the one before, and its length.
const takenForm = "distance ranges (distance length)..."

// span is tokens [start, end) of a document.
type span struct{ start, end int32 }

// Fork returns the header of a run that goes on where step of another run begins, with a configuration of its own, and the header of the
// other run: every token that the other run's steps before that one do not hold is planned again, and no other. docs is the document
// stream, which must be the other run's. A plan of an older algorithm does not say which that was; it is taken at its word.
// Documents below the floor of step are fed again only for their ids, as many as documents.dedupe looks back.
func Fork(ctx context.Context, parent PlanLog, step uint64, name string, c Config, docs StreamState) (forked, from Header, err error) {
	p := &planReader{log: parent}
	old, err := p.header(ctx)
	if err != nil {
		return forked, from, fmt.Errorf("fork: read the parent's header: %w", err)
	}
	if old.Stream != (Stream{}) {
		if err := old.madeOf(docs.Stream); err != nil {
			return forked, from, fmt.Errorf("fork: %w", err)
		}
	}
	if a, b := old.Config.Tokenizer, c.Tokenizer; a.Fingerprint != b.Fingerprint || a.End != b.End {
		return forked, from, fmt.Errorf("fork: %w", &Error{Reason: PlanMismatch,
			Message: fmt.Sprintf("run %s has tokenizer %s (end %d), the new run %s (end %d): what is left of documents that were used in part is counted in tokens", old.Run, a.Name, a.End, b.Name, b.End),
			Do:      "keep the tokenizer, or begin a run that is no fork"})
	}
	end, err := p.end(ctx)
	if err != nil {
		return forked, from, fmt.Errorf("fork: read the end of the parent's plan: %w", err)
	}
	if step > end.steps {
		return forked, from, fmt.Errorf("fork: %w", notPlanned(step, end.steps))
	}
	h := Header{Format: FormatVersion, Algorithm: AlgorithmVersion, Run: name, Fingerprint: c.Fingerprint(), Stream: docs.Stream, Config: c}
	used, err := p.usedBefore(ctx, step, old)
	if err != nil {
		return forked, from, fmt.Errorf("fork: %w", err)
	}
	floor := used.floor.Next()
	h.Parent = &Parent{Run: old.Run, Step: step, Fingerprint: old.Fingerprint, Floor: floor, Cursor: used.cursor.Last(), Taken: encodeTaken(used.taken, floor)}
	if !used.floor.Reaches(Before(docs.First)) {
		return forked, from, fmt.Errorf("fork: %w", &Error{Reason: DocumentLost,
			Message: fmt.Sprintf("step %d of run %s needs documents from %d on, and the stream begins at %d", step, old.Run, floor, docs.First),
			Do:      "fork at a later step"})
	}
	h.Start = max(docs.First, old.Start, floor-min(floor, uint64(c.Documents.Dedupe)))
	return h, old, nil
}

// usedBefore finds what the steps of a plan before one hold of documents that are not used up, those included that its own parent had used.
func (p *planReader) usedBefore(ctx context.Context, before uint64, h Header) (*inheritance, error) {
	used, err := h.inherits()
	if err != nil {
		return nil, err
	}
	if used == nil {
		used = &inheritance{Before(h.Start), Before(h.Start), map[uint64][]span{}}
	}
	for step := before; step > 0; step-- {
		s, err := p.step(ctx, step-1)
		if err != nil {
			return nil, err
		}
		if step == before {
			used.floor, used.cursor = s.Floor, used.cursor.Most(s.Cursor)
		}
		if used.floor.Reaches(s.Cursor) {
			break
		}
		for _, row := range s.Rows {
			for _, x := range row {
				used.taken[x.Doc] = append(used.taken[x.Doc], span{x.Start, x.Start + x.Length})
			}
		}
	}
	for doc := range used.taken {
		if used.floor.Covers(doc) {
			delete(used.taken, doc)
		}
	}
	return used, nil
}

func encodeTaken(taken map[uint64][]span, floor uint64) (b []byte) {
	docs := make([]uint64, 0, len(taken))
	for doc := range taken {
		docs = append(docs, doc)
	}
	slices.Sort(docs)
	before := floor
	for _, doc := range docs {
		b = binary.AppendUvarint(b, doc-before)
		before = doc
		spans := joinSpans(taken[doc])
		b = binary.AppendUvarint(b, uint64(len(spans)))
		at := int32(0)
		for _, s := range spans {
			b = binary.AppendUvarint(b, uint64(s.start-at))
			b = binary.AppendUvarint(b, uint64(s.end-s.start))
			at = s.end
		}
	}
	return b
}

// joinSpans sorts spans and joins those that touch.
func joinSpans(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// taken reads Parent.Taken.
func (p *Parent) taken() (map[uint64][]span, error) {
	r := varints{b: p.Taken}
	out := map[uint64][]span{}
	doc := p.Floor
	for len(r.b) > 0 && r.err == nil {
		doc += r.uvarint()
		if doc > p.Cursor {
			r.fail(fmt.Errorf("document %d is behind the last one used, %d", doc, p.Cursor))
		}
		if out[doc] != nil {
			r.fail(fmt.Errorf("document %d comes twice", doc))
		}
		at := uint64(0)
		for i := range r.bounded(uint64(len(r.b)) / 2) {
			start := at + r.bounded(math.MaxInt32)
			end := start + r.bounded(math.MaxInt32)
			if end > math.MaxInt32 || end == start || i > 0 && start == at {
				r.fail(fmt.Errorf("tokens [%d, %d) of document %d", start, end, doc))
				break
			}
			out[doc] = append(out[doc], span{int32(start), int32(end)})
			at = end
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("read what run %s had used (%s): %w", p.Run, takenForm, r.err)
	}
	return out, nil
}

// inherits returns what the planner of a run must know of its parent, nil without one.
func (h Header) inherits() (*inheritance, error) {
	if h.Parent == nil {
		return nil, nil
	}
	taken, err := h.Parent.taken()
	return &inheritance{Before(h.Parent.Floor), Behind(h.Parent.Cursor), taken}, err
}

// inheritance is what a planner must know of its parent.
type inheritance struct {
	floor  Position // all documents before are used up
	cursor Position // no document behind is used
	taken  map[uint64][]span
}

// used tells whether the parent planned a part of a document, which then is no duplicate, however far the new run looks back.
func (i *inheritance) used(sequence uint64) bool { return i != nil && len(i.taken[sequence]) > 0 }

// rest returns how many tokens of a document are left. A document that is used up has nothing left.
func (i *inheritance) rest(sequence uint64, length int32) int32 {
	if i == nil || !i.cursor.Covers(sequence) {
		return length
	}
	if i.floor.Covers(sequence) {
		return 0
	}
	left := length
	for _, s := range i.taken[sequence] {
		left -= min(s.end, length) - min(s.start, length)
	}
	return left
}

// place returns pieces of what is left of documents as pieces of the documents. What was taken amid a piece parts it in two.
func (i *inheritance) place(pieces []packonline.Piece) []packonline.Piece {
	if i == nil || !slices.ContainsFunc(pieces, func(x packonline.Piece) bool { return i.used(x.Doc) }) {
		return pieces
	}
	out := make([]packonline.Piece, 0, len(pieces)+1)
	for _, x := range pieces {
		for _, s := range i.taken[x.Doc] {
			if n := min(s.start-x.Start, x.Length); n > 0 {
				out = append(out, packonline.Piece{Doc: x.Doc, Start: x.Start, Length: n})
				x.Start += n
				x.Length -= n
			}
			if x.Length == 0 {
				break
			}
			x.Start += s.end - s.start
		}
		if x.Length > 0 {
			out = append(out, x)
		}
	}
	return out
}
