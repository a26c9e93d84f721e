// Package record turns the records of files (JSON objects, rows of tables) into documents. It selects and checks the
// requested fields, and describes records that are not documents.
package record

import (
	"errors"
	"fmt"
)

// Document is one document of a file.
type Document struct {
	// Path is the document's own path, meta.path or url, if it has one. Otherwise it is its file's path, relative to the
	// path that was opened, with slashes. Origin is its file's absolute path, whatever was opened.
	Path, Origin string
	// ID is the document's own id, if Columns.ID is set.
	ID string
	// Label is a name of the document, not necessarily a unique one: its field or column "id", or the path of a plain
	// file as the user wrote it.
	Label string
	// Data is the text, or little-endian int32 token ids if Columns.Tokens is set. If Parts is set, it is the JSON
	// {"parts": [...]} of a text in parts.
	Data  []byte
	Parts bool
	// Loss has the lengths of runs of tokens, alternately with and without loss, if the record has a mask. Weight is the
	// loss weight, nil for 1.
	Loss   []int32
	Weight *float32
	// ReplacedBytes is the number of bytes that were not UTF-8, which were replaced by U+FFFD in Data.
	ReplacedBytes int
	// Meta is a JSON object of those values of Columns.Meta that the document has, empty for none.
	Meta string
}

// Reason is the reason why a document was skipped. The names are stable.
type Reason string

// The reasons.
const (
	Binary     Reason = "binary"     // a file of no known format in a folder
	Unreadable Reason = "unreadable" // a file or folder in a folder that cannot be opened
	Special    Reason = "special"    // a device, socket or symbolic link in a folder
	Hidden     Reason = "hidden"     // a file or folder whose name begins with a dot
	NoText     Reason = "no text"    // a JSON or CSV file in a folder without the field or column of the text
	Invalid    Reason = "bad record" // a line, row or element that is not a document
	TooLarge   Reason = "too large"
	HTML       Reason = "html"     // an HTML record of a web archive; HTML is not converted
	Media      Reason = "media"    // a record of a web archive that is neither text nor HTML
	Encoding   Reason = "encoding" // a text of a web archive or of a folder in another encoding than UTF-8
	Damaged    Reason = "damaged"  // a part of a web archive that is not a record
	Trailing   Reason = "trailing" // bytes after the end of compressed data
)

// SkipError is one document, or one file of a folder, that cannot be read. The iteration can continue after it.
type SkipError struct {
	Reason Reason
	Path   string
	// Origin is the absolute path, as in Document, if the skipped document has a position in the input's order;
	// otherwise it is empty.
	Origin string
	Line   int64 // line, or row of Parquet and Arrow, from 1; 0 means the whole file
	Err    error
}

func (e *SkipError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

func (e *SkipError) Unwrap() error { return e.Err }

// recordError is a record that is not a document.
type recordError struct {
	reason Reason
	err    error
}

func (e *recordError) Error() string { return e.err.Error() }
func (e *recordError) Unwrap() error { return e.err }

// Errorf returns an error of a record that is not a document, with the reason Invalid.
func Errorf(format string, args ...any) error {
	return &recordError{Invalid, fmt.Errorf(format, args...)}
}

// WithReason returns an error of a record that is not a document, with the message of err.
func WithReason(reason Reason, err error) error { return &recordError{reason, err} }

// Yield takes a document or an error, and returns whether the iteration continues.
type Yield func(Document, error) bool

// File names the file of documents.
type File struct {
	Path     string // relative to the path that was opened, with slashes
	UserPath string // as the user wrote it
	Origin   string // absolute
}

// Skip yields a *SkipError of a record, with the reason of err: that of WithReason, else Invalid. line is its line or
// row, from 1, or 0 for the whole file. It returns whether the iteration continues.
func (f File) Skip(yield Yield, line int64, err error) bool {
	reason := Invalid
	var b *recordError
	if errors.As(err, &b) {
		reason = b.reason
	}
	return yield(Document{}, &SkipError{Reason: reason, Path: f.Path, Origin: f.Origin, Line: line, Err: err})
}

// Emit yields a document of the file, with its origin and, if it has none, its path. It returns whether the iteration
// continues.
func (f File) Emit(yield Yield, d Document) bool {
	d.Origin = f.Origin
	if d.Path == "" {
		d.Path = f.Path
	}
	return yield(d, nil)
}

// Fail yields an error that ends the reading of the file, and returns false.
func (f File) Fail(yield Yield, err error) bool {
	return yield(Document{}, fmt.Errorf("read %s: %w", f.Origin, err)) && false
}

// Field is a column, or a field of a record, and its type as the format names it.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
}
