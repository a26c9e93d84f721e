package columnar

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/record"
)

// ArrowDocuments yields a document per row of an Arrow IPC file or stream. It returns whether the iteration continues.
func ArrowDocuments(f record.File, r io.Reader, cols record.Columns, yield record.Yield) bool {
	row := int64(0)
	fail := func(err error) bool { return f.Fail(yield, err) }
	a, err := columnfile.NewArrowReader(r)
	if err != nil {
		return fail(err)
	}
	if err := checkArrowSchema(cols, a.Schema()); err != nil {
		return fail(err)
	}
	for {
		batch, err := a.Next()
		if err == io.EOF {
			return true
		}
		var rows arrowColumns
		if err == nil {
			err = columnfile.Guard(func() (err error) { rows, err = selectArrowColumns(cols, batch); return err })
		}
		if err != nil {
			return fail(err)
		}
		for i := range int(batch.NumRows()) {
			row++
			var d record.Document
			var problem error
			if err := columnfile.Guard(func() error { d, problem = arrowRow(cols, rows, i); return nil }); err != nil {
				return fail(fmt.Errorf("row %d: %w", row, err))
			}
			more := false
			if problem != nil {
				more = f.Skip(yield, row, problem)
			} else {
				more = f.Emit(yield, d)
			}
			if !more {
				return false
			}
		}
	}
}

// checkArrowSchema returns an error if a required column is missing.
func checkArrowSchema(cols record.Columns, schema *arrow.Schema) error {
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	if err := cols.CheckUnique(names); err != nil {
		return err
	}
	for _, name := range []string{cols.Text, cols.ID} {
		if name != "" && columnType(schema.Fields(), name) == nil {
			return cols.MissingColumnError(name, names)
		}
	}
	for _, m := range cols.Meta {
		first, _, _ := strings.Cut(m.Column, ".")
		if len(schema.FieldIndices(m.Column)) != 1 && len(schema.FieldIndices(first)) != 1 {
			return cols.MissingColumnError(m.Column, names)
		}
	}
	kind := columnType(schema.Fields(), cols.Text)
	switch {
	case cols.Tokens && !isTokens(kind):
		return fmt.Errorf("column %q is %s: want a list of token ids", cols.Text, kind)
	case !cols.Tokens && !isText(kind):
		return fmt.Errorf("column %q is %s: want text", cols.Text, kind)
	}
	if cols.ID != "" {
		if kind := columnType(schema.Fields(), cols.ID); !isText(kind) && !arrow.IsInteger(kind.ID()) {
			return fmt.Errorf("column %q is %s: want text or integers", cols.ID, kind)
		}
	}
	for _, m := range cols.Meta {
		if kind := columnType(schema.Fields(), m.Column); kind != nil && isNested(kind) {
			return fmt.Errorf("column %q is %s: want a plain column", m.Column, kind)
		}
	}
	return nil
}

// isNested reports whether a value may contain many others. Then a small file can have values of any size.
func isNested(kind arrow.DataType) bool {
	if _, ok := kind.(arrow.NestedType); ok {
		return true
	}
	dictionary, ok := kind.(*arrow.DictionaryType)
	return ok && isNested(dictionary.ValueType)
}

// arrowColumns are the columns of a batch; missing columns are nil.
type arrowColumns struct {
	text, id, label, path, metaPath, url arrow.Array
	meta                                 map[string]arrow.Array
}

func selectArrowColumns(cols record.Columns, batch arrow.Record) (rows arrowColumns, err error) {
	column := func(name string) arrow.Array {
		if at := batch.Schema().FieldIndices(name); len(at) == 1 {
			return batch.Column(at[0])
		}
		return nil
	}
	rows = arrowColumns{
		text: columnAt(batch, cols.Text), id: columnAt(batch, cols.ID),
		label: column("id"), path: column("path"), url: column("url"),
	}
	if meta, ok := column("meta").(*array.Struct); ok {
		if at, ok := meta.DataType().(*arrow.StructType).FieldIdx("path"); ok {
			rows.metaPath = meta.Field(at)
		}
	}
	rows.meta = map[string]arrow.Array{}
	for _, m := range cols.Meta {
		if rows.meta[m.Column] = column(m.Column); rows.meta[m.Column] != nil {
			continue
		}
		first, rest, _ := strings.Cut(m.Column, ".")
		of, ok := column(first).(*array.Struct)
		if !ok {
			return rows, cols.MissingColumnError(m.Column, nil)
		}
		at, ok := of.DataType().(*arrow.StructType).FieldIdx(rest)
		if !ok {
			return rows, cols.MissingColumnError(m.Column, nil)
		}
		rows.meta[m.Column] = of.Field(at)
	}
	return rows, nil
}

// columnType returns the type of a column, or of a struct field by a dotted name; nil if it is missing.
func columnType(fields []arrow.Field, name string) arrow.DataType {
	first, rest, dotted := strings.Cut(name, ".")
	for _, f := range fields {
		if f.Name == name {
			return f.Type
		}
		if of, ok := f.Type.(*arrow.StructType); ok && dotted && f.Name == first {
			return columnType(of.Fields(), rest)
		}
	}
	return nil
}

