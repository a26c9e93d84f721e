package corpus

import (
	"context"
	"io"

	"loaderd/internal/corpus/compression"
)

// Place is where the reading of a file stands: Entries, documents and what was left out, lie before byte Offset of it,
// at which a line begins, the first behind Line others. Of a Parquet file Entries alone counts. The zero value is the
// beginning.
type Place struct {
	Entries, Offset, Line int64
}

// From has Documents begin at a place that At told, of the same file read with the same options, or at the beginning
// where the format can not begin elsewhere: Passed says which.
func (in *Input) From(p Place) { in.from = p }

// Passed is how many entries lie before the first one that Documents yields.
func (in *Input) Passed() int64 { return in.began.Entries }

// At is the last place behind which all entries that Documents has not yielded yet lie. It may be asked for within the
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
