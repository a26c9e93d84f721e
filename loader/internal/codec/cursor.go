// Package codec encodes numbers and row pieces, for the records of a plan and for the states of planner and mixture.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTruncated is the error of a read beyond the last byte.
var ErrTruncated = errors.New("cut short")

// Cursor decodes numbers. After the first error it returns zeros.
type Cursor struct {
	Buf []byte // unread bytes
	Err error  // the first error
}

// Fail records err if it is the first error, and drops the remaining bytes.
func (r *Cursor) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.Buf = nil
}

// Uvarint reads an unsigned number, encoded as a varint.
func (r *Cursor) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Buf)
	if n <= 0 {
		r.Fail(ErrTruncated)
		return 0
	}
	r.Buf = r.Buf[n:]
	return v
}

// Varint reads a signed number, encoded as a zigzag varint.
func (r *Cursor) Varint() int64 {
	v := r.Uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// AppendString appends the length of a string in bytes, then the string.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Bytes returns the next n bytes without copying them.
func (r *Cursor) Bytes(n int) []byte {
	if n > len(r.Buf) {
		r.Fail(ErrTruncated)
		return nil
	}
	out := r.Buf[:n]
	r.Buf = r.Buf[n:]
	return out
}

// BoundedUvarint reads a number of at most limit.
func (r *Cursor) BoundedUvarint(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.Fail(fmt.Errorf("%d where at most %d can be", v, limit))
		return 0
	}
	return v
}