// columnAt returns the column of a batch whose type columnType returns.
func columnAt(batch arrow.Record, name string) arrow.Array {
	fields, at := batch.Schema().Fields(), batch.Column
	for fields != nil {
		first, rest, dotted := strings.Cut(name, ".")
		i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name })
		if i >= 0 {
			return at(i)
		}
		if i = slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == first }); i < 0 || !dotted {
			return nil
		}
		of, ok := at(i).(*array.Struct)
		if !ok {
			return nil
		}
		name, fields, at = rest, of.DataType().(*arrow.StructType).Fields(), of.Field
	}
	return nil
}

// jsonAt returns a value as JSON.
func jsonAt(a arrow.Array, i int) (json.RawMessage, error) {
	switch {
	case a.IsNull(i):
		return nil, nil
	case isText(a.DataType()):
		return record.MarshalText(textAt(a, i)), nil
	}
	return json.Marshal(a.GetOneForMarshal(i))
}

func arrowRow(cols record.Columns, rows arrowColumns, i int) (record.Document, error) {
	var d record.Document
	if rows.text.IsNull(i) {
		return d, record.Errorf("column %q is null", cols.Text)
	}
	if l, ok := rows.text.(array.ListLike); ok {
		var err error
		if d.Data, err = listTokens(cols, l, i); err != nil {
			return record.Document{}, err
		}
	} else {
		// The bytes are copied because the next batch reuses the memory.
		d.Data = []byte(textAt(rows.text, i))
	}
	if int64(len(d.Data)) > cols.MaxDocument {
		return record.Document{}, cols.TooLargeError(len(d.Data))
	}
	d.SetLabels(func(name string) string {
		return nameAt(map[string]arrow.Array{"id": rows.label, "path": rows.path, "url": rows.url}[name], i)
	}, nameAt(rows.metaPath, i))
	var err error
	d.Meta, err = cols.MetaJSON(func(column string) (json.RawMessage, error) { return jsonAt(rows.meta[column], i) })
	if err != nil {
		return record.Document{}, err
	}
	if rows.id == nil {
		return d, nil
	}
	if rows.id.IsNull(i) {
		return record.Document{}, record.Errorf("column %q is null", cols.ID)
	}
	if isText(rows.id.DataType()) {
		d.ID = string([]byte(textAt(rows.id, i)))
	} else {
		d.ID = rows.id.ValueStr(i)
	}
	return d, cols.CheckID(len(d.ID))
}

// nameAt returns a text or an integer, and the empty string for any other value.
func nameAt(a arrow.Array, i int) string {
	switch {
	case a == nil || a.IsNull(i):
		return ""
	case isText(a.DataType()):
		if s := textAt(a, i); len(s) <= record.MaxLabel {
			return string([]byte(s))
		}
	case arrow.IsInteger(a.DataType().ID()):
		return a.ValueStr(i)
	}
	return ""
}

// isTokens reports whether a type is a list of integers.
func isTokens(t arrow.DataType) bool {
	list, ok := t.(arrow.ListLikeType)
	if !ok || !arrow.IsInteger(list.Elem().ID()) {
		return false
	}
	fixed, ok := t.(*arrow.FixedSizeListType)
	return t.ID() != arrow.MAP && (!ok || fixed.Len() > 0)
}

func isText(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return true
	case arrow.DICTIONARY:
		return isText(t.(*arrow.DictionaryType).ValueType)
	}
	return false
}

// textAt returns a text that shares the array's memory.
func textAt(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.StringView:
		return a.Value(i)
	case *array.Binary:
		return a.ValueString(i)
	case *array.LargeBinary:
		return a.ValueString(i)
	case *array.BinaryView:
		return a.ValueString(i)
	case *array.Dictionary:
		return textAt(a.Dictionary(), a.GetValueIndex(i))
	}
	return ""
}

// listTokens returns the ids of a row. Its error has a reason.
func listTokens(cols record.Columns, l array.ListLike, i int) ([]byte, error) {
	from, to := l.ValueOffsets(i)
	values := l.ListValues()
	wrong := func(format string, args ...any) error {
		return record.Errorf("column %q: %w", cols.Text, fmt.Errorf(format, args...))
	}
	if from < 0 || to < from || to > int64(values.Len()) {
		return nil, wrong("a list has values %d to %d of %d", from, to, values.Len())
	}
	if 4*(to-from) > cols.MaxDocument {
		return nil, cols.TooLargeError(int(4 * (to - from)))
	}
	b := make([]byte, 0, 4*(to-from))
	for j := int(from); j < int(to); j++ {
		if values.IsNull(j) {
			return nil, wrong("token %d is null", j-int(from))
		}
		id, err := integerAt(values, j)
		if err == nil {
			b, err = record.AppendToken(b, id)
		}
		if err != nil {
			return nil, wrong("token %d: %w", j-int(from), err)
		}
	}
	return b, nil
}

func integerAt(a arrow.Array, i int) (int64, error) {
	switch a := a.(type) {
	case *array.Int32:
		return int64(a.Value(i)), nil
	case *array.Int64:
		return a.Value(i), nil
	case *array.Uint16:
		return int64(a.Value(i)), nil
	}
	id, err := strconv.ParseInt(a.ValueStr(i), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not an integer", a.ValueStr(i))
	}
	return id, nil
}

// ArrowFields returns the columns of an Arrow IPC file or stream.
func ArrowFields(r io.Reader) (fields []record.Field, err error) {
	a, err := columnfile.NewArrowReader(r)
	if err != nil {
		return nil, err
	}
	for _, f := range a.Schema().Fields() {
		fields = append(fields, record.Field{Name: f.Name, Type: f.Type.String()})
	}
	return fields, nil
}
