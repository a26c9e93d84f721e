package mds

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow/float16"
)

// Array is an array value: NumPy's name of its type, and its elements, little-endian.
type Array struct {
	Type string
	Data []byte
}

// arrayTypes are the codes of an array's type, used if its encoding does not name it.
var arrayTypes = map[byte]string{
	8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
	64: "uint64", 65: "int64", 66: "float64",
}

// widths are the sizes in bytes of an element of a type.
var widths = map[string]int{
	"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "uint32": 4, "int32": 4, "float32": 4, "uint64": 8,
	"int64": 8, "float64": 8,
}

// IsArray reports whether an encoding is one of arrays.
func IsArray(encoding string) bool {
	return encoding == "ndarray" || strings.HasPrefix(encoding, "ndarray:")
}

var errShort = errors.New("an array that is cut off")

// ArrayOf decodes an array with encoding "ndarray", "ndarray:TYPE" or "ndarray:TYPE:SHAPE". What the encoding does
// not specify precedes the elements:
//
//	code of the type: uint8 | dimensions<<2 + c: uint8, and the shape in numbers of 1<<c bytes | elements
func ArrayOf(encoding string, data []byte) (a Array, err error) {
	parts := strings.Split(encoding, ":")
	if len(parts) > 1 && parts[1] != "" {
		a.Type = parts[1]
	} else {
		if len(data) == 0 {
			return a, errShort
		}
		a.Type, data = arrayTypes[data[0]], data[1:]
	}
	width := widths[a.Type]
	if width == 0 {
		return a, fmt.Errorf("an array of a type that is not known (%s)", encoding)
	}
	if len(parts) < 3 {
		if len(data) == 0 {
			return a, errShort
		}
		shape := 1 + int(data[0]>>2)<<(data[0]&3)
		if len(data) < shape {
			return a, errShort
		}
		n := uint64(1)
		for dims, size := data[1:shape], 1<<(data[0]&3); len(dims) > 0; dims = dims[size:] {
			var wide [8]byte
			copy(wide[:], dims[:size])
			dim := binary.LittleEndian.Uint64(wide[:])
			if n *= dim; n > shardMost || dim > shardMost {
				return a, errors.New("an array of a shape that is out of range")
			}
		}
		if data = data[shape:]; uint64(len(data)) != n*uint64(width) {
			return a, fmt.Errorf("an array of %d values in %d bytes", n, len(data))
		}
	}
	if len(data)%width != 0 {
		return a, errShort
	}
	a.Data = data
	return a, nil
}

// JSON returns a value as JSON without surrounding space, for encodings of text, bytes that are text, numbers, arrays
// and JSON.
func JSON(encoding string, data []byte) (json.RawMessage, error) {
	switch encoding {
	case "str", "bytes":
		if !utf8.Valid(data) {
			return nil, errors.New("not valid UTF-8")
		}
		return json.Marshal(string(data))
	case "json", "str_int", "str_float":
		if !json.Valid(data) {
			return nil, fmt.Errorf("no JSON, though its encoding is %s", encoding)
		}
		return bytes.TrimSpace(data), nil
	case "int":
		encoding = "int64"
	}
	if IsArray(encoding) {
		a, err := ArrayOf(encoding, data)
		if err != nil {
			return nil, err
		}
		out := []byte{'['}
		for width := widths[a.Type]; len(a.Data) > 0; a.Data = a.Data[width:] {
			if len(out) > 1 {
				out = append(out, ',')
			}
			if out, err = appendNumber(out, a.Type, a.Data); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	if width, ok := widths[encoding]; !ok {
		return nil, fmt.Errorf("its encoding is %s, which is not read", encoding)
	} else if len(data) != width {
		return nil, fmt.Errorf("%d bytes of a %s", len(data), encoding)
	}
	return appendNumber(nil, encoding, data)
}

// appendNumber appends the number at the beginning of data, as JSON.
func appendNumber(out []byte, typ string, data []byte) ([]byte, error) {
	switch typ {
	case "uint8":
		return strconv.AppendUint(out, uint64(data[0]), 10), nil
	case "int8":
		return strconv.AppendInt(out, int64(int8(data[0])), 10), nil
	case "uint16":
		return strconv.AppendUint(out, uint64(binary.LittleEndian.Uint16(data)), 10), nil
	case "int16":
		return strconv.AppendInt(out, int64(int16(binary.LittleEndian.Uint16(data))), 10), nil
	case "uint32":
		return strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(data)), 10), nil
	case "int32":
		return strconv.AppendInt(out, int64(int32(binary.LittleEndian.Uint32(data))), 10), nil
	case "uint64":
		return strconv.AppendUint(out, binary.LittleEndian.Uint64(data), 10), nil
	case "int64":
		return strconv.AppendInt(out, int64(binary.LittleEndian.Uint64(data)), 10), nil
	}
	var f float64
	bits := 32
	switch typ {
	case "float16":
		f = float64(float16.FromBits(binary.LittleEndian.Uint16(data)).Float32())
	case "float32":
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	default:
		f, bits = math.Float64frombits(binary.LittleEndian.Uint64(data)), 64
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v, which JSON does not have", f)
	}
	return strconv.AppendFloat(out, f, 'g', -1, bits), nil
}
