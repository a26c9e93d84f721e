package jsonlines

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"loaderd/tokenizer"
)

// Converter appends the output line for an input line. It is used by one goroutine.
type Converter func(out, line []byte) ([]byte, error)

// textLine is a line with a document.
type textLine struct {
	ID     json.RawMessage `json:"id"`
	Text   *string         `json:"text"`
	Base64 *string         `json:"base64"`
}

// idsLine is a line with its tokens.
type idsLine struct {
	ID  json.RawMessage `json:"id"`
	IDs *[]int32        `json:"ids"`
}

// Encode turns lines of text into lines of token ids: {"id", "text"} or {"id", "base64"} into {"id", "ids"}.
func Encode(model *tokenizer.Model) Converter {
	encoder := model.NewEncoder()
	var ids []int32
	return func(out, line []byte) ([]byte, error) {
		var doc textLine
		if err := json.Unmarshal(line, &doc); err != nil {
			return out, Bad(err, `{"id", "text"} or {"id", "base64"}`)
		}
		var text []byte
		switch {
		case doc.Text != nil && doc.Base64 == nil:
			text = []byte(*doc.Text)
		case doc.Base64 != nil && doc.Text == nil:
			var err error
			if text, err = base64.StdEncoding.DecodeString(*doc.Base64); err != nil {
				return out, fmt.Errorf("decode base64: %w", err)
			}
		default:
			return out, errors.New(`want either "text" or "base64"`)
		}
		ids = encoder.Encode(ids[:0], text)
		out = appendID(out, doc.ID)
		out = append(out, `"ids":[`...)
		for i, id := range ids {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(id), 10)
		}
		return append(out, "]}\n"...), nil
	}
}

// Decode turns lines of token ids into lines of text: {"id", "ids"} into {"id", "text"}, or "base64" if the bytes are
// not UTF-8.
func Decode(model *tokenizer.Model) Converter {
	return func(out, line []byte) ([]byte, error) {
		var doc idsLine
		if err := json.Unmarshal(line, &doc); err != nil {
			return out, Bad(err, `{"id", "ids"}`)
		}
		if doc.IDs == nil {
			return out, errors.New(`want "ids", a list of integers`)
		}
		text, err := model.Decode(nil, *doc.IDs)
		if err != nil {
			return out, err
		}
		field, value := "base64", base64.StdEncoding.EncodeToString(text)
		if utf8.Valid(text) {
			field, value = "text", string(text)
		}
		var quoted bytes.Buffer
		enc := json.NewEncoder(&quoted)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return out, fmt.Errorf("write %s: %w", field, err)
		}
		out = append(appendID(out, doc.ID), `"`+field+`":`...)
		return append(append(out, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...), "}\n"...), nil
	}
}

// appendID starts an output line.
func appendID(out []byte, id json.RawMessage) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return append(append(append(out, `{"id":`...), id...), ',')
}
