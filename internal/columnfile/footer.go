package columnfile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/thrift/lib/go/thrift"
)

// maxSchemaDepth bounds the nesting of columns.
const maxSchemaDepth = 100

const parquetMagic = "PAR1"

// checkFooter checks that the schema elements in a Parquet file's footer form one tree, and returns the offset of the
// footer. The decoder allocates the declared number of children of an element, and recurses for each level.
func checkFooter(r io.ReaderAt, size int64) (int64, error) {
	var tail [8]byte
	if size < int64(len(parquetMagic)+len(tail)) {
		return 0, errors.New("it is too short")
	}
	if _, err := r.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return 0, err
	}
	if magic := string(tail[4:]); magic == "PARE" {
		return 0, errors.New("it is encrypted")
	} else if magic != parquetMagic {
		return 0, errors.New("its end is not that of a Parquet file: it is cut off, or has another format")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-int64(len(tail)) || n > maxPart {
		return 0, damagedError("a footer of %d bytes in a file of %d", n, size)
	}
	begin := size - int64(len(tail)) - n
	c := newCompactReader(io.NewSectionReader(r, begin, n))
	err := c.readFields(func(id int16, kind thrift.TType) error {
		if id == 2 && kind == thrift.LIST {
			return c.checkSchema()
		}
		return c.skip(kind)
	})
	if err != nil {
		return 0, damagedError("its footer: %w", err)
	}
	return begin, nil
}

// describedEnd returns the end of the last part of the file to which the footer gives an offset and a length: column
// chunks and page indexes.
func describedEnd(m *metadata.FileMetaData) (end int64) {
	for _, group := range m.RowGroups {
		for _, c := range group.Columns {
			if data := c.MetaData; data != nil {
				begin := data.DataPageOffset
				if at := data.GetDictionaryPageOffset(); at > 0 {
					begin = min(begin, at)
				}
				end = max(end, begin+data.TotalCompressedSize)
			}
			end = max(end, c.GetColumnIndexOffset()+int64(c.GetColumnIndexLength()),
				c.GetOffsetIndexOffset()+int64(c.GetOffsetIndexLength()))
		}
	}
	return end
}

// checkSingleFile returns an error for several concatenated Parquet files. Offsets in the last footer count from the
// beginning of the last file, and would refer to the first. The bytes that the footer does not describe are then
// those of the files before the last. In a single file they are few: Bloom filters and padding.
func checkSingleFile(r io.ReaderAt, undescribed int64) error {
	const buffer = 64 << 10
	files := bufio.NewReaderSize(io.NewSectionReader(r, 0, max(undescribed, 0)), buffer)
	for at := int64(0); ; {
		window, err := files.Peek(buffer)
		if err != nil && err != io.EOF {
			return err
		}
		skip := len(window) - (len(parquetMagic) - 1)
		if found := bytes.Index(window, []byte(parquetMagic)); found >= 0 {
			end := at + int64(found+len(parquetMagic))
			if _, err := checkFooter(r, end); err == nil {
				return fmt.Errorf("it contains several Parquet files, the first ends at byte %d: split them", end)
			}
			skip = found + 1
		} else if err == io.EOF {
			return nil
		}
		_, _ = files.Discard(skip) // already peeked
		at += int64(skip)
	}
}

// checkSchema reads FileMetaData.schema, a tree in depth-first order: every element declares how many children follow
// it.
func (c compactReader) checkSchema() error {
	kind, n, err := c.ReadListBegin(context.Background())
	if err != nil {
		return err
	}
	if kind != thrift.STRUCT {
		return errors.New("the schema is not a list of elements")
	}
	open := []int64{1} // number of elements still expected, per level
	for range n {
		if len(open) == 0 {
			return errors.New("the schema has more elements than its tree")
		}
		children := int64(0)
		err := c.readFields(func(id int16, kind thrift.TType) (err error) {
			if id == 5 && kind == thrift.I32 {
				children, err = c.readNumber()
				return err
			}
			return c.skip(kind)
		})
		switch {
		case err != nil:
			return err
		case children < 0 || children >= int64(n):
			return errors.New("the schema has fewer elements than its tree")
		case len(open) > maxSchemaDepth:
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
