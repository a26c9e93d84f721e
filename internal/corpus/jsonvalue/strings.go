package jsonvalue

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Unquote returns the text of a valid JSON string. Unpaired surrogates and invalid bytes become U+FFFD. A buffer that
// is much longer than its text is not retained, because batches of documents are bounded by the length of texts.
func Unquote(quoted []byte) []byte {
	inner := quoted[len(`"`) : len(quoted)-len(`"`)]
	if bytes.IndexByte(inner, '\\') < 0 {
		if utf8.Valid(inner) {
			return bytes.Clone(inner)
		}
	} else {
		buffer := textBuffers.Get().(*[]byte)
		defer textBuffers.Put(buffer)
		if cap(*buffer) < len(inner)+wordBytes {
			*buffer = make([]byte, len(inner)+wordBytes)
		}
		text := unescape((*buffer)[:len(inner)+wordBytes], inner)
		if cap(*buffer) > maxTextBuffer {
			*buffer = nil
		}
		if utf8.Valid(text) {
			return bytes.Clone(text)
		}
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // an error is an unpaired surrogate or an invalid byte
	return text
}

// textBuffers has buffers of at most maxTextBuffer bytes.
var textBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxTextBuffer = 1 << 20

// wordBytes is the number of bytes that are scanned at a time.
const wordBytes = 8

// simpleEscapes has the byte of each escape of two bytes.
var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape writes a text without its escapes to a buffer, which is at least wordBytes longer, and returns the written
// part.
func unescape(to, from []byte) []byte {
	w, r := 0, 0
	for r < len(from) {
		if r+wordBytes <= len(from) {
			word := binary.LittleEndian.Uint64(from[r:])
			binary.LittleEndian.PutUint64(to[w:], word)
			slash := word ^ ones*'\\'
			found := (slash - ones) &^ slash & highs
			if found == 0 {
				w, r = w+wordBytes, r+wordBytes
				continue
			}
			n := bits.TrailingZeros64(found) / 8 // of the first byte that is 0 in slash
			w, r = w+n, r+n
		}
		for r < len(from) && from[r] == '\\' {
			if c := from[r+1]; c != 'u' {
				to[w] = simpleEscapes[c]
				w, r = w+1, r+len(`\n`)
				continue
			}
			c, n := hexRune(from[r:])
			w, r = w+utf8.EncodeRune(to[w:], c), r+n
		}
		if r+wordBytes > len(from) && r < len(from) {
			to[w] = from[r]
			w, r = w+1, r+1
		}
	}
	return to[:w]
}

// ones and highs have the lowest and the highest bit of each byte of a word.
const ones, highs = 0x0101010101010101, 0x8080808080808080

// hexRune returns the character of the escapes \u0000 at the start of a valid text, U+FFFD for half a surrogate pair,
// and the length of the escapes.
func hexRune(text []byte) (r rune, size int) {
	const escape = len(`\u0000`)
	unit := func(b []byte) rune {
		n, _ := strconv.ParseUint(string(b[len(`\u`):escape]), 16, 16) // cannot fail
		return rune(n)
	}
	r = unit(text)
	if !utf16.IsSurrogate(r) {
		return r, escape
	}
	if bytes.HasPrefix(text[escape:], []byte(`\u`)) {
		if both := utf16.DecodeRune(r, unit(text[escape:])); both != utf8.RuneError {
			return both, 2 * escape
		}
	}
	return utf8.RuneError, escape
}

// scanString returns the length of the valid JSON string at the start of raw, quotes included, or 0.
func scanString(raw []byte) int {
	for i := 1; i < len(raw); {
		if i+wordBytes <= len(raw) {
			word := binary.LittleEndian.Uint64(raw[i:])
			quote, slash := word^ones*'"', word^ones*'\\'
			// The lowest of these bits is of the first byte that is 0 in quote or slash, or below ' ' in word. Borrows set
			// further bits of later bytes only.
			found := ((quote-ones)&^quote | (slash-ones)&^slash | (word-ones*' ')&^word) & highs
			if found == 0 {
				i += wordBytes
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c != '\\':
			i++
		case i+1 < len(raw) && simpleEscapes[raw[i+1]] != 0:
			i += len(`\n`)
		case i+1 < len(raw) && raw[i+1] == 'u' && isHex(raw[i+len(`\u`):]):
			i += len(`\u0000`)
		default:
			return 0
		}
	}
	return 0
}

// readText returns the text of the JSON string at the start of raw, which is valid UTF-8, and the length of the string,
// quotes included, or 0 if it is not valid. It is scanString and Unquote in one pass.
func readText(raw []byte) (text []byte, size int) {
	to := make([]byte, len(raw)+wordBytes)
	if size, n := scanText(to, raw); size > 0 {
		if n < len(to)/4*3 { // text is retained, the rest of raw is not
			return bytes.Clone(to[:n]), size
		}
		return to[:n:n], size
	}
	return nil, 0
}

// scanText is scanString that also writes the text without escapes to a buffer, which is at least wordBytes longer than
// raw, and returns its length.
func scanText(to, raw []byte) (size, w int) {
	for i := 1; i < len(raw); {
		if i+wordBytes <= len(raw) {
			word := binary.LittleEndian.Uint64(raw[i:])
			binary.LittleEndian.PutUint64(to[w:], word)
			quote, slash := word^ones*'"', word^ones*'\\'
			found := ((quote-ones)&^quote | (slash-ones)&^slash | (word-ones*' ')&^word) & highs // as in scanString
			if found == 0 {
				i, w = i+wordBytes, w+wordBytes
				continue
			}
			n := bits.TrailingZeros64(found) / 8
			i, w = i+n, w+n
		}
		switch c := raw[i]; {
		case c == '"':
			return i + 1, w
		case c < ' ':
			return 0, 0
		case c != '\\':
			to[w] = c
			i, w = i+1, w+1
		case i+1 < len(raw) && simpleEscapes[raw[i+1]] != 0:
			to[w] = simpleEscapes[raw[i+1]]
			i, w = i+len(`\n`), w+1
		case isUnicodeEscape(raw[i:]):
			if next := raw[i+len(`\u0000`):]; bytes.HasPrefix(next, []byte(`\u`)) && !isUnicodeEscape(next) {
				return 0, 0
			}
			r, n := hexRune(raw[i:])
			i, w = i+n, w+utf8.EncodeRune(to[w:], r)
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// isUnicodeEscape reports whether b starts with an escape \u0000.
func isUnicodeEscape(b []byte) bool {
	return len(b) > 1 && b[0] == '\\' && b[1] == 'u' && isHex(b[len(`\u`):])
}

// isHex reports whether b starts with four hexadecimal digits.
func isHex(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	for _, c := range b[:4] {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}
