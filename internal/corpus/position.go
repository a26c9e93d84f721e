package corpus

import (
	"context"
	"errors"
	"io"

	"loaderd/internal/corpus/compression"
)

// Position is a position in an input: Entries documents, including skipped ones, and Line lines precede the line at
// byte Offset of its file. In files of Parquet, MDS and Megatron only Entries is used. In an input of several files,
// Offset is the number of files before it. The zero value is the beginning.
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

// isWithin reports whether the place is an offset within a file, from which the file can be read.
func (p Position) isWithin(s source) bool { return !s.pipe && p.Offset > 0 && p.Offset <= s.size }

// openAt returns the bytes of a file from the requested place on.
func (in *Input) openAt(ctx context.Context, s source) (io.ReadCloser, error) {
	r, err := in.opener().openStoredAt(ctx, s, in.start.Offset)
	if err != nil {
		return nil, err
	}
	in.setStart(in.start)
	in.bytesRead.Store(in.start.Offset)
	return r, nil
}

// openStoredAt returns the bytes of a file from an offset on.
func (o opener) openStoredAt(ctx context.Context, s source, offset int64) (io.ReadCloser, error) {
	if s.object != nil {
		return o.options.Stores.Open(ctx, *s.object, offset)
	}
	file, err := s.open()
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// skipFiles returns the files from the requested place on, if the input has several files.
func (in *Input) skipFiles() []source {
	n := in.start.Offset
	if len(in.files) == 1 || n <= 0 || n > int64(len(in.files)) {
		return in.files
	}
	in.setStart(in.start)
	for _, s := range in.files[:n] {
		in.bytesRead.Add(s.size)
		in.progress.endFile(s.size)
	}
	return in.files[n:]
}
