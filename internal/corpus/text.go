package corpus

import (
	"bytes"
	"fmt"
	"io"

	"loaderd/internal/corpus/record"
)

// text yields a whole file as one document.
func (in *Input) text(s source, r io.Reader, yield record.Yield) bool {
	data, err := in.readText(s, r)
	if err != nil {
		return yield(record.Document{}, fmt.Errorf("read %s: %w", s.Origin, err)) && false
	}
	if isBinary(data) {
		if in.late() {
			return yield(record.Document{}, &record.SkipError{Reason: record.Binary, Path: s.Path, Err: errBinary(data)})
		}
		return yield(record.Document{}, fmt.Errorf("read %s: %w", s.Origin, errBinary(data))) && false
	}
	if int64(len(data)) > in.options.MaxDocument {
		return s.Skip(yield, 0, record.WithReason(record.TooLarge, fmt.Errorf("document is larger than %d bytes", in.options.MaxDocument)))
	}
	return s.Give(yield, record.Document{Label: record.Short(s.Given), Data: bytes.TrimLeft(data, "\ufeff")})
}

// readText reads the file, or so much of it that it is too large, or that it is no text.
func (in *Input) readText(s source, r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	limit := in.options.MaxDocument
	if s.size > 0 && s.size <= limit {
		b.Grow(int(s.size) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(r, sniffed)); err != nil || isBinary(b.Bytes()) {
		return b.Bytes(), err
	}
	_, err := b.ReadFrom(io.LimitReader(r, limit+1-sniffed))
	return b.Bytes(), err
}
