package corpus

import (
	"context"
	"io"

	"loaderd/internal/corpus/compression"
)

// Place is a position in a file: Entries documents, including skipped ones, and Line lines precede the line at byte
// Offset. In a Parquet file only Entries is used. The zero value is the beginning.
type Place struct {
	Entries, Offset, Line int64
}

// From makes Documents start at a place that At returned for the same file and the same options. If the format cannot
// start there, Documents starts before it. Passed then returns how many entries precede the first one.
func (in *Input) From(p Place) { in.from = p }

// Passed returns how many entries precede the first one that Documents yields.
func (in *Input) Passed() int64 { return in.began.Entries }

// At returns the last place that precedes all entries that Documents has not yielded yet. It may be called within the
// loop over them.
func (in *Input) At() Place { return in.at }

// places reports whether a file can be read from a place. That requires a single uncompressed file, because otherwise
// offsets have no meaning.
func (in *Input) places(r *compression.Reader) bool { return len(in.files) == 1 && r.Direct() }

// begin sets the first place.
func (in *Input) begin(p Place) { in.began, in.at = p, p }

// openAt returns the bytes of a file from the requested place on.
func (in *Input) openAt(ctx context.Context, s source) (io.ReadCloser, error) {
	r, err := in.options.Stores.Open(ctx, *s.object, in.from.Offset)
	if err != nil {
		return nil, err
	}
	in.begin(in.from)
	in.read.Store(in.from.Offset)
	return r, nil
}
