package planrecord

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// previousPieces holds the document of the previous piece of each source.
type previousPieces struct {
	bucket    int64 // tokens of a full row
	documents []uint64
}

// documentOf returns the document of the previous piece of a source.
func (p *previousPieces) documentOf(source int) *uint64 {
	for len(p.documents) <= source {
		p.documents = append(p.documents, 0)
	}
	return &p.documents[source]
}

// Flags of a row's number of pieces.
const (
	rowFull      = 1 << iota // the last piece fills the row: its length is omitted
	rowStart                 // the last piece has a start other than 0
	rowOneSource             // all pieces are of one source, which is written once
	rowFlags     = iota
	rowFlagsMask = 1<<rowFlags - 1
)

// appendRow writes a row: its number of pieces with the flags, then the pieces as codec.AppendPiece does. The number
// of its source precedes each piece, or only the first one if all pieces are of one source. Distances are relative to
// the previous piece of the same source. The last piece of a full row has no length, and a start only if rowStart is
// set.
func appendRow(b []byte, pieces []packonline.Piece, p *previousPieces) []byte {
	last := len(pieces) - 1
	set := uint64(0)
	if isOneSource(pieces) {
		set |= rowOneSource
	}
	if last >= 0 && plan.RowTokens(pieces) == p.bucket {
		set |= rowFull
		if pieces[last].Start > 0 {
			set |= rowStart
		}
	}
	b = binary.AppendUvarint(b, uint64(len(pieces))<<rowFlags|set)
	for i, x := range pieces {
		source := plan.RefSource(x.Doc)
		if i == 0 || set&rowOneSource == 0 {
			b = binary.AppendUvarint(b, uint64(source))
		}
		x.Doc = plan.RefSequence(x.Doc)
		if i < last || set&rowFull == 0 {
			b = codec.AppendPiece(b, x, p.documentOf(source))
			continue
		}
		b = codec.AppendDocument(b, x.Doc, p.documentOf(source))
		if set&rowStart != 0 {
			b = binary.AppendUvarint(b, uint64(x.Start))
		}
	}
	return b
}

// readRow reads what appendRow wrote.
func readRow(r *codec.Cursor, p *previousPieces) []packonline.Piece {
	head := r.BoundedUvarint(uint64(len(r.Buf))<<rowFlags | rowFlagsMask)
	n := head >> rowFlags
	if r.Err == nil && (n > uint64(len(r.Buf)+1)/2 || head&rowStart != 0 && head&rowFull == 0 ||
		head&rowFlagsMask != 0 && n == 0) {
		r.Fail(fmt.Errorf("a row cannot begin with %d", head))
	}
	if r.Err != nil || n == 0 {
		return nil
	}
	out := make([]packonline.Piece, 0, n)
	left, source := p.bucket, 0
	for i := range n {
		if i == 0 || head&rowOneSource == 0 {
			source = int(r.BoundedUvarint(mixture.MaxSources - 1))
		}
		var x packonline.Piece
		if i < n-1 || head&rowFull == 0 {
			x = r.Piece(p.documentOf(source))
		} else {
			x = readLastPiece(r, p.documentOf(source), left, head&rowStart != 0)
		}
		if r.Err == nil && (x.Doc == 0 || x.Doc > plan.MaxSequence) {
			r.Fail(fmt.Errorf("document %d of source %d is impossible", x.Doc, source))
		}
		if r.Err != nil {
			return nil
		}
		left -= int64(x.Length)
		x.Doc = plan.Ref(source, x.Doc)
		out = append(out, x)
	}
	if isOneSource(out) != (head&rowOneSource != 0) {
		r.Fail(fmt.Errorf("a row of %d pieces names their sources in another way than a daemon does", n))
	}
	return out
}

// isOneSource reports whether a row has pieces and all of them are of one source.
func isOneSource(pieces []packonline.Piece) bool {
	return len(pieces) > 0 && !slices.ContainsFunc(pieces, func(x packonline.Piece) bool {
		return plan.RefSource(x.Doc) != plan.RefSource(pieces[0].Doc)
	})
}

// readLastPiece reads the last piece of a full row in which left tokens remain.
func readLastPiece(r *codec.Cursor, previous *uint64, left int64, starts bool) packonline.Piece {
	x := packonline.Piece{Doc: r.Document(previous), Length: int32(left)}
	if starts {
		x.Start = int32(r.BoundedUvarint(math.MaxInt32))
	}
	if r.Err == nil && (left < 1 || starts && x.Start == 0 || int64(x.Start)+left > math.MaxInt32) {
		r.Fail(fmt.Errorf("piece [%d, +%d) of document %d is impossible at the end of a row", x.Start, left, x.Doc))
	}
	return x
}
