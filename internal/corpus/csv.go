package corpus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// separators of fields, in the order in which they are tried.
const separators = ",\t;|"

// csv yields a document a record below the header. A record that is not one is a *SkipError with its first line.
func (in *Input) csv(ctx context.Context, s source, r io.Reader, yield yielder) bool {
	fail := func(line int64, err error) bool {
		return yield(Document{}, fmt.Errorf("read %s:%d: %w", s.origin, line, err)) && false
	}
	o := in.options
	body := bufio.NewReaderSize(r, headBytes)
	head, err := body.Peek(headBytes)
	if err != nil && err != io.EOF {
		return fail(1, err)
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return true
	}
	t, err := o.header(head)
	if err != nil {
		return fail(1, err)
	}
	if len(t.names) == 1 && extension(s.name()) == ".tsv" { // no line shows what separates
		t.separator = '\t'
	}
	if err := o.checkUnique(t.names); err != nil {
		return fail(1, err)
	}
	d, sure, err := in.detect(ctx, s, t, head, err == io.EOF)
	if err != nil {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
	}
	limit := 2*o.MaxDocument + 2*headBytes // a quote may be written as two
	records, err := t.below(body, d, limit)
	if err != nil {
		return fail(1, fmt.Errorf("the header: %w", err))
	}
	columns, again := columnsOf(t.names), !in.rereads(s)
	for e := (evidence{}); ; {
		record, err := records.next()
		if err == io.EOF {
			return true
		}
		var merged *mergedError
		switch {
		case errors.As(err, &merged):
			return fail(merged.line, err)
		case err != nil:
			return fail(records.number, err)
		case record.empty():
			continue
		case record.unclosed:
			return fail(record.line,
				fmt.Errorf(`a field that begins with a quote (") is not closed before the end of the file %s`,
					quotingHint))
		}
		if again {
			if err := o.contradicts(d, sure, &e, record, len(t.names)); err != nil {
				return fail(record.line, err)
			}
		}
		var document Document
		switch {
		case record.long:
			err = &badRecord{TooLarge, fmt.Errorf("record is larger than %d bytes", limit)}
		case record.fields() != len(t.names):
			err = bad("%d fields, the header has %d", record.fields(), len(t.names))
		default:
			document, err = o.csvDocument(record, columns)
		}
		if err != nil {
			if !s.skip(yield, record.line, err) {
				return false
			}
			continue
		}
		if !s.give(yield, document) {
			return false
		}
	}
}

// rereads says whether a file can be read more than once at little cost.
func (in *Input) rereads(s source) bool { return !s.pipe && s.object == nil }

// detect finds the dialect of a file: by all of it, or by its beginning where it can be read only once.
func (in *Input) detect(ctx context.Context, s source, t table, head []byte, whole bool) (d dialect, sure bool,
	err error) {
	if in.rereads(s) {
		look := Input{options: in.options} // whose reading counts nothing
		return in.options.detect(func() (io.ReadCloser, error) { return look.open(ctx, s) }, t, false)
	}
	if !whole {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	return in.options.detect(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }, t,
		!whole)
}

// table is what the header of one says.
type table struct {
	separator byte
	names     []string
	quoted    bool // a name begins with a quote
}

// below returns the records below the header.
func (t table) below(r io.Reader, d dialect, limit int64) (*csvReader, error) {
	body := bufio.NewReader(r)
	if err := skipMarks(body); err != nil {
		return nil, err
	}
	records := newCSVReader(body, d, len(t.names), limit)
	records.quoting = t.quoted || d.quoting
	_, err := records.next()
	records.quoting = d.quoting
	if err == io.EOF { // the header is not whole yet
		err = nil
	}
	return records, err
}

// header finds the separator and the names of the columns. The column of the text must be there.
func (o Options) header(head []byte) (table, error) {
	data := bytes.TrimLeft(head, "\ufeff")
	var most []string
	for _, separator := range []byte(separators) {
		r, err := newCSVReader(bytes.NewReader(data), o.CSV.given(separator), 0, int64(len(data))).next()
		if err != nil || r.malformed || r.unclosed || r.bare && o.CSV.Quoting != QuotingOff {
			continue
		}
		names := make([]string, r.fields())
		for i := range names {
			names[i] = string(r.field(i))
		}
		if slices.Contains(names, o.TextField) {
			return table{separator, names, r.quoted}, nil
		}
		if len(names) > len(most) {
			most = names
		}
	}
	for i, name := range most {
		most[i] = clip(name)
	}
	if len(most) == 0 {
		return table{}, errors.New("the first line is to name the columns, and is no line of CSV")
	}
	return table{}, fmt.Errorf("the first line is to name the columns: %w", o.missing(o.TextField, list(most)))
}

// clip shortens the name of a column for an error message: where the file is no table, it may be a whole line of text.
func clip(name string) string {
	const most = 40
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}

// table says whether text begins as a table does whose header names the column of the text: two columns at least, and
// as many in the next record.
func (h head) table(data []byte, o Options) bool {
	t, err := o.header(data)
	if err != nil || len(t.names) < 2 {
		return false
	}
	records, err := t.below(bytes.NewReader(data), o.CSV.given(t.separator), int64(len(data)))
	if err != nil {
		return false
	}
	r, err := records.next()
	return err == nil && r.fields() == len(t.names) && !r.malformed && !r.unclosed && !r.bare
}

func columnsOf(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := at[name]; !twice {
			at[name] = i
		}
	}
	return at
}

func (o Options) csvDocument(record *csvRecord, columns map[string]int) (Document, error) {
	value := func(name string) string {
		if at, ok := columns[name]; ok {
			return string(record.field(at))
		}
		return ""
	}
	text := value(o.TextField)
	d := Document{Data: []byte(text)}
	switch {
	case !utf8.ValidString(text):
		return Document{}, bad("column %s: not valid UTF-8 (--encoding names another encoding)", strconv.Quote(o.TextField))
	case int64(len(text)) > o.MaxDocument:
		return Document{}, o.tooLarge(len(text))
	}
	d.name(value, value("meta.path"))
	var err error
	if d.Meta, err = o.metaOf(func(column string) (json.RawMessage, error) {
		at, ok := columns[column]
		if !ok {
			return nil, fmt.Errorf("there is no such column")
		}
		if len(record.field(at)) == 0 {
			return nil, nil
		}
		return marshal(string(record.field(at))), nil
	}); err != nil {
		return Document{}, err
	}
	if o.IDField == "" {
		return d, nil
	}
	if _, ok := columns[o.IDField]; !ok {
		return Document{}, bad("no column %s", strconv.Quote(o.IDField))
	}
	d.ID = value(o.IDField)
	return d, o.checkID(len(d.ID))
}

// skipMarks reads byte order marks at the beginning.
func skipMarks(r *bufio.Reader) error {
	for {
		mark, err := r.Peek(len("\ufeff"))
		if string(mark) != "\ufeff" {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		_, _ = r.Discard(len(mark)) // it was peeked at
	}
}
