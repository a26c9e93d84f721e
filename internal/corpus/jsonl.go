package corpus

import (
	"context"
	"io"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/jsonrecord"
	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// jsonl yields a document per line of body, which has the data of r, including the part that was already read.
func (in *Input) jsonl(ctx context.Context, s source, r *compression.Reader, body io.Reader, yield record.Yield) bool {
	places := in.places(r)
	if places && s.object != nil && in.from.Offset > 0 {
		later, err := in.openAt(ctx, s)
		if err != nil {
			return s.Fail(yield, err)
		}
		defer later.Close() // read only
		body = counted{later, &in.read}
	}
	cols := in.options.columns()
	lines := jsonvalue.NewLineReader(body, cols.Limit())
	if places {
		entries := in.began.Entries
		lines.StartAt(in.began.Offset, in.began.Line)
		next := yield
		yield = func(d record.Document, err error) bool {
			entries++
			in.at = Place{entries, lines.Offset(), lines.Number()}
			return next(d, err)
		}
	}
	return jsonrecord.LineDocuments(s.File, lines, cols, yield)
}
