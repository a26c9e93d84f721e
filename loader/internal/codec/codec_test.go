package codec_test

import (
	"errors"
	"slices"
	"testing"

	"loaderd/loader/internal/codec"
	"loaderd/packonline"
)

func TestPieces_RoundTrip(t *testing.T) {
	rows := [][]packonline.Piece{
		{{Doc: 7, Length: 100}, {Doc: 5, Start: 30, Length: 1}, {Doc: 5, Start: 31, Length: 9}},
		nil,
		{{Doc: 1 << 48, Start: 1 << 30, Length: 1 << 29}},
	}
	var b []byte
	var previous uint64
	for _, row := range rows {
		b = codec.AppendPieces(b, row, &previous)
	}
	in := codec.Cursor{Buf: b}
	previous = 0
	for i, row := range rows {
		if got := in.Pieces(&previous); !slices.Equal(got, row) {
			t.Errorf("row %d is read as %v, written as %v", i, got, row)
		}
	}
	if in.Err != nil || len(in.Buf) > 0 {
		t.Errorf("%d bytes are left, error %v", len(in.Buf), in.Err)
	}
}

func TestCursor_KeepsFirstError(t *testing.T) {
	in := codec.Cursor{Buf: []byte{5, 6, 7}}
	if got := in.BoundedUvarint(4); got != 0 || in.Err == nil {
		t.Errorf("5 of at most 4 is read as %d, error %v", got, in.Err)
	}
	first := in.Err
	if got := in.Uvarint(); got != 0 || !errors.Is(in.Err, first) {
		t.Errorf("behind an error %d is read, error %v", got, in.Err)
	}
	in = codec.Cursor{Buf: []byte{1}}
	if got := in.Bytes(2); got != nil || !errors.Is(in.Err, codec.ErrTruncated) {
		t.Errorf("2 bytes of 1 are read as %v, error %v", got, in.Err)
	}
}

func FuzzPieces(f *testing.F) {
	f.Add([]byte{2, 14, 200, 1, 3, 3, 30})
	f.Add([]byte{1, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := codec.Cursor{Buf: b}
		var previous uint64
		row := in.Pieces(&previous)
		if in.Err != nil {
			return
		}
		previous = 0
		written := codec.AppendPieces(nil, row, &previous)
		again := codec.Cursor{Buf: written}
		previous = 0
		if got := again.Pieces(&previous); again.Err != nil || !slices.Equal(got, row) {
			t.Errorf("%v is read as %v, error %v", row, got, again.Err)
		}
	})
}
