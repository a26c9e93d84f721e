package format

import (
	"bytes"
	"strings"
)

// plainPair finds the two texts of a merge that is spelled ["a", "b"] or "a b" without escapes; not ok, it is another
// value, or one with escapes. The value is known to be one of JSON.
func plainPair(value []byte) (left, right []byte, ok bool) {
	if bytes.IndexByte(value, '\\') >= 0 {
		return nil, nil, false
	}
	if value[0] == '"' {
		left, right, ok = bytes.Cut(value[1:len(value)-1], []byte{' '})
		return left, right, ok && bytes.IndexByte(right, ' ') < 0
	}
	if value[0] != '[' {
		return nil, nil, false
	}
	rest := value[1:]
	if left, rest, ok = plainText(rest); !ok || len(rest) == 0 || rest[0] != ',' {
		return nil, nil, false
	}
	if right, rest, ok = plainText(rest[1:]); !ok || len(rest) == 0 || rest[0] != ']' {
		return nil, nil, false
	}
	return left, right, true
}

// plainText is the string that s begins with, and what follows it behind white space.
func plainText(s []byte) (text, rest []byte, ok bool) {
	const white = " \t\r\n"
	if s = bytes.TrimLeft(s, white); len(s) == 0 || s[0] != '"' {
		return nil, nil, false
	}
	end := 1 + bytes.IndexByte(s[1:], '"')
	return s[1:end], bytes.TrimLeft(s[end+1:], white), true
}

// texts keeps many short texts in few pieces of memory, for as long as one of a piece is needed.
type texts struct{ piece strings.Builder }

const pieceBytes = 1 << 16

func (t *texts) text(b []byte) string {
	if t.piece.Len()+len(b) > t.piece.Cap() {
		t.piece = strings.Builder{}
		t.piece.Grow(max(pieceBytes, len(b)))
	}
	from := t.piece.Len()
	t.piece.Write(b)
	return t.piece.String()[from:]
}
