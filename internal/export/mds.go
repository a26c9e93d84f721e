package export

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"loaderd/internal/mds"
)

// mdsFile is an MDS file. It is held in memory because the sample offsets precede the samples, as in MosaicML's writer.
type mdsFile struct {
	name    string
	columns []mdsColumn
	samples [][]byte
	size    int64
}

// mdsColumn is a column, or a field of the documents' column.
type mdsColumn struct {
	name, encoding string
	column, field  int // index in the record; index in a struct, else -1
	width          int // bytes per value; 0: variable
}

func newMDSFile(name string, s *arrow.Schema) (writer, error) {
	return &mdsFile{name: name, columns: mdsColumns(s)}, nil
}

// mdsColumns returns the columns of a shard sorted by name, as MosaicML's writer does.
func mdsColumns(s *arrow.Schema) (out []mdsColumn) {
	for i, f := range s.Fields() {
		list, ok := f.Type.(*arrow.ListType)
		if !ok {
			out = append(out, mdsColumn{name: f.Name, encoding: f.Type.Name(), column: i, field: -1,
				width: f.Type.(arrow.FixedWidthDataType).BitWidth() / 8})
			continue
		}
		if of, ok := list.Elem().(*arrow.StructType); ok {
			for k, field := range of.Fields() {
				out = append(out, mdsColumn{name: f.Name + "." + field.Name, encoding: "ndarray:" + field.Type.Name(),
					column: i, field: k})
			}
			continue
		}
		encoding := "ndarray:" + list.Elem().Name()
		switch list.Elem().ID() {
		case arrow.FLOAT16:
			encoding = "ndarray:float16" // Arrow's name is halffloat
		case arrow.FLOAT32:
			encoding = "ndarray:float32"
		case arrow.BOOL:
			encoding = "ndarray:uint8" // ndarray has no booleans
		}
		if isDocumentValue(list.Elem()) {
			encoding = "json"
		}
		out = append(out, mdsColumn{name: f.Name, encoding: encoding, column: i, field: -1})
	}
	slices.SortFunc(out, func(a, b mdsColumn) int { return strings.Compare(a.name, b.name) })
	return out
}

func (s *mdsFile) Write(r arrow.Record) error {
	values := make([][][]byte, len(s.columns))
	for i, c := range s.columns {
		var err error
		if values[i], err = c.values(r.Column(c.column)); err != nil {
			return err
		}
	}
	for row := range int(r.NumRows()) {
		var sizes, data []byte
		for i, c := range s.columns {
			if c.width == 0 {
				sizes = binary.LittleEndian.AppendUint32(sizes, uint32(len(values[i][row])))
			}
			data = append(data, values[i][row]...)
		}
		sample := append(sizes, data...)
		s.samples = append(s.samples, sample)
		if s.size += int64(len(sample)) + 4; s.size > math.MaxUint32/2 {
			return fmt.Errorf("a shard of MDS with more than %d bytes: want fewer steps in a file (--file-steps)",
				math.MaxUint32/2)
		}
	}
	return nil
}

// values returns the encoded values of the rows.
func (c mdsColumn) values(a arrow.Array) ([][]byte, error) {
	out := make([][]byte, a.Len())
	if c.width > 0 {
		data := valueBytes(a)
		for i := range out {
			out[i] = data[i*c.width : (i+1)*c.width]
		}
		return out, nil
	}
	offsets, values := listRows(a)
	if of, ok := values.(*array.Struct); ok {
		values = of.Field(c.field)
	}
	if c.encoding == "json" {
		return out, jsonRows(out, offsets, values)
	}
	data := valueBytes(values)
	width := 1
	if n := values.Len(); n > 0 {
		width = len(data) / n
	}
	for i := range out {
		from, to := int(offsets[i]), int(offsets[i+1])
		shape := binary.LittleEndian.AppendUint32([]byte{1<<2 | 2}, uint32(to-from)) // one dimension of 32 bits
		out[i] = append(shape, data[from*width:to*width]...)
	}
	return out, nil
}

// jsonRows encodes documents' values, null for a missing value.
func jsonRows(out [][]byte, offsets []int32, values arrow.Array) error {
	for i := range out {
		row := []any{}
		for k := int(offsets[i]); k < int(offsets[i+1]); k++ {
			row = append(row, values.GetOneForMarshal(k))
		}
		var err error
		if out[i], err = json.Marshal(row); err != nil {
			return err
		}
	}
	return nil
}

func (s *mdsFile) Close() error {
	config, err := json.Marshal(s.indexEntry("", 0, 0))
	if err != nil {
		return err
	}
	place := uint32(4*(len(s.samples)+2) + len(config))
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(s.samples)))
	head = binary.LittleEndian.AppendUint32(head, place)
	for _, sample := range s.samples {
		place += uint32(len(sample))
		head = binary.LittleEndian.AppendUint32(head, place)
	}
	f, err := os.Create(s.name)
	if err != nil {
		return err
	}
	for _, part := range slices.Concat([][]byte{head, config}, s.samples) {
		if _, err = f.Write(part); err != nil {
			break
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// indexEntry returns a shard's entry in the index.
func (s *mdsFile) indexEntry(name string, bytes, samples int64) mds.Shard {
	e := mds.Shard{Version: 2, Format: "mds", Hashes: []string{}, Samples: samples,
		Raw: mds.File{Name: name, Bytes: bytes, Hashes: map[string]string{}}}
	for _, c := range s.columns {
		e.Names, e.Encodings = append(e.Names, c.name), append(e.Encodings, c.encoding)
		var size *int64
		if c.width > 0 {
			n := int64(c.width)
			size = &n
		}
		e.Sizes = append(e.Sizes, size)
	}
	return e
}

// writeIndex writes the index of all parts, which have the same columns.
func writeIndex(dir string, m *Manifest) error {
	index := mds.Index{Version: 2, Shards: []mds.Shard{}}
	for _, p := range m.Parts {
		f := p.Files[0]
		columns, err := shardColumns(filepath.Join(dir, f.Name))
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		columns.Samples, columns.Raw = p.Rows, mds.File{Name: f.Name, Bytes: f.Bytes, Hashes: map[string]string{}}
		index.Shards = append(index.Shards, columns)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return writeAtomic(filepath.Join(dir, mds.IndexName), data)
}

// shardColumns reads the columns from the header of a shard that this package wrote.
func shardColumns(name string) (s mds.Shard, err error) {
	f, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer f.Close() // read-only
	var n [4]byte
	if _, err := f.ReadAt(n[:], 0); err != nil {
		return s, err
	}
	from := 4 * (int64(binary.LittleEndian.Uint32(n[:])) + 2)
	if _, err := f.ReadAt(n[:], 4); err != nil {
		return s, err
	}
	config := make([]byte, max(int64(binary.LittleEndian.Uint32(n[:]))-from, 0))
	if _, err := f.ReadAt(config, from); err != nil {
		return s, err
	}
	return s, json.Unmarshal(config, &s)
}
