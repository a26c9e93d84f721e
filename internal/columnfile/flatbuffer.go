package columnfile

import (
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"
)

// A message of Arrow is a flatbuffer. Its decoder allocates the declared number of fields, children and entries of a
// vector, and follows offsets that may refer to the same field repeatedly. So every vector is checked here first.

const (
	// maxFieldDepth bounds the nesting of fields; the decoder's own bound on data is 64.
	maxFieldDepth = 64
	// maxFields bounds the fields of a schema, nested ones included.
	maxFields = 1 << 16
)

// Types of messages.
const (
	schemaMessage     = 1
	dictionaryMessage = 2
	recordMessage     = 3
)

// vtableOffset returns the offset of a table's n-th member in its vtable.
func vtableOffset(n int) flatbuffers.VOffsetT { return flatbuffers.VOffsetT(4 + 2*n) }

// checkMessage validates a message's metadata and returns the size of its body in bytes.
func checkMessage(meta []byte) (body int64, err error) {
	err = Guard(func() error {
		m := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
		body = m.GetInt64Slot(vtableOffset(3), 0)
		if body < 0 {
			return errors.New("a body has a negative length")
		}
		if err := checkVector(m, 4, 4); err != nil {
			return err
		}
		header, ok := memberTable(m, 2)
		if !ok {
			return errors.New("a message without a header")
		}
		switch m.GetByteSlot(vtableOffset(1), 0) {
		case schemaMessage:
			return (&schemaChecker{}).checkSchema(header)
		case dictionaryMessage:
			data, ok := memberTable(header, 1)
			if !ok {
				return errors.New("a dictionary without values")
			}
			return checkBatch(data)
		case recordMessage:
			return checkBatch(header)
		}
		return nil
	})
	return body, err
}

// memberTable follows a table's member to another table.
func memberTable(t flatbuffers.Table, member int) (flatbuffers.Table, bool) {
	o := t.Offset(vtableOffset(member))
	if o == 0 {
		return flatbuffers.Table{}, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Pos + flatbuffers.UOffsetT(o))}, true
}

// memberVector returns the position and the number of a member's elements, and checks that the data is large enough for
// them.
func memberVector(t flatbuffers.Table, member, size int) (at flatbuffers.UOffsetT, n int, err error) {
	o := flatbuffers.UOffsetT(t.Offset(vtableOffset(member)))
	if o == 0 {
		return 0, 0, nil
	}
	at, n = t.Vector(o), t.VectorLen(o)
	if n < 0 || int64(at)+int64(n)*int64(size) > int64(len(t.Bytes)) {
		return 0, 0, errors.New("a vector has more elements than bytes")
	}
	return at, n, nil
}

func checkVector(t flatbuffers.Table, member, size int) error {
	_, _, err := memberVector(t, member, size)
	return err
}

// checkBatch validates a RecordBatch: nodes, buffers, and the numbers of buffers of views.
func checkBatch(b flatbuffers.Table) error {
	if n := b.GetInt64Slot(vtableOffset(0), 0); n < 0 || n > maxPart {
		return errors.New("a batch has too many rows")
	}
	if err := checkVector(b, 1, 16); err != nil {
		return err
	}
	_, buffers, err := memberVector(b, 2, 16)
	if err != nil {
		return err
	}
	counts, n, err := memberVector(b, 4, 8)
	if err != nil {
		return err
	}
	for i := range n {
		if views := b.GetInt64(counts + flatbuffers.UOffsetT(8*i)); views < 0 || views > int64(buffers) {
			return errors.New("a column has more buffers than the batch")
		}
	}
	return nil
}

// schemaChecker counts the fields of a schema, once per reference to them.
type schemaChecker struct{ fields int }

func (c *schemaChecker) checkSchema(s flatbuffers.Table) error {
	return errors.Join(c.checkChildren(s, 1, 0), checkVector(s, 2, 4), checkVector(s, 3, 8))
}

func (c *schemaChecker) checkChildren(t flatbuffers.Table, member, depth int) error {
	at, n, err := memberVector(t, member, 4)
	if err != nil {
		return err
	}
	if c.fields += n; c.fields > maxFields || depth > maxFieldDepth {
		return errors.New("a schema has too many fields")
	}
	for i := range n {
		field := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + flatbuffers.UOffsetT(4*i))}
		if err := errors.Join(c.checkChildren(field, 5, depth+1), checkVector(field, 6, 4), checkType(field)); err != nil {
			return err
		}
	}
	return nil
}

// unionType is the only type that contains a vector: the ids of its members.
const unionType = 14

func checkType(field flatbuffers.Table) error {
	t, ok := memberTable(field, 3)
	if !ok || field.GetByteSlot(vtableOffset(2), 0) != unionType {
		return nil
	}
	return checkVector(t, 1, 4)
}
