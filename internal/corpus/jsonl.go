package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// jsonl yields a document a line of body, which is what r has and what was looked at already. Blank lines are not
// documents. A line that is not one is a *record.SkipError with its number.
func (in *Input) jsonl(ctx context.Context, s source, r *compression.Reader, body io.Reader, yield record.Yield) bool {
	places := in.places(r)
	if places && s.object != nil && in.from.Offset > 0 {
		later, err := in.openAt(ctx, s)
		if err != nil {
			return yield(record.Document{}, fmt.Errorf("read %s: %w", s.Origin, err)) && false
		}
		defer later.Close() // nothing was written
		body = counted{later, &in.read}
	}
	lines := jsonvalue.NewLineReader(body, in.options.columns().Limit())
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
	return in.eachLine(s, lines, yield)
}

// eachLine yields a document a line. Blank lines are not documents. Each line may begin with byte order marks, as
// where files were joined.
func (in *Input) eachLine(s source, lines *jsonvalue.LineReader, yield record.Yield) bool {
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return true
		}
		number := lines.Number()
		var long *jsonvalue.SizeError
		if err != nil && !errors.As(err, &long) {
			return yield(record.Document{}, fmt.Errorf("read %s:%d: %w", s.Origin, number, err)) && false
		}
		line = bytes.TrimLeft(line, "\ufeff")
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d record.Document
		if err != nil {
			err = record.WithReason(record.TooLarge, err)
		} else {
			d, err = in.options.columns().Parse(line)
		}
		if err != nil {
			if !s.Skip(yield, number, err) {
				return false
			}
			continue
		}
		if !s.Give(yield, d) {
			return false
		}
	}
}
