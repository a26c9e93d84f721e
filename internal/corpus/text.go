package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// sniffed is how much of a file is looked at to tell text from anything else: a NUL byte is not text.
const sniffed = 8000

var errBinary = errors.New("looks like a binary file (it has a NUL byte): give its format, or leave it out")

// text yields a whole file as one document. In a folder a file that is not text is left out; one that was named is an error.
func (in *Input) text(s source, yield func(Document, error) bool) bool {
	data, reason, err := in.readText(s)
	if err != nil {
		skip := &SkipError{Reason: reason, Path: s.path, Origin: s.origin, Err: err}
		if reason != TooLarge && !(reason == Binary && in.folder) {
			yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err))
			return false
		}
		return yield(Document{}, skip)
	}
	return yield(Document{Path: s.path, Origin: s.origin, Data: data}, nil)
}

func (in *Input) readText(s source) (data []byte, reason Reason, err error) {
	r, err := in.open(s)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if closeErr := r.Close(); err == nil && closeErr != nil {
			reason, err = "", closeErr
		}
	}()
	var b bytes.Buffer
	limit := in.options.MaxDocument
	if s.size > 0 && s.size <= limit {
		b.Grow(int(s.size) + bytes.MinRead)
	}
	if _, err := io.CopyN(&b, r, sniffed); err != nil && err != io.EOF {
		return nil, "", err
	}
	if bytes.IndexByte(b.Bytes(), 0) >= 0 {
		return nil, Binary, errBinary
	}
	if _, err := b.ReadFrom(io.LimitReader(r, limit+1-int64(b.Len()))); err != nil {
		return nil, "", err
	}
	if int64(b.Len()) > limit {
		return nil, TooLarge, fmt.Errorf("document is larger than %d bytes", limit)
	}
	return b.Bytes(), "", nil
}
