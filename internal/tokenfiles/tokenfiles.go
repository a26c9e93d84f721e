// Package tokenfiles reads documents of token ids from files of other programs: Megatron's .bin and .idx, NumPy's
// .npy, and consecutive ids, with the header of llm.c or without any. For any input, memory is bounded by a document,
// and data that cannot be read is an error.
package tokenfiles

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Type is the encoding of an id in a file.
type Type struct {
	Name      string // NumPy's name
	Size      int    // in bytes
	signed    bool
	bigEndian bool // big-endian
}

// Types are the types of ids, little-endian.
var Types = []Type{
	{Name: "uint8", Size: 1}, {Name: "int8", Size: 1, signed: true}, {Name: "uint16", Size: 2},
	{Name: "int16", Size: 2, signed: true},
	{Name: "uint32", Size: 4}, {Name: "int32", Size: 4, signed: true}, {Name: "uint64", Size: 8},
	{Name: "int64", Size: 8, signed: true},
}

// TypeOf returns the type with a name.
func TypeOf(name string) (Type, error) {
	if i := slices.IndexFunc(Types, func(t Type) bool { return t.Name == name }); i >= 0 {
		return Types[i], nil
	}
	names := make([]string, len(Types))
	for i, t := range Types {
		names[i] = t.Name
	}
	return Type{}, fmt.Errorf("%q is no type of token ids: want %s", name, strings.Join(names, ", "))
}

// Append appends ids as little-endian int32. raw holds complete ids. On error some of them may have been appended.
func (t Type) Append(dst, raw []byte) ([]byte, error) {
	if t.isUint16LE() {
		return appendUint16s(dst, raw), nil
	}
	for i := 0; i < len(raw); i += t.Size {
		id, ok := t.decode(raw[i:])
		if !ok {
			return dst, fmt.Errorf("token %d: id %s does not fit 31 bits", i/t.Size, t.format(raw[i:]))
		}
		dst = binary.LittleEndian.AppendUint32(dst, id)
	}
	return dst, nil
}

// isUint16LE reports whether ids are little-endian uint16, the most common type, which is decoded in bulk.
func (t Type) isUint16LE() bool { return t.Size == 2 && !t.signed && !t.bigEndian }

func appendUint16s(dst, raw []byte) []byte {
	at, n := len(dst), len(raw)/2
	dst = slices.Grow(dst, 4*n)[:at+4*n]
	for i, out := 0, dst[at:]; i < n; i++ {
		binary.LittleEndian.PutUint32(out[4*i:], uint32(binary.LittleEndian.Uint16(raw[2*i:])))
	}
	return dst
}

// decode returns the id at the beginning of raw; ok is false for one that no vocabulary has.
func (t Type) decode(raw []byte) (id uint32, ok bool) {
	bits := t.rawBits(raw)
	if t.signed && bits>>(8*t.Size-1) != 0 {
		return 0, false
	}
	return uint32(bits), bits <= math.MaxInt32
}

func (t Type) rawBits(raw []byte) uint64 {
	var order binary.ByteOrder = binary.LittleEndian
	if t.bigEndian {
		order = binary.BigEndian
	}
	switch t.Size {
	case 1:
		return uint64(raw[0])
	case 2:
		return uint64(order.Uint16(raw))
	case 4:
		return uint64(order.Uint32(raw))
	}
	return order.Uint64(raw)
}

func (t Type) format(raw []byte) string {
	bits := t.rawBits(raw)
	if shift := 64 - 8*t.Size; t.signed {
		return fmt.Sprint(int64(bits<<shift) >> shift)
	}
	return fmt.Sprint(bits)
}

// DocumentError is a document that cannot be read, although later ones can.
type DocumentError struct {
	Tokens   int64 // length of the document
	TooLarge bool  // it exceeds the limit; otherwise Err is the problem
	Err      error
}

func (e *DocumentError) Error() string { return e.Err.Error() }
func (e *DocumentError) Unwrap() error { return e.Err }

// tooLargeError returns the error of a document that has more bytes, as int32 ids, than the limit.
func tooLargeError(tokens, limit int64) error {
	return &DocumentError{Tokens: tokens, TooLarge: true, Err: fmt.Errorf("document has %d tokens, %d bytes, more than %d",
		tokens, 4*tokens, limit)}
}

func truncatedError(what string, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%s is cut off: %w", what, io.ErrUnexpectedEOF)
	}
	return err
}
