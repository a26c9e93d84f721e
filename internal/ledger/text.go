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

// textShown is how many characters of a piece's text the table shows: its beginning and its end.
const textShown = 120

// Text is the text of a piece: in JSON a string, or {"base64"} where a character is cut.
type Text struct{ bytes []byte }

// MarshalJSON writes the text.
func (t *Text) MarshalJSON() ([]byte, error) {
	if utf8.Valid(t.bytes) {
		return json.Marshal(string(t.bytes))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(t.bytes)})
}

// UnmarshalJSON refuses: texts come from tokens.
func (t *Text) UnmarshalJSON([]byte) error { return errors.New("a piece's text is not read") }

// shown is the text on one line, without its middle where it is long.
func (t *Text) shown() string {
	runes := bytes.Runes(bytes.ToValidUTF8(t.bytes, []byte("\ufffd"))) // a cut character becomes U+FFFD
	if len(runes) <= textShown {
		return strconv.Quote(string(runes))
	}
	head, tail := runes[:textShown*3/4], runes[len(runes)-textShown/4:]
	return fmt.Sprintf("%q ... %d more ... %q", string(head), len(runes)-textShown, string(tail))
}
