package jsonvalue

import "bytes"

// maxCommonFields bounds the fields that are read again if the object is not a common one.
const maxCommonFields = 64

// scanCommonObject reads an object of at most maxCommonFields fields whose names are ASCII without escapes. It returns
// false for others and for invalid JSON. It scans strings faster than jsontext, to which it passes numbers, lists and
// objects. It returns the text of the field textName as ReadObjectText does.
func scanCommonObject(raw []byte, textName string) (o Object, text []byte, ok bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return nil, nil, false
	}
	if i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '}' {
		return Object{}, nil, skipSpace(raw, i+1) == len(raw)
	}
	o = make(Object, 0, 8)
	for len(o) < maxCommonFields {
		name := scanName(raw[i:])
		if name == 0 {
			return nil, nil, false
		}
		f := Field{Name: string(raw[i+1 : i+name-1])}
		if i = skipSpace(raw, i+name); i == len(raw) || raw[i] != ':' {
			return nil, nil, false
		}
		i = skipSpace(raw, i+1)
		size := 0
		switch {
		case f.Name != textName || textName == "":
			size = scanValue(raw[i:])
		case text != nil:
			return nil, nil, false // the last of equal names counts, and each needs a buffer
		case i < len(raw) && raw[i] == '"':
			text, size = readText(raw[i:])
		default:
			size = scanValue(raw[i:])
		}
		if size == 0 {
			return nil, nil, false
		}
		f.Value = raw[i : i+size : i+size]
		o = append(o, f)
		if i = skipSpace(raw, i+size); i == len(raw) {
			return nil, nil, false
		}
		if raw[i] == '}' {
			return o, text, skipSpace(raw, i+1) == len(raw)
		}
		if raw[i] != ',' {
			return nil, nil, false
		}
		i = skipSpace(raw, i+1)
	}
	return nil, nil, false
}

// skipSpace returns the index of the first byte from i on that is not space.
func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// scanName returns the length of the name at the start of raw, quotes included, or 0 if it is not a string of ASCII
// without escapes.
func scanName(raw []byte) int {
	if len(raw) == 0 || raw[0] != '"' {
		return 0
	}
	for i, c := range raw[1:] {
		switch {
		case c == '"':
			return i + len(`""`)
		case c < ' ' || c == '\\' || c >= 0x80:
			return 0
		}
	}
	return 0
}

// scanValue returns the length of the valid value at the start of raw, or 0.
func scanValue(raw []byte) int {
	if len(raw) == 0 {
		return 0
	}
	switch raw[0] {
	case '"':
		return scanString(raw)
	case 't', 'f', 'n':
		for _, literal := range []string{"true", "false", "null"} {
			if bytes.HasPrefix(raw, []byte(literal)) {
				return len(literal)
			}
		}
		return 0
	}
	d := getDecoder(raw)
	defer d.putBack()
	value, err := d.ReadValue()
	// An object adds a level to the depth of its values, which jsontext bounds.
	if err != nil || bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) >= maxDepth {
		return 0
	}
	return int(d.InputOffset())
}

// maxDepth is the depth of JSON that encoding/json and jsontext accept.
const maxDepth = 10_000
