package docstream

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"loaderd/loader/document"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// tokenColumn is a column of the run with one value per token.
type tokenColumn struct {
	name  string
	typ   arrow.Type
	width int    // bytes of a value; 1 for a bool
	fill  []byte // little-endian, like all values
}

// metaColumn is a value of the run per document.
type metaColumn struct{ name, typ string }

var columnTypes = map[string]arrow.Type{
	runconfig.ColumnFloat16: arrow.FLOAT16, runconfig.ColumnFloat32: arrow.FLOAT32, runconfig.ColumnInt8: arrow.INT8,
	runconfig.ColumnInt16: arrow.INT16, runconfig.ColumnInt32: arrow.INT32,
	runconfig.ColumnBool: arrow.BOOL,
}

// tokenColumns returns the columns of a run in the order of runconfig.Documents.TokenColumns.
func tokenColumns(c runconfig.Documents) (out []tokenColumn) {
	for _, name := range c.TokenColumns() {
		x := c.Columns[name]
		out = append(out, tokenColumn{name, columnTypes[x.Type], x.ValueBytes(), document.FillValue(x)})
	}
	return out
}

// metaColumns returns the values per document in the order of runconfig.Documents.MetaColumns.
func metaColumns(c runconfig.Documents) (out []metaColumn) {
	for _, name := range c.MetaColumns() {
		out = append(out, metaColumn{name, c.Meta[name]})
	}
	return out
}

// ignoredColumns returns the columns that documents may have and the run ignores.
func ignoredColumns(c runconfig.Documents) (names []string) {
	for name, x := range c.Columns {
		if x.Type == runconfig.ColumnNone {
			names = append(names, name)
		}
	}
	return names
}

// columnNames lists, for an error, the columns that a message may have.
func (d decoder) columnNames() string {
	all := slices.Clone(d.ignored)
	for _, c := range d.columns {
		all = append(all, c.name)
	}
	for _, m := range d.meta {
		all = append(all, m.name)
	}
	slices.Sort(all)
	const most = 20
	if len(all) > most {
		all = append(all[:most], "...")
	}
	return strings.Join(append([]string{columnIDs, columnID, columnLoss, columnWeight}, all...), ", ")
}

// extraColumns holds the columns of a record batch other than ids, id, loss and weight, in the order of the run's
// columns. An entry is nil if the batch does not have the column.
type extraColumns struct {
	tokens []*array.List
	values []arrow.Array
}

// addColumn records a column of a record batch. known is false for a column that the run does not accept. want is the
// required type, or empty if the column has it.
func (d decoder) addColumn(b *extraColumns, name string, column arrow.Array) (known bool, want string) {
	if slices.Contains(d.ignored, name) {
		return true, ""
	}
	if i := slices.IndexFunc(d.columns, func(c tokenColumn) bool { return c.name == name }); i >= 0 {
		list, ok := column.(*array.List)
		if typ := d.columns[i].typ; !ok || list.ListValues().DataType().ID() != typ {
			return true, "list<" + strings.ToLower(typ.String()) + ">"
		}
		if b.tokens == nil {
			b.tokens = make([]*array.List, len(d.columns))
		}
		b.tokens[i] = list
		return true, ""
	}
	if i := d.metaIndex(name); i >= 0 {
		if !hasValueType(column.DataType(), d.meta[i].typ) {
			return true, d.meta[i].typ
		}
		if b.values == nil {
			b.values = make([]arrow.Array, len(d.meta))
		}
		b.values[i] = column
		return true, ""
	}
	return false, ""
}

// metaIndex returns the index of a value per document, or -1 if the run does not use it.
func (d decoder) metaIndex(name string) int {
	return slices.IndexFunc(d.meta, func(m metaColumn) bool { return m.name == name })
}

// hasValueType reports whether a column has values of a type.
func hasValueType(t arrow.DataType, typ string) bool {
	if dictionary, ok := t.(*arrow.DictionaryType); ok {
		t = dictionary.ValueType
	}
	switch typ {
	case runconfig.MetaString:
		return t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING
	case runconfig.MetaInt64:
		return t.ID() == arrow.INT64 || t.ID() == arrow.INT32
	}
	return t.ID() == arrow.FLOAT64 || t.ID() == arrow.FLOAT32
}

// addExtraValues adds the values of a row to a document.
func (d decoder) addExtraValues(doc *decodedDocument, b extraColumns, row int) *deadletter.Problem {
	for i, list := range b.tokens {
		if list == nil || list.IsNull(row) {
			continue
		}
		from, to := list.ValueOffsets(row)
		if int(to-from) != len(doc.tokens) {
			return newProblem(badColumn, "%s has %d values, the document %d tokens", d.columns[i].name, to-from, len(doc.tokens))
		}
		if doc.columns == nil {
			doc.columns = make([][]byte, len(d.columns))
		}
		doc.columns[i] = d.columns[i].sliceValues(list.ListValues(), int(from), int(to))
	}
	for i, column := range b.values {
		if column == nil || column.IsNull(row) {
			continue
		}
		value, failed := d.meta[i].rowValue(column, row)
		if failed != nil {
			return failed
		}
		if doc.meta == nil {
			doc.meta = make([]any, len(d.meta))
		}
		doc.meta[i] = value
	}
	return nil
}

