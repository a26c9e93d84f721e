package csvtable

import "io"

// dialect describes how the fields of a table are written.
type dialect struct {
	separator byte
	quoting   bool // a field that starts with a quote extends to the closing quote, with separators and line breaks
	escaping  bool // the character after a backslash is text
}

// tableReader splits a table into records as Python's csv, pandas and pyarrow do. A quote that does not start a field
// is text. Text after a closing quote belongs to the field. LF, CR LF and CR end a record; within quotes they are
// kept unchanged.
type tableReader struct {
	dialect
	columns int   // expected fields per record
	limit   int64 // bytes kept per record; 0 keeps none

	r       io.Reader
	buffer  []byte
	unread  []byte // rest of buffer
	err     error  // error of r after unread
	special [256]bool

	lineNumber int64 // number of the current line, from 1
	separators int   // in the current line
	last       byte  // last byte that was read
	backslash  bool  // precedes the closing quote
	record     tableRecord
}

// tableRecord is a record. It is valid until the next one is read.
type tableRecord struct {
	line      int64 // line of its first byte
	lines     int   // number of lines
	size      int64 // in bytes
	isTooLong bool  // longer than the limit, and not kept
	data      []byte
	ends      []int // end of each field in data
	quotes
}

// quotes describe what the quotes of a record show about the dialect of its table.
type quotes struct {
	quoted       bool // a field begins with a quote
	malformed    bool // text follows a closing quote
	backslash    bool // such a quote follows a backslash
	doubled      bool // a quoted field holds a quote
	bare         bool // a quote is inside a field that does not begin with one
	unclosed     bool // the table ends within quotes
	hasEvenLines bool // each of its lines has as many fields as the table has columns, if quotes are text
}

// fields returns how many fields the record has.
func (r *tableRecord) fields() int { return len(r.ends) }

// field returns a field of the record.
func (r *tableRecord) field(i int) []byte {
	begin := 0
	if i > 0 {
		begin = r.ends[i-1]
	}
	return r.data[begin:r.ends[i]]
}

// isEmpty reports whether the record is an empty line.
func (r *tableRecord) isEmpty() bool { return r.size == 0 }

func newTableReader(r io.Reader, d dialect, columns int, limit int64) *tableReader {
	c := &tableReader{dialect: d, columns: columns, limit: limit, r: r, buffer: make([]byte, headBytes), lineNumber: 1}
	for _, b := range []byte{d.separator, '\n', '\r', '"'} {
		c.special[b] = true
	}
	c.special['\\'] = d.escaping
	return c
}

// oversizedFieldError is a field whose quotes enclose line breaks and more bytes than a record may have.
type oversizedFieldError struct{ line int64 }

func (e *oversizedFieldError) Error() string {
	return `a field that begins with a quote (") extends over more bytes than a record may have: is the quote closed? ` +
		quotingHint
}

// readerState is the state of the reader within a record.
type readerState int

const (
	fieldStart readerState = iota
	inField
	afterQuote // after a quote, which closes the field unless another one follows
	inQuotes   // from here on, a line break does not end the record
	escaped
	escapedInQuotes
)

// next returns the next record, or io.EOF. A *oversizedFieldError ends the table.
func (c *tableReader) next() (*tableRecord, error) {
	if err := c.startRecord(); err != nil {
		return nil, err
	}
	r := &c.record
	for state := fieldStart; ; {
		b, err := c.readByte()
		if err == io.EOF {
			r.unclosed = state == inQuotes || state == escapedInQuotes
			c.endField()
			c.endLine()
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		if b == '\n' || b == '\r' {
			lineFeed := b == '\n' && c.last == '\r' // of the CR LF that ends the line
			if !lineFeed {
				c.endLine()
			}
			if state < inQuotes {
				c.last = b
				c.endField()
				return r, nil
			}
			if !lineFeed {
				r.lines++
			}
		}
		if b == c.separator {
			c.separators++
		}
		r.size++
		state = c.step(state, b)
		c.last = b
		if state == inField || state == inQuotes {
			c.keepRun()
		}
		if c.limit > 0 && r.size > c.limit {
			if r.lines > 1 {
				return nil, &oversizedFieldError{r.line}
			}
			r.isTooLong, r.data = true, r.data[:0]
		}
	}
}

// startRecord prepares the reader for a record. It returns io.EOF if none follows.
func (c *tableReader) startRecord() error {
	r := &c.record
	*r = tableRecord{line: c.lineNumber, lines: 1, data: r.data[:0], ends: r.ends[:0], quotes: quotes{hasEvenLines: true}}
	err := c.fill()
	if err == nil && c.unread[0] == '\n' && c.last == '\r' { // of the previous record
		c.last, c.unread = '\n', c.unread[1:]
		err = c.fill()
	}
	return err
}

// step processes a byte that does not end the record.
func (c *tableReader) step(state readerState, b byte) readerState {
	r := &c.record
	switch state {
	case inQuotes:
		switch {
		case b == '"':
			c.backslash = c.last == '\\'
			return afterQuote
		case b == '\\' && c.escaping:
			return escapedInQuotes
		}
		c.keepBytes(b)
		return inQuotes
	case escapedInQuotes:
		r.doubled = r.doubled || b == '"'
		c.keepBytes(b)
		return inQuotes
	case escaped:
		c.keepBytes(b)
		return inField
	}
	switch {
	case b == c.separator:
		c.endField()
		return fieldStart
	case b == '"' && state == fieldStart && c.quoting:
		r.quoted = true
		return inQuotes
	case b == '"' && state == afterQuote:
		r.doubled = true
		c.keepBytes(b)
		return inQuotes
	case state == afterQuote:
		r.malformed = true
		r.backslash = r.backslash || c.backslash
	case b == '"':
		r.bare = true
	}
	if b == '\\' && c.escaping {
		return escaped
	}
	c.keepBytes(b)
	return inField
}

// keepRun keeps the bytes up to the next one that may be special.
func (c *tableReader) keepRun() {
	n := 0
	for n < len(c.unread) && !c.special[c.unread[n]] {
		n++
	}
	if n == 0 {
		return
	}
	c.keepBytes(c.unread[:n]...)
	c.last = c.unread[n-1]
	c.record.size += int64(n)
	c.unread = c.unread[n:]
}

func (c *tableReader) keepBytes(b ...byte) {
	if c.limit > 0 && !c.record.isTooLong {
		c.record.data = append(c.record.data, b...)
	}
}

func (c *tableReader) endField() { c.record.ends = append(c.record.ends, len(c.record.data)) }

// endLine counts the fields of a line, if quotes are text.
func (c *tableReader) endLine() {
	c.record.hasEvenLines = c.record.hasEvenLines && c.separators+1 == c.columns
	c.separators = 0
	c.lineNumber++
}

func (c *tableReader) readByte() (byte, error) {
	if err := c.fill(); err != nil {
		return 0, err
	}
	b := c.unread[0]
	c.unread = c.unread[1:]
	return b, nil
}

// fill reads until an unread byte is available.
func (c *tableReader) fill() error {
	for len(c.unread) == 0 {
		if c.err != nil {
			return c.err
		}
		var n int
		n, c.err = c.r.Read(c.buffer)
		c.unread = c.buffer[:n]
	}
	return nil
}
