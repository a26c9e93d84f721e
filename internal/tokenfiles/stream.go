package tokenfiles

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Boundaries specifies where documents end in a file of ids without boundaries.
type Boundaries struct {
	End   *uint32 // after each of these ids, which belongs to the document that it ends
	Begin *uint32 // before each of these ids
}

func (c Boundaries) String() string {
	text := ""
	if c.End != nil {
		text = fmt.Sprintf("ends with %d ", *c.End)
	}
	if c.Begin != nil {
		text += fmt.Sprintf("begins with %d", *c.Begin)
	}
	return text
}

func (c Boundaries) isSet() bool { return c.End != nil || c.Begin != nil }

// ErrNoBoundaries is the error for ids without document boundaries.
var ErrNoBoundaries = errors.New(
	"it holds consecutive token ids without document boundaries: name the id that ends each document, or the one that " +
		"begins each")

// Stream reads documents from consecutive ids.
type Stream struct {
	r           *bufio.Reader
	typ         Type
	boundaries  Boundaries
	total       int64 // declared number of ids; -1: up to the end of the file
	rowLength   int64 // maximum length of a document in ids; 0: no maximum
	read        int64
	peekedID    uint32 // an id that was read and starts the next document
	hasPeekedID bool
}

// NewRawStream reads ids without any header.
func NewRawStream(r io.Reader, t Type, c Boundaries) (*Stream, error) {
	if !c.isSet() {
		return nil, ErrNoBoundaries
	}
	return &Stream{r: bufio.NewReaderSize(r, 1<<16), typ: t, boundaries: c, total: -1}, nil
}

// Next appends the next document's ids to dst, little-endian int32, or returns io.EOF. A *DocumentError is a document
// of more than limit bytes or with an unrepresentable id. The next call continues after it.
func (s *Stream) Next(dst []byte, limit int64) ([]byte, error) {
	var tokens int64
	var wrong error
	for {
		shorts := s.bufferedUint16s()
		if tokens += int64(len(shorts) / 2); 4*tokens <= limit {
			dst = appendUint16s(dst, shorts)
		}
		_, _ = s.r.Discard(len(shorts)) // already peeked
		id, ok, err := s.readID()
		if err == io.EOF && tokens > 0 {
			break
		}
		if err != nil {
			return dst, err
		}
		if s.boundaries.Begin != nil && ok && id == *s.boundaries.Begin && tokens > 0 {
			s.peekedID, s.hasPeekedID = id, true
			break
		}
		tokens++
		switch {
		case !ok && wrong == nil:
			wrong = fmt.Errorf("token %d: its id does not fit 31 bits: is %s the right type?", tokens-1, s.typ.Name)
		case 4*tokens <= limit:
			dst = append(dst, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
		}
		if s.boundaries.End != nil && ok && id == *s.boundaries.End || s.rowLength > 0 && s.read%s.rowLength == 0 {
			break
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

// bufferedUint16s returns buffered uint16 ids before the next one that ends a document. It returns none if documents
// also end in other ways.
func (s *Stream) bufferedUint16s() []byte {
	if !s.typ.isUint16LE() || s.boundaries.End == nil || s.boundaries.Begin != nil || s.rowLength > 0 || s.hasPeekedID {
		return nil
	}
	n := s.r.Buffered() / 2
	if s.total >= 0 {
		n = int(min(int64(n), s.total-s.read))
	}
	raw, _ := s.r.Peek(2 * n) // already buffered
	for i := 0; i+1 < len(raw); i += 2 {
		if uint32(binary.LittleEndian.Uint16(raw[i:])) == *s.boundaries.End {
			raw = raw[:i]
		}
	}
	s.read += int64(len(raw) / 2)
	return raw
}

// readID reads the next id; ok is false for one that fits no vocabulary.
func (s *Stream) readID() (id uint32, ok bool, err error) {
	if s.hasPeekedID {
		s.hasPeekedID = false
		return s.peekedID, true, nil
	}
	if s.read == s.total {
		if _, err := s.r.Peek(1); err == nil {
			return 0, false, fmt.Errorf("it holds more than the %d ids that its header states: the file is damaged", s.total)
		} else if err != io.EOF {
			return 0, false, err
		}
		return 0, false, io.EOF
	}
	raw, err := s.r.Peek(s.typ.Size)
	if err != nil {
		if err == io.EOF && len(raw) == 0 && s.total < 0 {
			return 0, false, io.EOF
		}
		return 0, false, truncatedError(fmt.Sprintf("the file, behind %d ids,", s.read), err)
	}
	id, ok = s.typ.decode(raw)
	_, _ = s.r.Discard(s.typ.Size) // already peeked
	s.read++
	return id, ok, nil
}
