// Package csvtable reads documents from tables of text: CSV, and fields separated by tabs, semicolons or bars. It
// detects the separator, and the meaning of quotes and backslashes.
package csvtable

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"loaderd/internal/corpus/record"
)

// separators of fields, in the order in which they are tried.
const separators = ",\t;|"

// headBytes is how much of a table is read to find its header.
const headBytes = 64 << 10

// Source reads documents of a table.
type Source struct {
	File    record.File
	Columns record.Columns
	Options Options
	// IsTSV reports that the file name's extension implies tab-separated fields.
	IsTSV bool
	// Reopen returns the table again from its beginning. nil: it can be read only once, or only at a high cost.
	Reopen func() (io.ReadCloser, error)
}

// Documents yields a document per record after the header of the table, which r reads. A record that is not a
// document is a *record.SkipError with its first line. It returns whether the iteration continues.
func (s Source) Documents(r io.Reader, yield record.Yield) bool {
	fail := func(line int64, err error) bool {
		return yield(record.Document{}, fmt.Errorf("read %s:%d: %w", s.File.Origin, line, err)) && false
	}
	body := bufio.NewReaderSize(r, headBytes)
	head, err := body.Peek(headBytes)
	if err != nil && err != io.EOF {
		return fail(1, err)
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return true
	}
	t, err := parseHeader(head, s.Columns, s.Options)
	if err != nil {
		return fail(1, err)
	}
	if len(t.names) == 1 && s.IsTSV { // no line shows the separator
		t.separator = '\t'
	}
	if err := s.Columns.CheckUnique(t.names); err != nil {
		return fail(1, err)
	}
	d, sure, err := s.detect(t, head, err == io.EOF)
	if err != nil {
		return s.File.Fail(yield, err)
	}
	limit := 2*s.Columns.MaxDocument + 2*headBytes // a quote may be written as two
	records, err := t.recordsAfterHeader(body, d, limit)
	if err != nil {
		return fail(1, fmt.Errorf("the header: %w", err))
	}
	columns := columnIndexes(t.names)
	for e := (evidence{}); ; {
		row, err := records.next()
		if err == io.EOF {
			return true
		}
		var merged *oversizedFieldError
		switch {
		case errors.As(err, &merged):
			return fail(merged.line, err)
		case err != nil:
			return fail(records.lineNumber, err)
		case row.isEmpty():
			continue
		case row.unclosed:
			return fail(row.line,
				fmt.Errorf(`a field that begins with a quote (") is not closed before the end of the file %s`,
					quotingHint))
		}
		if s.Reopen == nil {
			if err := s.Options.checkEvidence(d, sure, &e, row, len(t.names)); err != nil {
				return fail(row.line, err)
			}
		}
		var document record.Document
		switch {
		case row.isTooLong:
			err = record.WithReason(record.TooLarge, fmt.Errorf("record is larger than %d bytes", limit))
		case row.fields() != len(t.names):
			err = record.Errorf("%d fields, the header has %d", row.fields(), len(t.names))
		default:
			document, err = csvDocument(s.Columns, row, columns)
		}
		if err != nil {
			if !s.File.Skip(yield, row.line, err) {
				return false
			}
			continue
		}
		if !s.File.Emit(yield, document) {
			return false
		}
	}
}

// detect returns the dialect of the table. It uses the whole table, or its beginning if the table can be read only
// once. whole reports that head is the whole table.
func (s Source) detect(t table, head []byte, whole bool) (d dialect, sure bool, err error) {
	if s.Reopen != nil {
		return s.Options.detect(s.Reopen, t, false)
	}
	if !whole {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }
	return s.Options.detect(open, t, !whole)
}

// table describes a table by its header.
type table struct {
	separator byte
	names     []string
	quoted    bool // a name starts with a quote
}

