package planner

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"loaderd/loader/internal/codec"
	"loaderd/packonline"
)

// usedSpansFormat is the encoding of used tokens, in uvarints. For each document with used tokens, in the order of
// arrivals, it has the distance from the document before and the number of its ranges. Each range is the distance of
// its start from the end of the range before, and its length.
const usedSpansFormat = "distance ranges (distance length)..."

// span is tokens [start, end) of a document.
type span struct{ start, end int32 }

// encodeUsedSpans writes the used tokens of documents.
func encodeUsedSpans(used usedSpans) (b []byte) {
	before := uint64(0)
	for _, doc := range slices.Sorted(maps.Keys(used)) {
		b = binary.AppendUvarint(b, doc-before)
		before = doc
		spans := joinSpans(used[doc])
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

// joinSpans sorts spans and joins those that overlap or are adjacent.
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

// readUsedSpans reads what encodeUsedSpans wrote. No document may be after last.
func readUsedSpans(b []byte, last uint64) (usedSpans, error) {
	r := codec.Cursor{Buf: b}
	out := usedSpans{}
	doc := uint64(0)
	for len(r.Buf) > 0 && r.Err == nil {
		doc += r.Uvarint()
		if doc > last {
			r.Fail(fmt.Errorf("document %d is behind the last one used, %d", doc, last))
		}
		if out[doc] != nil {
			r.Fail(fmt.Errorf("document %d is duplicated", doc))
		}
		at := uint64(0)
		for i := range r.BoundedUvarint(uint64(len(r.Buf)) / 2) {
			start := at + r.BoundedUvarint(math.MaxInt32)
			end := start + r.BoundedUvarint(math.MaxInt32)
			if end > math.MaxInt32 || end == start || i > 0 && start == at {
				r.Fail(fmt.Errorf("tokens [%d, %d) of document %d", start, end, doc))
				break
			}
			out[doc] = append(out[doc], span{int32(start), int32(end)})
			at = end
		}
	}
	if r.Err != nil {
		return nil, fmt.Errorf("read used tokens (%s): %w", usedSpansFormat, r.Err)
	}
	return out, nil
}

// usedSpans are the tokens in steps of a parent, for documents that also have buffered tokens.
type usedSpans map[uint64][]span

// spansOf returns the used tokens of a document.
func (u usedSpans) spansOf(document uint64) []span { return u[document&^repeatedFlag] }

// mapPieces converts pieces that count only the unused tokens of a document to pieces of the whole document. A piece
// with used tokens inside becomes two pieces.
func (u usedSpans) mapPieces(pieces []packonline.Piece) []packonline.Piece {
	if len(u) == 0 || !slices.ContainsFunc(pieces, func(x packonline.Piece) bool { return len(u.spansOf(x.Doc)) > 0 }) {
		return pieces
	}
	out := make([]packonline.Piece, 0, len(pieces)+1)
	for _, x := range pieces {
		for _, s := range u.spansOf(x.Doc) {
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
