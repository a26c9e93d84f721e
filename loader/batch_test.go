package loader_test

import (
	"slices"
	"testing"

	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/packonline"
)

// Rows hold the token ids of their spans, followed by padding. Ids are encoded with 16 bits if all of them fit.
func TestBatch_RowsHoldTokenIDsAndPadding(t *testing.T) {
	const ref, bucket, last = 7, 8, 5
	pieces := [][]packonline.Piece{{{Doc: ref, Start: 2, Length: 3}, {Doc: ref, Length: 1}},
		{{Doc: ref, Start: 1, Length: last}}, {}}
	for _, id := range []int32{0, 1, 1<<15 - 1, 1 << 15, 1<<16 - 1, 1 << 16, 1<<31 - 1, -1, -1 << 16, -1 << 31} {
		for at := range last + 1 {
			ids := []int32{10, 11, 12, 13, 14, 15}
			ids[at] = id
			content := document.Content{Tokens: ids}
			b := &assembly.Batch{Bucket: bucket, Rows: len(pieces), Pieces: pieces, Pad: 9,
				Contents: map[uint64]document.Content{ref: content}}
			wide := slices.Concat(ids[2:5], ids[:1], slices.Repeat([]int32{9}, 4), ids[1:], slices.Repeat([]int32{9}, 3+bucket))
			have, narrow, want := slices.Repeat([]int32{-5}, len(wide)), slices.Repeat([]uint16{5}, len(wide)),
				make([]uint16, len(wide))
			for i, id := range wide {
				want[i] = uint16(id)
			}
			if b.WriteIDs(have); !slices.Equal(have, wide) {
				t.Fatalf("rows hold %d, want %d", have, wide)
			}
			if ok := b.WriteNarrowIDs(narrow); ok != (id >= 0 && id < 1<<16) || !slices.Equal(narrow, want) {
				t.Fatalf("rows with id %d hold %d as 16 bits each, want %d; all fit: %v", id, narrow, want, ok)
			}
			small := content.CloneNarrow()
			if fits := id >= 0 && id < 1<<16; (small.NarrowTokens != nil) != fits || small.Len() != len(ids) ||
				!slices.Equal(small.TokenIDs(1, last+1), ids[1:]) ||
				fits && 2*small.Bytes() != content.Bytes() {
				t.Fatalf("%d narrowed: %+v", ids, small)
			}
			b.Contents[ref] = small
			clear(have)
			clear(narrow)
			if b.WriteIDs(have); !slices.Equal(have, wide) {
				t.Fatalf("rows of a narrow document hold %d, want %d", have, wide)
			}
			if ok := b.WriteNarrowIDs(narrow); ok != (id >= 0 && id < 1<<16) || !slices.Equal(narrow, want) {
				t.Fatalf("rows of a narrow document hold %d as 16 bits each, want %d; all fit: %v", narrow, want, ok)
			}
		}
	}
	for _, pad := range []int32{-1, 1 << 16} {
		if b := (&assembly.Batch{Bucket: 1, Rows: 1, Pieces: [][]packonline.Piece{{}}, Pad: pad}); b.WriteNarrowIDs(
			make([]uint16, 1)) {
			t.Errorf("padding %d fits 16 bits", pad)
		}
	}
}
