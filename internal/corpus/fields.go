package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet/schema"

	"loaderd/internal/columns"
	"loaderd/internal/mds"
)

// Field is a column, or a field of the first record, and its type in the format's own words.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
}

// Fields are those of the input's first file; none where its format knows none. Of a pipe, which can be read only once, none are told.
func (in *Input) Fields(ctx context.Context) (fields []Field, err error) {
	if len(in.files) == 0 || in.files[0].pipe {
		return nil, nil
	}
	s := in.files[0]
	switch in.format {
	case Parquet:
		return parquetFields(s.origin)
	case MDS:
		if s.shard != nil {
			return shardFields(*s.shard), nil
		}
	case JSONL, JSON, CSV, Arrow:
	default:
		return nil, nil
	}
	look := Input{options: in.options} // whose reading counts nothing
	r, err := look.open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.origin, err)
	}
	defer r.Close() // nothing was written
	if in.format == MDS {
		m, err := mds.OpenShard(r)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.origin, err)
		}
		return shardFields(m.Shard()), nil
	}
	if in.format == Arrow {
		a, err := columns.NewArrow(r)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.origin, err)
		}
		for _, f := range a.Schema().Fields() {
			fields = append(fields, Field{f.Name, f.Type.String()})
		}
		return fields, nil
	}
	h, err := readHead(r, headBytes, false)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.origin, err)
	}
	if in.format == CSV {
		if t, err := in.options.header(h.data); err == nil {
			for _, name := range t.names {
				fields = append(fields, Field{Name: name})
			}
		}
		return fields, nil
	}
	return recordFields(h.data, in.format == JSON), nil
}

func shardFields(s mds.Shard) (fields []Field) {
	for i, name := range s.Names {
		fields = append(fields, Field{name, s.Encodings[i]})
	}
	return fields
}

func parquetFields(name string) (fields []Field, err error) {
	p, err := columns.OpenParquet(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer p.Close() // nothing was written
	s := p.MetaData().Schema
	for _, top := range columns.TopNames(s) {
		leaf, found := leafOf(s, top)
		typ := "nested"
		if found == 1 {
			typ = leafType(s.Column(leaf))
		}
		fields = append(fields, Field{top, typ})
	}
	return fields, nil
}

func leafType(c *schema.Column) string {
	typ := strings.ToLower(c.PhysicalType().String())
	if !c.LogicalType().Equals(schema.NoLogicalType{}) {
		typ = strings.ToLower(c.LogicalType().String())
	}
	if c.MaxRepetitionLevel() > 0 {
		return "list of " + typ
	}
	return typ
}

// recordFields are those of the first record.
func recordFields(data []byte, array bool) (fields []Field) {
	v := valueReader{r: newLines(bytes.NewReader(data)), limit: headBytes, array: array}
	raw, _, err := v.next()
	if err != nil {
		return nil
	}
	record, _ := readObject(raw) // reading the file reports the error
	for _, name := range record.names() {
		fields = append(fields, Field{name, jsonType(record.value(name))})
	}
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

func jsonType(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	token, err := d.Token()
	switch t := token.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	case json.Delim:
		if t == '[' {
			return "list"
		}
		return "object"
	}
	if err != nil && err != io.EOF {
		return ""
	}
	return "null"
}
