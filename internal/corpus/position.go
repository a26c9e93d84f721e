package corpus

import (
	"context"
	"io"

	"loaderd/internal/corpus/compression"
)

// Position is a position in a file: Entries documents, including skipped ones, and Line lines precede the line at byte
// Offset. In files of Parquet, MDS and Megatron only Entries is used. The zero value is the beginning.
type Position struct {
	Entries, Offset, Line int64
}

// StartAt makes Documents start at a place that Position returned for the same file and the same options. If the format
// cannot start there, Documents starts before it. SkippedEntries then returns how many entries precede the first one.
func (in *Input) StartAt(p Position) { in.start = p }

// SkippedEntries returns how many entries precede the first one that Documents yields.
func (in *Input) SkippedEntries() int64 { return in.actualStart.Entries }

// Position returns the last place that precedes all entries that Documents has not yielded yet. It may be called within
// the loop over them.
func (in *Input) Position() Position { return in.position }

// canSeek reports whether a file can be read from a place. That requires a single uncompressed file, because otherwise
// offsets have no meaning.
func (in *Input) canSeek(r *compression.Reader) bool { return len(in.files) == 1 && r.IsRaw() }

// setStart sets the first place.
func (in *Input) setStart(p Position) { in.actualStart, in.position = p, p }

// openAt returns the bytes of a file from the requested place on.
func (in *Input) openAt(ctx context.Context, s source) (io.ReadCloser, error) {
	r, err := in.options.Stores.Open(ctx, *s.object, in.start.Offset)
	if err != nil {
		return nil, err
	}
	in.setStart(in.start)
	in.bytesRead.Store(in.start.Offset)
	return r, nil
}
