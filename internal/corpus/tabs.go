package corpus

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
)

// quotesAreText says that a table with tabs is of those that know no quotes: at its beginning there are quotes where none could be if they
// enclosed fields.
func quotesAreText(head []byte) bool {
	if last := bytes.LastIndexByte(head, '\n'); last >= 0 {
		head = head[:last+1] // whole lines
	}
	c := newCSV(bytes.NewReader(head), '\t')
	c.FieldsPerRecord = -1
	for {
		_, err := c.Read()
		var parse *csv.ParseError
		switch {
		case err == nil:
		case errors.As(err, &parse) && (parse.Err == csv.ErrBareQuote || parse.Line == parse.StartLine):
			return true
		default:
			return false
		}
	}
}

// tabs yields a document a line of a table whose fields are between tabs, whatever is in them.
func (in *Input) tabs(s source, r *bufio.Reader, columns map[string]int, fields int, yield yielder) bool {
	return in.eachLine(s, in.newLineReader(r), 1, yield, func(line []byte) (Document, error) {
		record := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
		if len(record) != fields {
			return Document{}, bad("%d fields, the header has %d", len(record), fields)
		}
		return in.options.csvDocument(record, columns)
	})
}
