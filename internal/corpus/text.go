package corpus

import (
	"bytes"
	"fmt"
	"io"

	"loaderd/internal/corpus/record"
)

// textDocument yields a file as one document.
func (in *Input) textDocument(s source, r io.Reader, yield record.Yield) bool {
	data, err := readText(r, s.size, in.options.MaxDocument)
	if err != nil {
		return s.Fail(yield, err)
	}
	if isBinary(data) {
		if in.isDeferred() {
			skipped := &record.SkipError{Reason: record.Binary, Path: s.Path, Err: binaryError(data)}
			return yield(record.Document{}, skipped)
		}
		return s.Fail(yield, binaryError(data))
	}
	if int64(len(data)) > in.options.MaxDocument {
		err := fmt.Errorf("document is larger than %d bytes", in.options.MaxDocument)
		return s.Skip(yield, 0, record.WithReason(record.TooLarge, err))
	}
	return s.Emit(yield, record.Document{Label: record.CleanLabel(s.UserPath), Data: bytes.TrimLeft(data, "\ufeff")})
}

// readText reads a file of size bytes, 0 if unknown. It stops after the part that shows that the file is larger than
// limit or is not text.
func readText(r io.Reader, size, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if size > 0 && size <= limit {
		b.Grow(int(size) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(r, nulSearchBytes)); err != nil || isBinary(b.Bytes()) {
		return b.Bytes(), err
	}
	_, err := b.ReadFrom(io.LimitReader(r, limit+1-nulSearchBytes))
	return b.Bytes(), err
}
