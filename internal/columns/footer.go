package columns

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// schemaDepth bounds how deep columns lie in each other.
const schemaDepth = 100

const parquetMagic = "PAR1"

// checkFooter looks at a Parquet file's footer before the decoder does: every list in it has the elements that it names, and the
// elements of the schema make one tree.
func checkFooter(r io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < int64(len(parquetMagic)+len(tail)) {
		return errors.New("it is too short")
	}
	if _, err := r.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return err
	}
	if magic := string(tail[4:]); magic == "PARE" {
		return errors.New("it is encrypted")
	} else if magic != parquetMagic {
		return errors.New("it does not end as one: it is cut off, or is something else")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-int64(len(tail)) || n > most {
		return damaged("a footer of %d bytes in a file of %d", n, size)
	}
	t := &thrift{r: bufio.NewReader(io.NewSectionReader(r, size-int64(len(tail))-n, n))}
	err := t.fields(func(id int64, kind byte) error {
		if id == 2 && kind == thriftList {
			return t.schema()
		}
		return t.skip(kind)
	})
	if err != nil {
		return damaged("its footer: %w", err)
	}
	return nil
}

// schema reads FileMetaData.schema, a tree in depth-first order: every element names how many children follow it.
func (t *thrift) schema() error {
	n, kind, err := t.list()
	if err != nil {
		return err
	}
	if kind != thriftStruct {
		return errThrift
	}
	open := []int64{1} // elements that are still to come, a level
	for range n {
		if len(open) == 0 {
			return errors.New("the schema has more elements than its tree")
		}
		children := int64(0)
		err := t.fields(func(id int64, kind byte) (err error) {
			if id == 5 && kind == thriftI32 {
				children, err = t.number()
				return err
			}
			return t.skip(kind)
		})
		switch {
		case err != nil:
			return err
		case children < 0 || uint64(children) >= n:
			return errors.New("the schema has fewer elements than its tree")
		case len(open) > schemaDepth:
			return errors.New("the schema is too deep")
		}
		open[len(open)-1]--
		if children > 0 {
			open = append(open, children)
		}
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return errors.New("the schema has fewer elements than its tree")
	}
	return nil
}
