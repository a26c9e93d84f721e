package csvtable

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Options describe how the fields of tables are written. Unspecified options are detected.
type Options struct {
	Quoting string // QuotingOn, QuotingOff or QuotingAuto
	Escape  string // EscapeNone, EscapeBackslash or EscapeAuto
}

// The values of Options.Quoting. The empty string is QuotingAuto.
const (
	QuotingAuto = "auto"
	QuotingOn   = "on"  // a field that starts with a quote extends to the closing quote
	QuotingOff  = "off" // quotes are text, and every line is a record
)

// The values of Options.Escape. The empty string is EscapeAuto.
const (
	EscapeAuto      = "auto"
	EscapeNone      = "none"      // a backslash is text
	EscapeBackslash = "backslash" // the character after a backslash is text
)

const (
	quotingHint = "(--csv-quoting on or off, pull.csv_quoting)"
	escapeHint  = "(--csv-escape none or backslash, pull.csv_escape)"
)

// CheckQuoting returns an error unless value is a value of Options.Quoting.
func CheckQuoting(value string) error { return oneOf(value, QuotingAuto, QuotingOn, QuotingOff) }

// CheckEscape returns an error unless value is a value of Options.Escape.
func CheckEscape(value string) error { return oneOf(value, EscapeAuto, EscapeNone, EscapeBackslash) }

func oneOf(value string, values ...string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return fmt.Errorf("%q: want one of %s", value, strings.Join(values, ", "))
}

// defaultDialect returns the dialect of the options. If they do not specify quoting, it is on.
func (c Options) defaultDialect(separator byte) dialect {
	return dialect{separator: separator, quoting: c.Quoting != QuotingOff, escaping: c.Escape == EscapeBackslash}
}

// hasAuto reports whether an option must be detected.
func (c Options) hasAuto() bool { return c.isQuotingAuto() || c.isEscapeAuto() }

func (c Options) isQuotingAuto() bool { return c.Quoting == "" || c.Quoting == QuotingAuto }

func (c Options) isEscapeAuto() bool {
	return (c.Escape == "" || c.Escape == EscapeAuto) && c.Quoting != QuotingOff
}

// recordCount counts records of a kind.
type recordCount struct {
	n     int64
	first int64 // line of the first one
}

func (t *recordCount) add(line int64) {
	if t.n++; t.n == 1 {
		t.first = line
	}
}

// evidence counts what the records of a table, read with quoting, show about its dialect.
//
//	enclose  the record has the right number of fields only because quotes enclose separators or line breaks
//	text     the record is malformed or has a wrong number of fields, and each of its lines has the right number if
//	         quotes are text
//	merged   both readings have the right number of fields: one record of several lines, or a record per line
//	doubled  quotes enclose a quote: writers that do not quote have no reason to double one
//	bare     a quote is inside a field without quotes: writers that quote enclose such fields
//	escapes  a quote that does not close its field follows a backslash
//	wrong    the record is malformed or has a wrong number of fields
type evidence struct{ enclose, text, merged, doubled, bare, escapes, wrong recordCount }

func (e *evidence) add(r *tableRecord, columns int) {
	if r.isEmpty() {
		return
	}
	right := r.fields() == columns && !r.malformed && !r.unclosed
	if !right {
		e.wrong.add(r.line)
	}
	if r.backslash {
		e.escapes.add(r.line)
	}
	if r.bare {
		e.bare.add(r.line)
	}
	switch {
	case !r.quoted:
	case right && !r.hasEvenLines:
		e.enclose.add(r.line)
	case right && r.lines > 1:
		e.merged.add(r.line)
	case right && r.doubled:
		e.doubled.add(r.line)
	case !right && r.hasEvenLines:
		e.text.add(r.line)
	}
}

// minEvidenceRatio is the ratio of evidence for one reading to evidence for the other from which the table is read that
// way.
const minEvidenceRatio = 20

