package jsonrecord

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// LineDocuments yields a document per line. Blank lines are not documents. A line that is not a document is a
// *record.SkipError with its number. Each line may start with byte order marks, which concatenated files have. It
// returns whether the iteration continues.
func LineDocuments(f record.File, lines *jsonvalue.LineReader, cols record.Columns, yield record.Yield) bool {
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return true
		}
		number := lines.LineNumber()
		var long *jsonvalue.SizeError
		if err != nil && !errors.As(err, &long) {
			return yield(record.Document{}, fmt.Errorf("read %s:%d: %w", f.Origin, number, err)) && false
		}
		line = bytes.TrimLeft(line, "\ufeff")
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d record.Document
		if err != nil {
			err = record.WithReason(record.TooLarge, err)
		} else {
			d, err = cols.Parse(line)
		}
		if err != nil {
			if !f.Skip(yield, number, err) {
				return false
			}
			continue
		}
		if !f.Emit(yield, d) {
			return false
		}
	}
}
