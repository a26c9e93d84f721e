package format

import (
	"bytes"
	"strings"
)

// plainPair returns the two texts of a merge that is spelled ["a", "b"] or "a b" without escapes. ok is false for any
// other value. The value is valid JSON.
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

// plainText returns the string at the beginning of s, and what follows it after white space.
func plainText(s []byte) (text, rest []byte, ok bool) {
	const white = " \t\r\n"
	if s = bytes.TrimLeft(s, white); len(s) == 0 || s[0] != '"' {
		return nil, nil, false
	}
	end := 1 + bytes.IndexByte(s[1:], '"')
	return s[1:end], bytes.TrimLeft(s[end+1:], white), true
}

// stringArena stores many short texts in few allocations. An allocation lives until none of its texts is referenced.
type stringArena struct{ chunk strings.Builder }

const arenaChunk = 1 << 16

func (t *stringArena) store(b []byte) string {
	if t.chunk.Len()+len(b) > t.chunk.Cap() {
		t.chunk = strings.Builder{}
		t.chunk.Grow(max(arenaChunk, len(b)))
	}
	from := t.chunk.Len()
	t.chunk.Write(b)
	return t.chunk.String()[from:]
}
