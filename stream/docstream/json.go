package docstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"loaderd/stream/deadletter"
)

// jsonDocument holds the fields of a JSON document that are used.
type jsonDocument struct {
	text      []byte
	parts     []part // instead of text
	weight    []byte // raw JSON, nil if absent
	meta      []byte // raw JSON, nil if absent
	id        string
	path      string // "path", else "path" of "meta"; empty unless a string
	embedding []byte // raw JSON, nil if absent
}

// decodeJSON extracts the fields of {"id", "text" or "parts", "weight", "path", "embedding", "meta": {"path"}, ...}.
// Names match exactly, the last of equal names counts, and unknown names are ignored. The library validates the
// payload with bounded depth, which leaves little work for the extraction. Decoding everything into maps costs four
// times as much. Decoding into a struct would accept "TEXT" for "text".
func decodeJSON(data []byte) (out jsonDocument, _ *deadletter.Problem) {
	if !json.Valid(data) {
		return out, newProblem(badJSON, "payload is not JSON: %s", describeJSONError(data))
	}
	var rawText, rawParts, rawID []byte
	var metaPath string
	if !eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "text":
			rawText = value
		case "parts":
			rawParts = value
		case "weight":
			if string(value) != "null" {
				out.weight = value
			}
		case "id":
			rawID = value
		case "path":
			out.path = stringValue(value)
		case "embedding":
			out.embedding = value
		case "meta":
			out.meta = value
			eachMember(value, func(name, value []byte) {
				if string(name) == "path" {
					metaPath = stringValue(value)
				}
			})
		}
	}) {
		return out, newProblem(badJSON, "payload is not a JSON object")
	}
	switch {
	case rawText == nil && rawParts == nil:
		return out, newProblem(badJSON, `payload has no "text" and no "parts"`)
	case rawText != nil && rawParts != nil:
		return out, newProblem(badParts, `payload has both "text" and "parts"`)
	case rawParts != nil:
		var err *deadletter.Problem
		if out.parts, err = parseParts(rawParts); err != nil {
			return jsonDocument{}, err
		}
	case rawText[0] != '"':
		return out, newProblem(badJSON, `"text" is not a string`)
	default:
		out.text = unquote(rawText)
	}
	switch {
	case rawID == nil || string(rawID) == "null":
	case rawID[0] == '"':
		out.id = string(unquote(rawID))
	case rawID[0] == '-' || rawID[0] >= '0' && rawID[0] <= '9':
		out.id = string(rawID) // as it is written
	default:
		return out, newProblem(badJSON, `"id" is neither a string nor a number`)
	}
	if out.path == "" {
		out.path = metaPath
	}
	return out, nil
}

// parseParts extracts [{"text", "loss"}, ...]. A part without "loss" has a loss.
func parseParts(data []byte) (out []part, failed *deadletter.Problem) {
	out = []part{}
	if !eachElement(data, func(value []byte) {
		if failed != nil {
			return
		}
		p, text := part{loss: true}, []byte(nil)
		wrong := ""
		if !eachMember(value, func(name, value []byte) {
			switch string(name) {
			case "text":
				text = value
			case "loss":
				switch string(value) {
				case "true":
					p.loss, wrong = true, ""
				case "false":
					p.loss, wrong = false, ""
				default:
					wrong = `"loss" is neither true nor false`
				}
			}
		}) {
			wrong = "it is no object"
		} else if text == nil {
			wrong = `it has no "text"`
		} else if text[0] != '"' {
			wrong = `"text" is not a string`
		}
		if wrong != "" {
			failed = newProblem(badParts, "part %d: %s", len(out), wrong)
			return
		}
		p.text = unquote(text)
		out = append(out, p)
	}) {
		return nil, newProblem(badParts, `"parts" is not a list`)
	}
	if failed != nil {
		return nil, failed
	}
	return out, nil
}

// eachElement calls f with every value of a JSON list, in order. data must be valid JSON. elements returns false if it
// is not a list.
func eachElement(data []byte, f func(value []byte)) bool {
	if data[0] != '[' {
		return false
	}
	for i := skipSpace(data, 1); data[i] != ']'; i = skipSpace(data, i) {
		if data[i] == ',' {
			i = skipSpace(data, i+1)
		}
		end := valueEnd(data, i)
		f(data[i:end])
		i = end
	}
	return true
}

// stringValue returns the value of a JSON string, "" for any other value.
func stringValue(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	return string(unquote(value))
}

func describeJSONError(data []byte) string {
	err := json.Unmarshal(data, new(json.RawMessage))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("%v at byte %d", syntax, syntax.Offset)
	}
	return fmt.Sprint(err)
}

// eachMember calls f with every name, unquoted, and value of a JSON object, in order. data must be valid JSON. members
// returns false if it is not an object.
func eachMember(data []byte, f func(name, value []byte)) bool {
	i := skipSpace(data, 0)
	if data[i] != '{' {
		return false
	}
	for i = skipSpace(data, i+1); data[i] != '}'; i = skipSpace(data, i) {
		if data[i] == ',' {
			i = skipSpace(data, i+1)
		}
		end := stringEnd(data, i)
		name := unquote(data[i:end])
		i = skipSpace(data, skipSpace(data, end)+1) // the colon
		end = valueEnd(data, i)
		f(name, data[i:end])
		i = end
	}
	return true
}

func skipSpace(data []byte, i int) int {
	for data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r' {
		i++
	}
	return i
}

// stringEnd returns the index after the string that starts at i. The string ends at the first quote that an even
// number of backslashes precede.
func stringEnd(data []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(data[i:], '"')
		slash := i
		for data[slash-1] == '\\' {
			slash--
		}
		if (i-slash)%2 == 0 {
			return i + 1
		}
	}
}

// valueEnd returns the index after the value that starts at i, inside an object or a list.
func valueEnd(data []byte, i int) int {
	for depth := 0; ; {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of the enclosing value also ends a number or a literal
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
}

// unquote returns a valid JSON string's bytes, without a copy if it has no escapes. Bytes that are not UTF-8 are
// kept, as in a plain text. Half a surrogate pair becomes U+FFFD.
func unquote(raw []byte) []byte {
	raw = raw[1 : len(raw)-1]
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for ; i >= 0; i = bytes.IndexByte(raw, '\\') {
		out = append(out, raw[:i]...)
		escape := raw[i+1]
		raw = raw[i+2:]
		if escape != 'u' {
			out = append(out, escapedBytes[escape])
			continue
		}
		r := hex4(raw)
		raw = raw[4:]
		if utf16.IsSurrogate(r) {
			low := rune(utf8.RuneError)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				low = hex4(raw[2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				raw = raw[6:]
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return append(out, raw...)
}

// escapedBytes maps the byte after a backslash to the byte that the escape represents.
var escapedBytes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hex4(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32) // validated
	return rune(n)
}
