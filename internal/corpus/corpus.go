// Package corpus reads documents from files: plain text and folders of it, JSON lines, JSON, CSV, Parquet and Arrow IPC, compressed or not. What
// a file holds is looked up in the file itself. The order is deterministic and memory is bounded by one document (Parquet and Arrow: by
// what the file decodes at a time).
package corpus

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// Format says how documents lie in a file.
type Format string

// The formats. Auto looks at the content.
const (
	Auto    Format = "auto"
	Text    Format = "text"    // a file is a document
	JSONL   Format = "jsonl"   // a line is a document: a JSON object
	JSON    Format = "json"    // an element of one array is a document, or each of the objects that follow each other, on any lines
	CSV     Format = "csv"     // a record is a document, below a header; tabs, semicolons and bars separate too
	Parquet Format = "parquet" // a row is a document
	Arrow   Format = "arrow"   // a row of an Arrow IPC file or stream is a document
)

// Formats are all of them, as they are asked for.
var Formats = []Format{Auto, Text, JSONL, JSON, CSV, Parquet, Arrow}

// Check refuses what is not a format.
func (f Format) Check() error {
	if f == "" || slices.Contains(Formats, f) {
		return nil
	}
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return fmt.Errorf("format %q: want one of %s", string(f), strings.Join(names, ", "))
}

// Options say what in a file is the document. The zero value reads text columns named "text".
type Options struct {
	// Format of all files; empty is Auto.
	Format Format
	// TextField is the JSON field or the column of the text; empty is "text", or "ids" when Tokens is set.
	TextField string
	// IDField is the JSON field or column of the document's own id; empty reads none.
	IDField string
	// Tokens says that TextField is a list of token ids, not text.
	Tokens bool
	// MaxDocument is the largest document in bytes; larger ones are a *SkipError. 0 is 64 MiB.
	MaxDocument int64
}

const defaultMaxDocument = 64 << 20

// Document is one document of a file.
type Document struct {
	// Path is where the document came from: its own path, meta.path or url, where it has one, else its file's, relative to the path
	// that was opened, with slashes. Origin is its file's absolute path, whatever was opened.
	Path, Origin string
	// ID is the document's own id, when Options.IDField asks for it.
	ID string
	// Label is what the document is called, without a promise that nothing else is: its field or column "id", or the path of a plain
	// file as it was given.
	Label string
	// Data is the text, or little-endian int32 token ids when Options.Tokens is set.
	Data []byte
}

// Reason says why a document was left out. The names are stable.
type Reason string

// The reasons.
const (
	Binary     Reason = "binary"     // a file in a folder that is none of the formats
	Unreadable Reason = "unreadable" // a file or folder in a folder that can not be opened
	Special    Reason = "special"    // a device, socket or symbolic link in a folder
	Hidden     Reason = "hidden"     // a file or folder whose name begins with a dot
	NoText     Reason = "no text"    // a JSON or CSV file in a folder that does not have the field or column of the text
	BadRecord  Reason = "bad record" // a line, row or element that is not a document
	TooLarge   Reason = "too large"
)

// SkipError is one document, or one file of a folder, that can not be read. The iteration can go on behind it.
type SkipError struct {
	Reason Reason
	Path   string
	// Origin is the absolute path, as in Document, when the skipped document has a place in the input's order; empty otherwise.
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

// Input is what is published, and resumed, as one: a file, or all plain text files of a folder.
type Input struct {
	// Name is the absolute path, with a trailing slash for a folder, or "-" for standard input. Of a pipe it is the path as given.
	Name string
	// Fingerprint changes when the sizes or times of the files, or the options, do; empty for standard input and pipes, which can be
	// read only once.
	Fingerprint string
	// Bytes of the files as they lie on disk; 0 for standard input and pipes.
	Bytes int64

	format  Format // Auto: is looked up when the input is read
	files   []source
	skipped []*SkipError
	folder  bool
	read    atomic.Int64
	stdin   io.Reader
	options Options
}

// source is a file: its path relative to what was opened, as it was given, and absolute.
type source struct {
	path, given, origin string
	size                int64
	pipe                bool
}

// Read is how many of Bytes have been read: what progress bars show.
func (in *Input) Read() int64 { return in.read.Load() }

// Pass counts the whole input as read.
func (in *Input) Pass() { in.read.Store(in.Bytes) }

// yielder takes a document or an error and says whether the iteration goes on.
type yielder func(Document, error) bool

// Documents yields the input's documents in order. A *SkipError stands for one document that can not be read, and the iteration
// goes on behind it; any other error ends it. It can be called again, save for standard input and pipes. The end of ctx ends the wait
// for a pipe or standard input with ctx's error.
func (in *Input) Documents(ctx context.Context) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		in.read.Store(0)
		for _, s := range in.skipped {
			if !yield(Document{}, s) {
				return
			}
		}
		for _, s := range in.files {
			if !in.file(ctx, s, yield) {
				return
			}
		}
	}
}

// file yields the documents of a file.
func (in *Input) file(ctx context.Context, s source, yield yielder) (more bool) {
	if in.format == Parquet {
		return in.parquet(s, yield)
	}
	r, err := in.open(ctx, s)
	if err != nil {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
	}
	defer func() {
		if err := r.Close(); err != nil && more {
			more = yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
		}
	}()
	format := in.format
	body := io.Reader(r)
	if format == Auto {
		if format, body, err = in.lookThrough(s, r); err != nil {
			return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
		}
	}
	switch format {
	case JSONL:
		return in.jsonl(s, body, yield)
	case JSON:
		return in.values(s, body, yield)
	case CSV:
		return in.csv(s, body, yield)
	case Arrow:
		return in.arrow(s, body, yield)
	}
	return in.text(s, body, yield)
}
