package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// values yields a document an element of one array, or a document each of the objects that follow each other. Lines say nothing.
func (in *Input) values(s source, r io.Reader, yield record.Yield) bool {
	v := jsonvalue.NewReader(r, in.options.columns().Limit(), true)
	for {
		raw, line, err := v.Next()
		if err == io.EOF {
			return true
		}
		var large *jsonvalue.SizeError
		if err != nil && !errors.As(err, &large) {
			return yield(record.Document{}, fmt.Errorf("read %s:%d: %w", s.Origin, line, err)) && false
		}
		var d record.Document
		if err != nil {
			err = record.WithReason(record.TooLarge, err)
		} else {
			d, err = in.options.columns().Parse(raw)
			line += syntaxLine(raw, err)
		}
		if err != nil {
			if !s.Skip(yield, line, err) {
				return false
			}
			continue
		}
		if !s.Give(yield, d) {
			return false
		}
	}
}

// syntaxLine is how many lines below its first a value goes wrong.
func syntaxLine(raw []byte, err error) int64 {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return 0
	}
	return int64(bytes.Count(raw[:max(0, min(syntax.Offset-1, int64(len(raw))))], []byte("\n")))
}
