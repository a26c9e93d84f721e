package tokenfiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// SizedStream reads documents of known lengths from ids without a header.
type SizedStream struct {
	ids    Stream
	length func() (int64, error)
}

// NewSizedStream reads ids whose document lengths length returns one by one, io.EOF after the last.
func NewSizedStream(r io.Reader, t Type, length func() (int64, error)) *SizedStream {
	return &SizedStream{Stream{r: bufio.NewReaderSize(r, 1<<16), typ: t, total: -1}, length}
}

// Next is Stream.Next. Ids after the last document are an error.
func (s *SizedStream) Next(dst []byte, limit int64) ([]byte, error) {
	tokens, err := s.length()
	if err == io.EOF {
		if _, _, err := s.ids.readID(); err != io.EOF {
			return dst, errors.Join(err, fmt.Errorf("it holds more ids than the %d of its documents: is %s the right type?",
				s.ids.read-1, s.ids.typ.Name))
		}
		return dst, io.EOF
	}
	if err != nil {
		return dst, err
	}
	var wrong error
	for i := range tokens {
		id, ok, err := s.ids.readID()
		if err == io.EOF {
			return dst, fmt.Errorf("it ends behind %d ids, within a document: is %s the right type?", s.ids.read, s.ids.typ.Name)
		}
		switch {
		case err != nil:
			return dst, err
		case !ok && wrong == nil:
			wrong = fmt.Errorf("token %d: its id does not fit 31 bits: is %s the right type?", i, s.ids.typ.Name)
		case 4*tokens <= limit:
			dst = append(dst, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
		}
	}
	switch {
	case wrong != nil:
		return dst, &DocumentError{Tokens: tokens, Err: wrong}
	case 4*tokens > limit:
		return dst, tooLargeError(tokens, limit)
	}
	return dst, nil
}
