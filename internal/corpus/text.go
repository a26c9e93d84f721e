package corpus

import (
	"bytes"
	"fmt"
	"io"
)

// text yields a whole file as one document.
func (in *Input) text(s source, r io.Reader, yield yielder) bool {
	data, err := in.readText(s, r)
	if err != nil {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
	}
	if isBinary(data) {
		if in.late() {
			return yield(Document{}, &SkipError{Reason: Binary, Path: s.path, Err: errBinary(data)})
		}
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, errBinary(data))) && false
	}
	if int64(len(data)) > in.options.MaxDocument {
		return s.skip(yield, 0, &badRecord{TooLarge, fmt.Errorf("document is larger than %d bytes", in.options.MaxDocument)})
	}
	return s.give(yield, Document{Label: short(s.given), Data: bytes.TrimLeft(data, "\ufeff")})
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