// recordsAfterHeader returns the records after the header.
func (t table) recordsAfterHeader(r io.Reader, d dialect, limit int64) (*tableReader, error) {
	body := bufio.NewReader(r)
	if err := skipBOMs(body); err != nil {
		return nil, err
	}
	records := newTableReader(body, d, len(t.names), limit)
	records.quoting = t.quoted || d.quoting
	_, err := records.next()
	records.quoting = d.quoting
	if err == io.EOF { // the header is incomplete
		err = nil
	}
	return records, err
}

// parseHeader returns the separator and the names of the columns. The column of the text must exist.
func parseHeader(head []byte, cols record.Columns, o Options) (table, error) {
	data := bytes.TrimLeft(head, "\ufeff")
	var most []string
	for _, separator := range []byte(separators) {
		r, err := newTableReader(bytes.NewReader(data), o.defaultDialect(separator), 0, int64(len(data))).next()
		if err != nil || r.malformed || r.unclosed || r.bare && o.Quoting != QuotingOff {
			continue
		}
		names := make([]string, r.fields())
		for i := range names {
			names[i] = string(r.field(i))
		}
		if slices.Contains(names, cols.Text) {
			return table{separator, names, r.quoted}, nil
		}
		if len(names) > len(most) {
			most = names
		}
	}
	for i, name := range most {
		most[i] = record.Truncate(name)
	}
	if len(most) == 0 {
		return table{}, errors.New("the first line must name the columns, and is not a line of CSV")
	}
	return table{}, fmt.Errorf("the first line must name the columns: %w", cols.MissingTextError(most))
}

// ColumnNames returns the names of the columns of a table that starts with head. The column of the text must exist.
func ColumnNames(head []byte, cols record.Columns, o Options) ([]string, error) {
	t, err := parseHeader(head, cols, o)
	return t.names, err
}

// IsTable reports whether text starts like a table whose header names the column of the text. It requires at least
// two columns, and as many in the next record.
func IsTable(data []byte, cols record.Columns, o Options) bool {
	t, err := parseHeader(data, cols, o)
	if err != nil || len(t.names) < 2 {
		return false
	}
	records, err := t.recordsAfterHeader(bytes.NewReader(data), o.defaultDialect(t.separator), int64(len(data)))
	if err != nil {
		return false
	}
	r, err := records.next()
	return err == nil && r.fields() == len(t.names) && !r.malformed && !r.unclosed && !r.bare
}

func columnIndexes(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := at[name]; !twice {
			at[name] = i
		}
	}
	return at
}

func csvDocument(cols record.Columns, row *tableRecord, columns map[string]int) (record.Document, error) {
	value := func(name string) string {
		if at, ok := columns[name]; ok {
			return string(row.field(at))
		}
		return ""
	}
	text := value(cols.Text)
	d := record.Document{Data: []byte(text)}
	switch {
	case !utf8.ValidString(text):
		return record.Document{}, record.Errorf(
			"column %s: not valid UTF-8 (--encoding names another encoding)", strconv.Quote(cols.Text))
	case int64(len(text)) > cols.MaxDocument:
		return record.Document{}, cols.TooLargeError(len(text))
	}
	d.SetLabels(value, value("meta.path"))
	var err error
	if d.Meta, err = cols.MetaJSON(func(column string) (json.RawMessage, error) {
		at, ok := columns[column]
		if !ok {
			return nil, fmt.Errorf("no such column")
		}
		if len(row.field(at)) == 0 {
			return nil, nil
		}
		return record.MarshalText(string(row.field(at))), nil
	}); err != nil {
		return record.Document{}, err
	}
	if cols.ID == "" {
		return d, nil
	}
	if _, ok := columns[cols.ID]; !ok {
		return record.Document{}, record.Errorf("no column %s", strconv.Quote(cols.ID))
	}
	d.ID = value(cols.ID)
	return d, cols.CheckID(len(d.ID))
}

// skipBOMs skips byte order marks at the beginning.
func skipBOMs(r *bufio.Reader) error {
	for {
		mark, err := r.Peek(len("\ufeff"))
		if string(mark) != "\ufeff" {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		_, _ = r.Discard(len(mark)) // already peeked
	}
}
