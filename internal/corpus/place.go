package corpus

import (
	"context"
	"io"

	"loaderd/internal/corpus/compression"
)

// Place is a position in a file: Entries documents, including those left out, and Line lines precede the line at byte
// Offset. In a Parquet file only Entries counts. The zero value is the beginning.
type Place struct {
	Entries, Offset, Line int64
}

// From has Documents begin at a place that At returned for the same file and the same options. Where the format cannot
// begin there, Documents begins before it: Passed returns how many entries precede the first one.
func (in *Input) From(p Place) { in.from = p }

// Passed is how many entries lie before the first one that Documents yields.
func (in *Input) Passed() int64 { return in.began.Entries }

// At returns the last place that precedes all entries that Documents has not yielded yet. It may be called within the
// loop over them.
func (in *Input) At() Place { return in.at }

// places says whether a file is read from places on: of several, or of one that was decompressed, bytes say nothing.
func (in *Input) places(r *compression.Reader) bool { return len(in.files) == 1 && r.Direct() }

// begin begins with a place.
func (in *Input) begin(p Place) { in.began, in.at = p, p }

// openAt returns the bytes of a file from the place on that the reading begins at.
func (in *Input) openAt(ctx context.Context, s source) (io.ReadCloser, error) {
	r, err := in.options.Stores.Open(ctx, *s.object, in.from.Offset)
	if err != nil {
		return nil, err
	}
	in.begin(in.from)
	in.read.Store(in.from.Offset)
	return r, nil
}
