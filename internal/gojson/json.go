// Package json is the standard library's encoding/json under the name of github.com/goccy/go-json. Arrow reads and writes JSON of schemas and arrays with
// that library, which nothing here ever asks it for, but whose four interpreters would be linked all the same: 2 MB of the program, and 9 s of processor time
// of a build from nothing. What stands here is what Arrow's own variant for TinyGo takes from encoding/json.
package json

import (
	"encoding/json"
	"io"
)

type (
	Decoder            = json.Decoder
	Encoder            = json.Encoder
	Marshaler          = json.Marshaler
	Delim              = json.Delim
	UnmarshalTypeError = json.UnmarshalTypeError
	Number             = json.Number
	Unmarshaler        = json.Unmarshaler
	RawMessage         = json.RawMessage
)

func Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func NewDecoder(r io.Reader) *Decoder { return json.NewDecoder(r) }

func NewEncoder(w io.Writer) *Encoder { return json.NewEncoder(w) }