// decideQuoting returns whether quotes enclose fields. Comma-separated fields often contain commas, so quotes are
// rarely text in such a table. sure reports that evidence exists.
func (e *evidence) decideQuoting(separator byte, columns int) (on, sure bool, err error) {
	if separator == ',' {
		return true, true, nil
	}
	against := e.text
	if columns > 1 && e.merged.n > 0 {
		against = recordCount{e.text.n + e.merged.n, e.merged.first}
	}
	switch {
	case e.enclose.n > minEvidenceRatio*against.n:
		return true, true, nil
	case against.n > minEvidenceRatio*e.enclose.n:
		return false, true, nil
	case e.enclose.n > 0:
		return false, false, e.ambiguousError(e.enclose, against)
	case e.merged.n > 0:
		return false, false, e.ambiguousError(e.merged, e.merged)
	case e.doubled.n > 0 && e.bare.n > 0:
		return false, false, e.ambiguousError(e.doubled, e.bare)
	}
	return e.bare.n == 0, e.bare.n+e.doubled.n > 0, nil
}

func (e *evidence) ambiguousError(encloses, text recordCount) error {
	if encloses == text {
		return fmt.Errorf(`line %d begins a field with a quote ("): it encloses several lines, or is text: choose one %s`,
			text.first, quotingHint)
	}
	return fmt.Errorf(`quotes (") enclose the field in line %d, and seem to be text in line %d: choose one %s`,
		encloses.first, text.first, quotingHint)
}

// checkEvidence returns an error if a record of a stream shows that the dialect may be another one. The dialect was
// detected only by the beginning of the stream, and e is the evidence of the previous records.
func (c Options) checkEvidence(d dialect, sure bool, e *evidence, r *tableRecord, columns int) error {
	before := *e
	e.add(r, columns)
	switch {
	case c.isEscapeAuto() && !d.escaping && d.quoting && e.escapes.n > before.escapes.n:
		return fmt.Errorf(`%w: a quote (") follows a backslash: it is escaped, or closes the field: choose one %s`,
			errSinglePass, escapeHint)
	case !c.isQuotingAuto() || !d.quoting || !r.quoted || d.separator == ',':
		return nil
	case !sure:
		return fmt.Errorf(`%w: a field begins with a quote ("): it encloses the field, or is text: choose one %s`,
			errSinglePass, quotingHint)
	case e.merged.n > before.merged.n || e.text.n > before.text.n:
		return fmt.Errorf(`%w: a quote (") seems to be text, and earlier ones enclose fields: choose one %s`,
			errSinglePass, quotingHint)
	}
	return nil
}

var errSinglePass = errors.New("the quotes of a table that can be read only once cannot be compared")

// detect returns the dialect of a table that open returns: the whole table, or with partial its beginning. sure
// reports that evidence exists.
func (c Options) detect(open func() (io.ReadCloser, error), t table, partial bool) (d dialect, sure bool, err error) {
	d = c.defaultDialect(t.separator)
	if !c.hasAuto() {
		return d, true, nil
	}
	e, err := t.collectEvidence(open, d, partial)
	if err != nil {
		return d, false, err
	}
	if c.isEscapeAuto() && e.escapes.n > 0 {
		escaping := d
		escaping.escaping = true
		with, err := t.collectEvidence(open, escaping, partial)
		switch {
		case err != nil:
			return d, false, err
		case with.wrong.n == 0:
			e, d = with, escaping
		case with.wrong.n < e.wrong.n:
			return d, false,
				fmt.Errorf(`a quote (") in line %d follows a backslash: it is escaped, or closes the field: choose one %s`,
					e.escapes.first, escapeHint)
		}
	}
	if !c.isQuotingAuto() {
		return d, true, nil
	}
	d.quoting, sure, err = e.decideQuoting(t.separator, len(t.names))
	d.escaping = d.escaping && d.quoting
	return d, sure, err
}

// collectEvidence reads the records of a table that open returns.
func (t table) collectEvidence(open func() (io.ReadCloser, error), d dialect, partial bool) (e evidence, err error) {
	body, err := open()
	if err != nil {
		return e, err
	}
	defer body.Close() // read only
	records, err := t.recordsAfterHeader(body, d, 0)
	if t.quoted { // the column of the text has its name without the quotes
		e.enclose.add(1)
	}
	for err == nil {
		var r *tableRecord
		if r, err = records.next(); err == nil && !(partial && r.unclosed) {
			e.add(r, len(t.names))
		}
	}
	if err == io.EOF {
		err = nil
	}
	return e, err
}
