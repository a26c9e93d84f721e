package export

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// npyHeaderBytes is the space reserved for a header, whose content depends on all values.
const npyHeaderBytes = 128

// npyFolder is a folder of NumPy files, with one or more files per column:
//
//	NAME.npy          one number per row, or the concatenated values of all rows: [rows, L] if the configuration has
//	                  one row length and all rows of the part have the same, else flat
//	NAME.offsets.npy  for flat columns: int64 [rows+1], the start of each row
//	NAME.valid.npy    for documents' values: bool, false for missing values
//	NAME.texts.json   for texts: the list that the int32 values of NAME.npy refer to, -1 for a missing text
//	NAME.FIELD.npy    for the documents' column: one file per field
type npyFolder struct {
	dir         string
	columns     []*npyColumn
	rectangular bool // the configuration has one row length; a control may add others
}

// npyColumn contains the files of a column.
type npyColumn struct {
	name      string
	values    []*npyFile // one, or one per field
	fields    []string
	valid     *npyFile
	textIndex map[string]int32
	texts     []string
	offsets   []int64 // nil for one number per row
	length    int     // of every row; -1 if lengths differ
	list      bool
}

func newNPYFolder(dir string, s *arrow.Schema, square bool) (writer, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	a := &npyFolder{dir: dir, rectangular: square}
	for _, f := range s.Fields() {
		c, err := newNPYColumn(dir, f.Name, f.Type)
		if c != nil {
			a.columns = append(a.columns, c)
		}
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

func newNPYColumn(dir, name string, t arrow.DataType) (c *npyColumn, err error) {
	c = &npyColumn{name: name, length: -2}
	open := func(name string, t arrow.DataType) (f *npyFile) {
		if err == nil {
			f, err = newNPY(filepath.Join(dir, name+".npy"), t)
		}
		return f
	}
	if list, ok := t.(*arrow.ListType); ok {
		c.list, c.offsets, t = true, []int64{0}, list.Elem()
	}
	if s, ok := t.(*arrow.StructType); ok {
		for _, f := range s.Fields() {
			c.fields = append(c.fields, f.Name)
			c.values = append(c.values, open(name+"."+f.Name, f.Type))
		}
		return c, err
	}
	if t.ID() == arrow.STRING {
		c.textIndex, t = map[string]int32{}, arrow.PrimitiveTypes.Int32
	} else if c.list && isDocumentValue(t) {
		c.valid = open(name+".valid", arrow.FixedWidthTypes.Boolean)
	}
	c.values = []*npyFile{open(name, t)}
	return c, err
}

func (a *npyFolder) Write(r arrow.Record) error {
	for i, c := range a.columns {
		if err := c.write(r.Column(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *npyColumn) write(column arrow.Array) error {
	values := column
	if c.list {
		var offsets []int32
		offsets, values = listRows(column)
		at := c.offsets[len(c.offsets)-1]
		for i, o := range offsets[1:] {
			c.offsets = append(c.offsets, at+int64(o))
			if n := int(o - offsets[i]); c.length == -2 {
				c.length = n
			} else if c.length != n {
				c.length = -1
			}
		}
	}
	switch v := values.(type) {
	case *array.Struct:
		for k, f := range c.values {
			if err := f.add(valueBytes(v.Field(k))); err != nil {
				return err
			}
		}
		return nil
	case *array.String:
		return c.values[0].add(arrow.Int32Traits.CastToBytes(c.textIndices(v)))
	}
	if c.valid != nil {
		valid := make([]byte, values.Len())
		for i := range valid {
			if values.IsValid(i) {
				valid[i] = 1
			}
		}
		if err := c.valid.add(valid); err != nil {
			return err
		}
	}
	return c.values[0].add(valueBytes(values))
}

// textIndices returns the indices of texts in the column's list.
func (c *npyColumn) textIndices(texts *array.String) []int32 {
	out := make([]int32, texts.Len())
	for i := range out {
		if texts.IsNull(i) {
			out[i] = -1
			continue
		}
		place, known := c.textIndex[texts.Value(i)]
		if !known {
			place = int32(len(c.texts))
			c.texts = append(c.texts, strings.Clone(texts.Value(i)))
			c.textIndex[c.texts[place]] = place
		}
		out[i] = place
	}
	return out
}

func (a *npyFolder) Close() (err error) {
	for _, c := range a.columns {
		err = errors.Join(err, c.close(a.dir, a.rectangular))
	}
	return err
}

func (c *npyColumn) close(dir string, square bool) (err error) {
	square = square && c.list && c.length > 0 && c.fields == nil && c.textIndex == nil && c.valid == nil
	for _, f := range append(c.values, c.valid) {
		if f == nil {
			continue
		}
		if square {
			err = errors.Join(err, f.close(int64(len(c.offsets)-1), int64(c.length)))
		} else {
			err = errors.Join(err, f.close(f.count))
		}
	}
	if c.list && !square && err == nil {
		offsets, opened := newNPY(filepath.Join(dir, c.name+".offsets.npy"), arrow.PrimitiveTypes.Int64)
		if opened != nil {
			return opened
		}
		err = errors.Join(offsets.add(arrow.Int64Traits.CastToBytes(c.offsets)), offsets.close(int64(len(c.offsets))))
	}
	if c.textIndex == nil || err != nil {
		return err
	}
	words, err := json.Marshal(append([]string{}, c.texts...))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, c.name+".texts.json"), words, 0o644)
}

// npyFile is a NumPy file whose values are written before its header.
type npyFile struct {
	file  *os.File
	out   *bufio.Writer
	descr string
	width int64
	count int64
}

// npyTypes are NumPy's type names. A bool is stored as a byte.
var npyTypes = map[arrow.Type]string{
	arrow.INT8: "|i1", arrow.INT16: "<i2", arrow.UINT16: "<u2", arrow.INT32: "<i4", arrow.INT64: "<i8",
	arrow.UINT64: "<u8",
	arrow.BOOL:   "|b1", arrow.FLOAT16: "<f2", arrow.FLOAT32: "<f4", arrow.FLOAT64: "<f8",
}

func newNPY(name string, t arrow.DataType) (*npyFile, error) {
	descr, ok := npyTypes[t.ID()]
	if !ok {
		return nil, fmt.Errorf("%s: the type %s is not written", filepath.Base(name), t)
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	f := &npyFile{file: file, out: bufio.NewWriterSize(file, 1<<18), descr: descr, width: int64(descr[2] - '0')}
	_, err = f.out.Write(make([]byte, npyHeaderBytes))
	return f, err
}

func (f *npyFile) add(data []byte) error {
	f.count += int64(len(data)) / f.width
	_, err := f.out.Write(data)
	return err
}

// close writes the header and closes the file.
func (f *npyFile) close(shape ...int64) error {
	dimensions := ""
	for _, n := range shape {
		dimensions += fmt.Sprintf("%d, ", n)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", f.descr,
		strings.TrimSuffix(dimensions, " "))
	fixed := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, npyHeaderBytes-10)...)
	fixed = append(fixed, header...)
	for len(fixed) < npyHeaderBytes-1 {
		fixed = append(fixed, ' ')
	}
	fixed = append(fixed, '\n')
	err := f.out.Flush()
	if err == nil {
		_, err = f.file.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = f.file.Write(fixed)
	}
	return errors.Join(err, f.file.Close())
}
