package tokenfiles

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Cut specifies where documents end in a file of ids without boundaries.
type Cut struct {
	End   *uint32 // after each of these ids, which belongs to the document that it ends
	Begin *uint32 // before each of these ids
}

func (c Cut) String() string {
	text := ""
	if c.End != nil {
		text = fmt.Sprintf("ends with %d ", *c.End)
	}
	if c.Begin != nil {
		text += fmt.Sprintf("begins with %d", *c.Begin)
	}
	return text
}

func (c Cut) some() bool { return c.End != nil || c.Begin != nil }

// ErrNoCut is the error for ids without document boundaries.
var ErrNoCut = errors.New("it holds token ids one behind the other, and nothing says where a document ends: name " +
	"the id that ends each, or the one that begins each")

// Stream reads documents from consecutive ids.
type Stream struct {
	r     *bufio.Reader
	typ   Type
	cut   Cut
	total int64 // declared number of ids; -1: up to the end of the file
	row   int64 // maximum length of a document in ids; 0: no maximum
	read  int64
	held  uint32 // an id that was read and starts the next document
	holds bool
}

// Raw reads ids without any header.
func Raw(r io.Reader, t Type, c Cut) (*Stream, error) {
	if !c.some() {
		return nil, ErrNoCut
	}
	return &Stream{r: bufio.NewReaderSize(r, 1<<16), typ: t, cut: c, total: -1}, nil
}

// Next appends the next document's ids to dst, little-endian int32, or returns io.EOF. A *DocumentError is a document
// of more than limit bytes or with an unrepresentable id. The next call continues after it.
func (s *Stream) Next(dst []byte, limit int64) ([]byte, error) {
	var tokens int64
	var wrong error
	for {
		shorts := s.shorts()
		if tokens += int64(len(shorts) / 2); 4*tokens <= limit {
			dst = appendShorts(dst, shorts)
		}
		_, _ = s.r.Discard(len(shorts)) // already peeked
		id, ok, err := s.id()
		if err == io.EOF && tokens > 0 {
			break
		}
		if err != nil {
			return dst, err
		}
		if s.cut.Begin != nil && ok && id == *s.cut.Begin && tokens > 0 {
			s.held, s.holds = id, true
			break
		}
		tokens++
		switch {
		case !ok && wrong == nil:
			wrong = fmt.Errorf("token %d: its id does not fit 31 bits: is %s the right type?", tokens-1, s.typ.Name)
		case 4*tokens <= limit:
			dst = append(dst, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
		}
		if s.cut.End != nil && ok && id == *s.cut.End || s.row > 0 && s.read%s.row == 0 {
			break
		}
	}
	switch {
	case wrong != nil:
		return dst, &DocumentError{Tokens: tokens, Err: wrong}
	case 4*tokens > limit:
		return dst, tooLarge(tokens, limit)
	}
	return dst, nil
}

// shorts returns buffered uint16 ids before the next one that ends a document. It returns none if documents also end
// in other ways.
func (s *Stream) shorts() []byte {
	if !s.typ.plain() || s.cut.End == nil || s.cut.Begin != nil || s.row > 0 || s.holds {
		return nil
	}
	n := s.r.Buffered() / 2
	if s.total >= 0 {
		n = int(min(int64(n), s.total-s.read))
	}
	raw, _ := s.r.Peek(2 * n) // already buffered
	for i := 0; i+1 < len(raw); i += 2 {
		if uint32(binary.LittleEndian.Uint16(raw[i:])) == *s.cut.End {
			raw = raw[:i]
		}
	}
	s.read += int64(len(raw) / 2)
	return raw
}

// id reads the next id; ok is false for one that fits no vocabulary.
func (s *Stream) id() (id uint32, ok bool, err error) {
	if s.holds {
		s.holds = false
		return s.held, true, nil
	}
	if s.read == s.total {
		if _, err := s.r.Peek(1); err == nil {
			return 0, false, fmt.Errorf("it holds more than the %d ids that it says: the file is damaged", s.total)
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
		return 0, false, cutOff(fmt.Sprintf("the file, behind %d ids,", s.read), err)
	}
	id, ok = s.typ.at(raw)
	_, _ = s.r.Discard(s.typ.Size) // already peeked
	s.read++
	return id, ok, nil
}