// sliceValues returns the values [from, to) of an array, with the fill value for nulls. The result may share the
// array's memory.
func (c tokenColumn) sliceValues(a arrow.Array, from, to int) []byte {
	if from == to { // an array without values has no memory
		return []byte{}
	}
	bits, packed := a.(*array.Boolean)
	if !packed {
		at := a.Data().Offset()
		own := a.Data().Buffers()[1].Bytes()[(at+from)*c.width : (at+to)*c.width]
		if a.NullN() == 0 {
			return own
		}
		return c.fillNulls(slices.Clone(own), a, from)
	}
	out := make([]byte, to-from)
	for k := range out {
		if bits.Value(from + k) {
			out[k] = 1
		}
	}
	if a.NullN() > 0 {
		c.fillNulls(out, a, from)
	}
	return out
}

// fillNulls writes the fill value into out where the array is null. out holds the array's values from index from on.
func (c tokenColumn) fillNulls(out []byte, a arrow.Array, from int) []byte {
	for k := range len(out) / c.width {
		if a.IsNull(from + k) {
			copy(out[k*c.width:], c.fill)
		}
	}
	return out
}

// rowValue returns the value of a row: a string, an int64 or a float64; nil for null.
func (m metaColumn) rowValue(column arrow.Array, row int) (any, *deadletter.Problem) {
	if m.typ == runconfig.MetaString {
		text, ok := textAt(column, row)
		if !ok {
			return nil, nil
		}
		return m.copyText(text)
	}
	switch a := column.(type) {
	case *array.Dictionary:
		if a.Dictionary().IsNull(a.GetValueIndex(row)) {
			return nil, nil
		}
		return m.rowValue(a.Dictionary(), a.GetValueIndex(row))
	case *array.Int64:
		return a.Value(row), nil
	case *array.Int32:
		return int64(a.Value(row)), nil
	case *array.Float64:
		return a.Value(row), nil
	default:
		return float64(a.(*array.Float32).Value(row)), nil
	}
}

// textAt returns the text of a row in a column of texts, or false for null. The text is valid as long as the column.
func textAt(column arrow.Array, row int) (string, bool) {
	if column.IsNull(row) {
		return "", false
	}
	switch a := column.(type) {
	case *array.Dictionary:
		return textAt(a.Dictionary(), a.GetValueIndex(row))
	case *array.LargeString:
		return a.Value(row), true
	default:
		return a.(*array.String).Value(row), true
	}
}

// copyText returns a valid UTF-8 copy of s, which outlives its message.
func (m metaColumn) copyText(s string) (any, *deadletter.Problem) {
	if len(s) > runconfig.MaxMetaBytes {
		return nil, newProblem(badMeta, "%s has %d bytes, at most %d can be", m.name, len(s), runconfig.MaxMetaBytes)
	}
	return strings.Clone(strings.ToValidUTF8(s, "\ufffd")), nil
}

// parseMeta extracts the values that the run uses from a JSON object. where names the object in problems.
func (d decoder) parseMeta(object []byte, where string) (out []any, failed *deadletter.Problem) {
	if len(d.meta) == 0 {
		return nil, nil
	}
	if !eachMember(object, func(name, value []byte) {
		i := d.metaIndex(string(name))
		if i < 0 || failed != nil {
			return
		}
		if out == nil {
			out = make([]any, len(d.meta))
		}
		out[i], failed = d.meta[i].parseJSON(value, where)
	}) {
		return nil, newProblem(badMeta, "%s is no JSON object", where)
	}
	return out, failed
}

// parseJSON parses a JSON value; null yields nil.
func (m metaColumn) parseJSON(value []byte, where string) (any, *deadletter.Problem) {
	if string(value) == "null" {
		return nil, nil
	}
	switch m.typ {
	case runconfig.MetaString:
		if value[0] == '"' {
			return m.copyText(string(unquote(value)))
		}
	case runconfig.MetaInt64:
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n, nil
		}
	default:
		if f, err := strconv.ParseFloat(string(value), 64); err == nil {
			return f, nil
		}
	}
	return nil, newProblem(badMeta, "%s of %s is %s: want %s", m.name, where, quoteValue(string(value)), article(m.typ))
}

func article(typ string) string {
	if typ == runconfig.MetaInt64 {
		return "an " + typ
	}
	return "a " + typ
}

// parseHeaderMeta is metaOf for the value of the header Loaderd-Meta.
func (d decoder) parseHeaderMeta(value string) ([]any, *deadletter.Problem) {
	if !json.Valid([]byte(value)) || !utf8.ValidString(value) {
		return nil, newProblem(badMeta, "header %s is not JSON: %s", stream.HeaderMeta, quoteValue(value))
	}
	return d.parseMeta([]byte(value), "header "+stream.HeaderMeta)
}
