package columns

import (
	"bufio"
	"errors"
	"io"
)

// Types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// thriftDepth bounds how deep structs and lists lie in each other; Parquet's go to about ten.
const thriftDepth = 64

// thrift walks through a value of the compact protocol without keeping it. Every count in it is met by bytes that are there.
type thrift struct {
	r     *bufio.Reader
	depth int
}

var errThrift = errors.New("not Thrift's compact protocol")

func (t *thrift) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := t.r.ReadByte()
		if err != nil {
			return 0, unexpected(err)
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errThrift
}

// number reads an integer of any width.
func (t *thrift) number() (int64, error) {
	v, err := t.varint()
	return int64(v>>1) ^ -int64(v&1), err
}

// fields calls f with every field of a struct; f reads the field or calls skip.
func (t *thrift) fields(f func(id int64, kind byte) error) error {
	if t.depth++; t.depth > thriftDepth {
		return errThrift
	}
	defer func() { t.depth-- }()
	for id := int64(0); ; {
		head, err := t.r.ReadByte()
		if err != nil {
			return unexpected(err)
		}
		kind := head & 0x0f
		if kind == thriftStop {
			return nil
		}
		if delta := int64(head >> 4); delta > 0 {
			id += delta
		} else if id, err = t.number(); err != nil {
			return err
		}
		if err := f(id, kind); err != nil {
			return err
		}
	}
}

// list reads the head of a list or set.
func (t *thrift) list() (n uint64, kind byte, err error) {
	head, err := t.r.ReadByte()
	if err != nil {
		return 0, 0, unexpected(err)
	}
	if n = uint64(head >> 4); n == 15 {
		n, err = t.varint()
	}
	return n, head & 0x0f, err
}

// skip reads past a field of a kind. A boolean field is in its head.
func (t *thrift) skip(kind byte) error {
	if kind == thriftTrue || kind == thriftFalse {
		return nil
	}
	return t.skipValue(kind)
}

func (t *thrift) skipValue(kind byte) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return t.discard(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := t.varint()
		return err
	case thriftDouble:
		return t.discard(8)
	case thriftUUID:
		return t.discard(16)
	case thriftBinary:
		n, err := t.varint()
		if err != nil {
			return err
		}
		return t.discard(n)
	case thriftList, thriftSet:
		n, kind, err := t.list()
		if err != nil {
			return err
		}
		return t.many(n, kind)
	case thriftMap:
		return t.skipMap()
	case thriftStruct:
		return t.fields(func(_ int64, kind byte) error { return t.skip(kind) })
	}
	return errThrift
}

func (t *thrift) many(n uint64, kinds ...byte) error {
	if t.depth++; t.depth > thriftDepth {
		return errThrift
	}
	defer func() { t.depth-- }()
	for range n {
		for _, kind := range kinds {
			if err := t.skipValue(kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *thrift) skipMap() error {
	n, err := t.varint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := t.r.ReadByte()
	if err != nil {
		return unexpected(err)
	}
	return t.many(n, kinds>>4, kinds&0x0f)
}

func (t *thrift) discard(n uint64) error {
	if n > most {
		return errThrift
	}
	_, err := t.r.Discard(int(n))
	return unexpected(err)
}

// unexpected is an end where there should be more.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
