package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"loaderd/packonline"
)

// AppendPieces appends a row: the number of pieces, then two or three values per piece. The first is the distance of
// its document from that of the previous piece (zigzag). The second is twice its length, plus 1 if its start is not
// 0. The third is the start, if not 0. previous carries the last document from row to row.
func AppendPieces(b []byte, pieces []packonline.Piece, previous *uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(pieces)))
	for _, x := range pieces {
		b = AppendPiece(b, x, previous)
	}
	return b
}

// AppendDocument appends the distance of a document from the previous one (zigzag).
func AppendDocument(b []byte, document uint64, previous *uint64) []byte {
	b = binary.AppendVarint(b, int64(document-*previous))
	*previous = document
	return b
}

// AppendPiece appends one piece of a row, as AppendPieces does.
func AppendPiece(b []byte, x packonline.Piece, previous *uint64) []byte {
	b = AppendDocument(b, x.Doc, previous)
	if x.Start == 0 {
		return binary.AppendUvarint(b, uint64(x.Length)<<1)
	}
	b = binary.AppendUvarint(b, uint64(x.Length)<<1|1)
	return binary.AppendUvarint(b, uint64(x.Start))
}

// Pieces reads the output of AppendPieces.
func (r *Cursor) Pieces(previous *uint64) []packonline.Piece {
	n := r.BoundedUvarint(uint64(len(r.Buf)) / 2) // a piece takes two bytes or more
	if n == 0 {
		return nil
	}
	out := make([]packonline.Piece, 0, n)
	for range n {
		x := r.Piece(previous)
		if r.Err != nil {
			return nil
		}
		out = append(out, x)
	}
	return out
}

// Document reads the output of AppendDocument.
func (r *Cursor) Document(previous *uint64) uint64 {
	d := r.Varint()
	if r.Err != nil {
		return 0
	}
	*previous += uint64(d)
	return *previous
}

// Piece reads the output of AppendPiece.
func (r *Cursor) Piece(previous *uint64) (x packonline.Piece) {
	x.Doc = r.Document(previous)
	l := r.BoundedUvarint(math.MaxInt32<<1 | 1)
	x.Length = int32(l >> 1)
	if l&1 == 1 {
		x.Start = int32(r.BoundedUvarint(math.MaxInt32))
	}
	if r.Err == nil && (x.Length < 1 || int64(x.Start)+int64(x.Length) > math.MaxInt32) {
		r.Fail(fmt.Errorf("piece [%d, +%d) of document %d is impossible", x.Start, x.Length, x.Doc))
	}
	return x
}
