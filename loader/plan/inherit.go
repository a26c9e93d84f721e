package plan

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"loaderd/loader/internal/codec"
	"loaderd/packonline"
)

// Parent is the run that a run was forked from. The new run plans what the parent's steps before Step left: the rest of the
// documents Floor ... Cursor, and all that follow.
type Parent struct {
	Run         string `json:"run"`
	ID          string `json:"id"` // of that run
	Step        uint64 `json:"step"`
	Fingerprint string `json:"fingerprint"`
	Floor       uint64 `json:"floor"`  // all documents below are used up
	Cursor      uint64 `json:"cursor"` // no document behind is used
	Taken       []byte `json:"taken"`  // the tokens of documents Floor ... Cursor that the steps before Step hold; see takenForm
	// Of a run with several sources Floor and Cursor count arrivals, and Taken is empty: the planner's state says it. Sources are how far each was read, by the
	// numbers of the sources; State are the bytes of that state, and Records the records behind the header that have it.
	Sources []InheritedSource `json:"sources,omitempty"`
	State   uint64            `json:"state,omitempty"`
	Records uint64            `json:"records,omitempty"`
}

// takenForm is the form of Parent.Taken, in uvarints: for each document that is used in part or whole, in order of sequences, the
// distance from the one before (from Floor for the first), the number of its ranges, and for each of these the distance of its start
// from the end of the one before, and its length.
const takenForm = "distance ranges (distance length)..."

// span is tokens [start, end) of a document.
type span struct{ start, end int32 }

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
	sort.Slice(spans, func(i, j int) bool { return spans[i].start < spans[j].start })
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
	out, err := readTaken(p.Taken, p.Floor, p.Cursor)
	if err != nil {
		return nil, fmt.Errorf("read what run %s had used: %w", p.Run, err)
	}
	return out, nil
}

// readTaken reads what encodeTaken wrote, of documents up to last.
func readTaken(b []byte, floor, last uint64) (map[uint64][]span, error) {
	r := codec.Cursor{Rest: b}
	out := map[uint64][]span{}
	doc := floor
	for len(r.Rest) > 0 && r.Err == nil {
		doc += r.Uvarint()
		if doc > last {
			r.Fail(fmt.Errorf("document %d is behind the last one used, %d", doc, last))
		}
		if out[doc] != nil {
			r.Fail(fmt.Errorf("document %d comes twice", doc))
		}
		at := uint64(0)
		for i := range r.Bounded(uint64(len(r.Rest)) / 2) {
			start := at + r.Bounded(math.MaxInt32)
			end := start + r.Bounded(math.MaxInt32)
			if end > math.MaxInt32 || end == start || i > 0 && start == at {
				r.Fail(fmt.Errorf("tokens [%d, %d) of document %d", start, end, doc))
				break
			}
			out[doc] = append(out[doc], span{int32(start), int32(end)})
			at = end
		}
	}
	if r.Err != nil {
		return nil, fmt.Errorf("read used tokens (%s): %w", takenForm, r.Err)
	}
	return out, nil
}

// Inherits returns what a run's planner must know of its parent, nil without one.
func (h Header) Inherits() (*Inheritance, error) {
	if h.Parent == nil {
		return nil, nil
	}
	taken, err := h.Parent.taken()
	return &Inheritance{Floor: Before(h.Parent.Floor), Cursor: Behind(h.Parent.Cursor), taken: taken}, err
}

// Inheritance is what a planner must know of its parent: which tokens the parent's steps hold of documents that are not used up.
type Inheritance struct {
	Floor  Position // all documents before are used up
	Cursor Position // no document behind is used
	names  naming   // of the planner, where taken is by messages; those of a fork of several sources are by documents
	taken  map[uint64][]span
}

// NewInheritance returns the inheritance of a run whose first document has sequence start: nothing is used.
func NewInheritance(start uint64) *Inheritance {
	return &Inheritance{Floor: Before(start), Cursor: Before(start), taken: map[uint64][]span{}}
}

// Use notes the tokens that a step holds.
func (i *Inheritance) Use(s *Step) {
	repeats := s.Repeats
	for k, row := range s.Rows {
		for n, x := range row {
			if len(repeats) > 0 && repeats[0].Row == k && repeats[0].Piece == n { // their loss is in another piece, which may be left
				x.Start, x.Length = x.Start+repeats[0].Tokens, x.Length-repeats[0].Tokens
				repeats = repeats[1:]
			}
			if x.Length > 0 {
				i.taken[x.Doc] = append(i.taken[x.Doc], span{x.Start, x.Start + x.Length})
			}
		}
	}
}

// Parent returns the form that stands in the header of a fork of a run at a step.
func (i *Inheritance) Parent(of Header, step uint64) *Parent {
	for doc := range i.taken {
		if i.Floor.Covers(doc) {
			delete(i.taken, doc)
		}
	}
	floor := i.Floor.Next()
	return &Parent{Run: of.Run, ID: of.ID, Step: step, Fingerprint: of.Fingerprint, Floor: floor, Cursor: i.Cursor.Last(), Taken: encodeTaken(i.taken, floor)}
}

// used reports whether the parent planned a part of a document. Such a document is no duplicate, however far the new run looks back.
func (i *Inheritance) used(document uint64, length int32) bool {
	if i == nil {
		return false
	}
	spans := i.spans(document)
	return len(spans) > 0 && spans[0].start < length
}

// spans returns the tokens of a document that are taken, and behind them those of documents behind it in its message.
func (i *Inheritance) spans(document uint64) []span {
	all := i.taken[i.names.position(document)]
	first := i.names.first(document)
	if first == 0 {
		return all
	}
	var out []span
	for _, s := range all {
		if s.end > first {
			out = append(out, span{max(s.start-first, 0), s.end - first})
		}
	}
	return out
}

// rest returns how many tokens of a document are left. A document that is used up has nothing left.
func (i *Inheritance) rest(document uint64, length int32) int32 {
	if i == nil || !i.Cursor.Covers(i.names.position(document)) {
		return length
	}
	if i.Floor.Covers(i.names.position(document)) {
		return 0
	}
	left := length
	for _, s := range i.spans(document) {
		left -= min(s.end, length) - min(s.start, length)
	}
	return left
}

// place turns pieces that count only the tokens left of a document into pieces of the whole document. A piece with taken tokens inside
// becomes two.
func (i *Inheritance) place(pieces []packonline.Piece) []packonline.Piece {
	if i == nil || !slices.ContainsFunc(pieces, func(x packonline.Piece) bool { return len(i.spans(x.Doc)) > 0 }) {
		return pieces
	}
	out := make([]packonline.Piece, 0, len(pieces)+1)
	for _, x := range pieces {
		for _, s := range i.spans(x.Doc) {
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
