// Package jsonrecord reads documents from JSON: from lines that are objects, and from objects on any lines.
package jsonrecord

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// ValueDocuments yields a document per element of one array, or per object of several concatenated ones, on any
// lines. A value that is not a document is a *record.SkipError with its line. It returns whether the iteration
// continues.
func ValueDocuments(f record.File, r io.Reader, cols record.Columns, yield record.Yield) bool {
	v := jsonvalue.NewReader(r, cols.MaxRecord(), true)
	for {
		raw, line, err := v.Next()
		if err == io.EOF {
			return true
		}
		var large *jsonvalue.SizeError
		if err != nil && !errors.As(err, &large) {
			return yield(record.Document{}, fmt.Errorf("read %s:%d: %w", f.Origin, line, err)) && false
		}
		var d record.Document
		if err != nil {
			err = record.WithReason(record.TooLarge, err)
		} else {
			d, err = cols.Parse(raw)
			line += syntaxLine(raw, err)
		}
		if err != nil {
			if !f.Skip(yield, line, err) {
				return false
			}
			continue
		}
		if !f.Emit(yield, d) {
			return false
		}
	}
}

// syntaxLine returns the line of a syntax error in a value, counted from 0.
func syntaxLine(raw []byte, err error) int64 {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return 0
	}
	return int64(bytes.Count(raw[:max(0, min(syntax.Offset-1, int64(len(raw))))], []byte("\n")))
}
