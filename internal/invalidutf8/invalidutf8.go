// Package invalidutf8 counts the bytes of a text that are not UTF-8, and bounds them.
package invalidutf8

import "unicode/utf8"

// Share is the minimum number of bytes of a text per invalid byte. A text with more invalid bytes is in another
// encoding, or is not text.
const Share = 100

// Count returns how many bytes of a text are not UTF-8.
func Count(text []byte) (n int) {
	if utf8.Valid(text) {
		return 0
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			n++
		}
		text = text[size:]
	}
	return n
}

// Exceeds reports whether n invalid bytes exceed the share of a text of size bytes.
func Exceeds(n, size int) bool { return n*Share > size }
