package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"loaderd/internal/corpus/columnar"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// Fields returns the fields of the input's first file, none for a format without fields, or for a pipe, which can be
// read only once.
func (in *Input) Fields(ctx context.Context) (fields []record.Field, err error) {
	if len(in.files) == 0 || in.files[0].pipe {
		return nil, nil
	}
	s := in.files[0]
	switch in.format {
	case Parquet:
		p, err := newOpener(in.options).openParquet(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Origin, err)
		}
		defer p.Close() // read only
		return columnar.ParquetFields(p), nil
	case MDS:
		if s.shard != nil {
			return columnar.ShardFields(*s.shard), nil
		}
	case JSONL, JSON, CSV, Arrow:
	default:
		return nil, nil
	}
	r, err := newOpener(in.options).open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Origin, err)
	}
	defer r.Close() // read only
	if in.format == MDS || in.format == Arrow {
		read := columnar.MDSFields
		if in.format == Arrow {
			read = columnar.ArrowFields
		}
		if fields, err = read(r); err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Origin, err)
		}
		return fields, nil
	}
	h, err := readHead(r, headBytes, false)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Origin, err)
	}
	if in.format == CSV {
		if names, err := csvtable.ColumnNames(h.data, in.options.columns(), in.options.CSV); err == nil {
			for _, name := range names {
				fields = append(fields, record.Field{Name: name})
			}
		}
		return fields, nil
	}
	return recordFields(h.data, in.format == JSON), nil
}

// recordFields returns the fields of the first record.
func recordFields(data []byte, array bool) (fields []record.Field) {
	v := jsonvalue.NewReader(bytes.NewReader(data), headBytes, array)
	raw, _, err := v.Next()
	if err != nil {
		return nil
	}
	object, _ := jsonvalue.ReadObject(raw) // reading the file reports the error
	for _, name := range object.Names() {
		fields = append(fields, record.Field{Name: name, Type: jsonType(object.Value(name))})
	}
	slices.SortFunc(fields, func(a, b record.Field) int { return strings.Compare(a.Name, b.Name) })
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
