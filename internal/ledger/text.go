package ledger

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxTextRunes is the maximum number of characters of a piece's text in the table. Longer texts are shortened in the
// middle.
const maxTextRunes = 120

// Text is the text of a piece. In JSON it is a string, or {"base64"} if it begins or ends within a character.
type Text struct{ bytes []byte }

// MarshalJSON writes the text.
func (t *Text) MarshalJSON() ([]byte, error) {
	if utf8.Valid(t.bytes) {
		return json.Marshal(string(t.bytes))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(t.bytes)})
}

// UnmarshalJSON returns an error, because texts are decoded from tokens only.
func (t *Text) UnmarshalJSON([]byte) error { return errors.New("a piece's text is not read") }

// abbreviate returns the text on one line, shortened in the middle if it is long.
func (t *Text) abbreviate() string {
	runes := bytes.Runes(bytes.ToValidUTF8(t.bytes, []byte("\ufffd"))) // a split character becomes U+FFFD
	if len(runes) <= maxTextRunes {
		return strconv.Quote(string(runes))
	}
	head, tail := runes[:maxTextRunes*3/4], runes[len(runes)-maxTextRunes/4:]
	return fmt.Sprintf("%q ... %d more ... %q", string(head), len(runes)-maxTextRunes, string(tail))
}
