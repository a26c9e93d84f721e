package corpus

import (
	"bufio"
	"bytes"
	"encoding/csv"
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
func (in *Input) csv(s source, r io.Reader, yield yielder) bool {
	fail := func(line int, err error) bool {
		return yield(Document{}, fmt.Errorf("read %s:%d: %w", s.origin, line, err)) && false
	}
	o := in.options
	lines := bufio.NewReaderSize(r, headBytes)
	head, err := lines.Peek(headBytes)
	if err != nil && err != io.EOF {
		return fail(1, err)
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return true
	}
	separator, names, bom, err := o.header(head)
	if err != nil {
		return fail(1, err)
	}
	_, _ = lines.Discard(bom) // it was peeked at
	columns := columnsOf(names)
	if separator == '\t' && quotesAreText(head[bom:]) {
		return in.tabs(s, lines, columns, len(names), yield)
	}
	rationed := &rationed{r: lines, limit: 2*o.MaxDocument + 2*headBytes}
	records := newCSV(rationed, separator)
	rationed.renew()
	if _, err := records.Read(); err != nil {
		return fail(1, fmt.Errorf("the header: %w", err))
	}
	records.FieldsPerRecord = len(names)
	for line := 1; ; {
		rationed.renew()
		record, err := records.Read()
		if err == io.EOF {
			return true
		}
		var parse *csv.ParseError
		switch {
		case err == nil:
			line, _ = records.FieldPos(0)
		case errors.Is(err, errRation):
			return fail(line, fmt.Errorf("the next record: %w", err))
		case !errors.As(err, &parse):
			return fail(line, err)
		case parse.Err == csv.ErrQuote && rationed.ended && parse.Line != parse.StartLine:
			return fail(parse.StartLine, errors.New(`a field that begins with a quote (") is not closed before the end of the file`))
		default:
			line, err = parse.StartLine, csvProblem(parse, len(record), len(names))
		}
		var d Document
		if err == nil {
			d, err = o.csvDocument(record, columns)
		}
		if err != nil {
			if !s.skip(yield, int64(line), err) {
				return false
			}
			continue
		}
		if !s.give(yield, d) {
			return false
		}
	}
}

func csvProblem(p *csv.ParseError, has, wants int) error {
	if p.Err == csv.ErrFieldCount {
		return bad("%d fields, the header has %d", has, wants)
	}
	return bad("column %d: %w", p.Column, p.Err)
}

func newCSV(r io.Reader, separator rune) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma, c.ReuseRecord = separator, true
	return c
}

// header finds the separator and the names of the columns, and how many bytes a byte order mark takes. The column of the text is to be there.
func (o Options) header(head []byte) (separator rune, names []string, bom int, err error) {
	data := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	bom = len(head) - len(data)
	most := []string{}
	for _, c := range separators {
		have, err := newCSV(bytes.NewReader(data), c).Read()
		if err != nil {
			continue
		}
		if slices.Contains(have, o.TextField) {
			return c, slices.Clone(have), bom, nil
		}
		if len(have) > len(most) {
			most = slices.Clone(have)
		}
	}
	for i, name := range most {
		most[i] = clip(name)
	}
	if len(most) == 0 {
		return 0, nil, bom, errors.New("the first line is to name the columns, and is no line of CSV")
	}
	return 0, nil, bom, fmt.Errorf("the first line is to name the columns: %w", o.missing(o.TextField, list(most)))
}

// clip shortens the name of a column for an error message: where the file is no table, it may be a whole line of text.
func clip(name string) string {
	const most = 40
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}

// table says whether text begins as a table does whose header names the column of the text: two columns at least, and as many in the
// next record.
func (h head) table(data []byte, o Options) bool {
	separator, names, _, err := o.header(data)
	if err != nil || len(names) < 2 {
		return false
	}
	c := newCSV(bytes.NewReader(data), separator)
	c.FieldsPerRecord = len(names)
	for range 2 {
		if _, err := c.Read(); err != nil {
			return false
		}
	}
	return true
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

func (o Options) csvDocument(record []string, columns map[string]int) (Document, error) {
	value := func(name string) string {
		if at, ok := columns[name]; ok {
			return record[at]
		}
		return ""
	}
	text := value(o.TextField)
	d := Document{Data: []byte(text)}
	switch {
	case !utf8.ValidString(text):
		return Document{}, bad("column %s: not valid UTF-8", strconv.Quote(o.TextField))
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
		if record[at] == "" {
			return nil, nil
		}
		return marshal(record[at]), nil
	}); err != nil {
		return Document{}, err
	}
	if o.IDField == "" {
		return d, nil
	}
	if _, ok := columns[o.IDField]; !ok {
		return Document{}, bad("no column %s", strconv.Quote(o.IDField))
	}
	d.ID = strings.Clone(value(o.IDField))
	return d, o.checkID(d.ID)
}

var errRation = errors.New(`a record is too long: is there a quote (") that is not closed?`)

// rationed reads at most limit bytes between two calls of renew, which begins the next record.
type rationed struct {
	r     io.Reader
	limit int64
	left  int64
	ended bool
}

func (r *rationed) renew() { r.left = r.limit }

func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errRation
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.ended = err == io.EOF
	return n, err
}
