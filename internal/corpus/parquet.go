package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
)

// parquetRows is how many rows are decoded at a time.
const parquetRows = 256

// parquet yields a document a row, of one column and perhaps an id column, row group after row group.
func (in *Input) parquet(s source, yield func(Document, error) bool) (more bool) {
	stopped := false
	err := in.rows(s, func(d Document, err error) bool {
		stopped = !yield(d, err)
		return !stopped
	})
	if err != nil && !stopped {
		yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err))
	}
	return err == nil && !stopped
}

func (in *Input) rows(s source, yield func(Document, error) bool) (err error) {
	yielding := false
	defer func() {
		// The decoder panics on some damaged files; a panic of the caller's own code is not ours to hide.
		if p := recover(); p != nil {
			if yielding {
				panic(p)
			}
			err = fmt.Errorf("not a readable Parquet file: %v", p)
		}
	}()
	f, err := os.Open(s.origin)
	if err != nil {
		return err
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	pf, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		return errors.Join(fmt.Errorf("not a readable Parquet file: %w", err), f.Close())
	}
	defer func() {
		if closeErr := pf.Close(); err == nil {
			err = closeErr
		}
	}()
	o := in.options
	columns, err := leaves(pf, o.TextField)
	if err != nil {
		return err
	}
	if o.IDField != "" && o.IDField != o.TextField {
		more, err := leaves(pf, o.IDField)
		if err != nil {
			return err
		}
		columns = append(columns, more...)
		slices.Sort(columns)
	}
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: parquetRows}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	row := int64(0)
	for g := range pf.NumRowGroups() {
		rr, err := fr.GetRecordReader(context.Background(), columns, []int{g})
		if err != nil {
			return fmt.Errorf("row group %d: %w", g, err)
		}
		for rr.Next() {
			rec := rr.Record()
			texts, ids, err := o.columns(rec)
			if err != nil {
				rr.Release()
				return err
			}
			for i := range int(rec.NumRows()) {
				row++
				d, reason, err := o.row(texts, ids, i)
				d.Path, d.Origin = s.path, s.origin
				if err != nil {
					d, err = Document{}, &SkipError{Reason: reason, Path: s.path, Origin: s.origin, Line: row, Err: err}
				}
				yielding = true
				goOn := yield(d, err)
				yielding = false
				if !goOn {
					rr.Release()
					return nil
				}
			}
			in.read.Store(s.size * row / max(1, pf.NumRows()))
		}
		err = rr.Err()
		rr.Release()
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("row group %d: %w", g, err)
		}
	}
	if row != pf.NumRows() {
		return fmt.Errorf("holds %d rows, its index says %d: the file is damaged", row, pf.NumRows())
	}
	return nil
}

// leaves returns the leaf columns of a top-level column.
func leaves(pf *file.Reader, name string) ([]int, error) {
	schema := pf.MetaData().Schema
	var at []int
	var names []string
	for i := range schema.NumColumns() {
		path := schema.Column(i).Path()
		top, _, _ := strings.Cut(path, ".")
		if path == name || top == name {
			at = append(at, i)
		}
		if !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("no column %q; it has %s", name, list(names))
	}
	if len(at) > 1 {
		return nil, fmt.Errorf("column %q is nested: want a plain column", name)
	}
	return at, nil
}

func (o Options) columns(rec arrow.Record) (texts, ids arrow.Array, err error) {
	find := func(name string) (arrow.Array, error) {
		at := rec.Schema().FieldIndices(name)
		if len(at) != 1 {
			return nil, fmt.Errorf("column %q: found %d times", name, len(at))
		}
		return rec.Column(at[0]), nil
	}
	if texts, err = find(o.TextField); err != nil {
		return nil, nil, err
	}
	_, isList := texts.(array.ListLike)
	if o.Tokens != isList || !isList && !isText(texts) {
		want := "text"
		if o.Tokens {
			want = "a list of token ids"
		}
		return nil, nil, fmt.Errorf("column %q is %s: want %s", o.TextField, texts.DataType(), want)
	}
	if o.IDField != "" {
		ids, err = find(o.IDField)
	}
	return texts, ids, err
}

func (o Options) row(texts, ids arrow.Array, i int) (Document, Reason, error) {
	var d Document
	if texts.IsNull(i) {
		return d, BadRecord, fmt.Errorf("column %q is null", o.TextField)
	}
	var err error
	if l, ok := texts.(array.ListLike); ok {
		d.Data, err = listTokens(l, i)
	} else {
		d.Data = cell(texts, i)
	}
	if err != nil {
		return Document{}, BadRecord, fmt.Errorf("column %q: %w", o.TextField, err)
	}
	if int64(len(d.Data)) > o.MaxDocument {
		return Document{}, TooLarge, fmt.Errorf("document has %d bytes, more than %d", len(d.Data), o.MaxDocument)
	}
	if ids != nil {
		if ids.IsNull(i) {
			return Document{}, BadRecord, fmt.Errorf("column %q is null", o.IDField)
		}
		if isText(ids) {
			d.ID = string(cell(ids, i))
		} else {
			d.ID = ids.ValueStr(i)
		}
	}
	return d, "", nil
}

func isText(a arrow.Array) bool {
	switch a.(type) {
	case *array.String, *array.LargeString, *array.Binary, *array.LargeBinary:
		return true
	}
	return false
}

// cell copies a text: the record's memory is used again.
func cell(a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return []byte(a.Value(i))
	case *array.LargeString:
		return []byte(a.Value(i))
	case *array.Binary:
		return slices.Clone(a.Value(i))
	case *array.LargeBinary:
		return slices.Clone(a.Value(i))
	}
	return nil
}

func listTokens(l array.ListLike, i int) ([]byte, error) {
	from, to := l.ValueOffsets(i)
	b := make([]byte, 0, 4*(to-from))
	values := l.ListValues()
	for j := int(from); j < int(to); j++ {
		var id int64
		switch {
		case values.IsNull(j):
			return nil, fmt.Errorf("token %d is null", j-int(from))
		default:
			var err error
			if id, err = strconv.ParseInt(values.ValueStr(j), 10, 64); err != nil {
				return nil, fmt.Errorf("token %d: %s is not an integer", j-int(from), values.ValueStr(j))
			}
		}
		var err error
		if b, err = appendToken(b, id); err != nil {
			return nil, fmt.Errorf("token %d: %w", j-int(from), err)
		}
	}
	return b, nil
}

// list names things for an error message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}
