package corpus

import (
	"context"
	"io"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/jsonrecord"
	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// lineDocuments yields a document per line of body, which has the data of r, including the part that was already read.
func (in *Input) lineDocuments(ctx context.Context, s source, r *compression.Reader, body io.Reader,
	yield record.Yield) bool {
	places := in.canSeek(r)
	if places && in.start.isWithin(s) {
		later, err := in.openAt(ctx, s)
		if err != nil {
			return s.Fail(yield, err)
		}
		defer later.Close() // read only
		body = countingReader{later, &in.bytesRead}
	}
	cols := in.options.columns()
	lines := jsonrecord.Lines{File: s.File, Columns: cols, Reader: jsonvalue.NewLineReader(body, cols.MaxRecord())}
	if in.options.Interleaved {
		lines.Ahead = 1
	}
	if places {
		lines.Reader.StartAt(in.actualStart.Offset, in.actualStart.Line)
	}
	entries := in.actualStart.Entries
	lines.OnEntry = func(offset, line int64) {
		if in.progress.setContent(offset); places {
			entries++
			in.position = Position{entries, offset, line}
		}
	}
	return lines.Documents(ctx, yield)
}
