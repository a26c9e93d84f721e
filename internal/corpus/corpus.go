// Package corpus reads documents from files: plain text and folders of it, JSON lines, Parquet, and gzip or zstd of the first two.
// The order is deterministic and memory is bounded by one document (Parquet: by a few hundred rows).
package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
)

// Format says how documents lie in a file.
type Format string

// The formats. Auto goes by the file's extension: .jsonl and .ndjson, .parquet, and everything else is text.
const (
	Auto    Format = "auto"
	Text    Format = "text"    // a file is a document
	JSONL   Format = "jsonl"   // a line is a document: a JSON object
	Parquet Format = "parquet" // a row is a document
)

// Check refuses what is not a format.
func (f Format) Check() error {
	switch f {
	case "", Auto, Text, JSONL, Parquet:
		return nil
	}
	return fmt.Errorf("format %q: want auto, text, jsonl or parquet", string(f))
}

// Options say what in a file is the document. The zero value reads text columns named "text" and keeps no ids.
type Options struct {
	// Format of all files; empty is Auto.
	Format Format
	// TextField is the JSON field or Parquet column of the text; empty is "text", or "ids" when Tokens is set.
	TextField string
	// IDField is the JSON field or Parquet column of the document's own id; empty reads none.
	IDField string
	// Tokens says that TextField is a list of token ids, not text.
	Tokens bool
	// MaxDocument is the largest document in bytes; larger ones are a *SkipError. 0 is 64 MiB.
	MaxDocument int64
}

const defaultMaxDocument = 64 << 20

// Document is one document of a file.
type Document struct {
	// Path is relative to the path that was opened, with slashes; Origin is the absolute path, whatever was opened.
	Path, Origin string
	// ID is the document's own id, when Options.IDField asks for it.
	ID string
	// Data is the text, or little-endian int32 token ids when Options.Tokens is set.
	Data []byte
}

// Reason says why a document was left out. The names are stable.
type Reason string

// The reasons.
const (
	Binary     Reason = "binary"     // a file in a folder that is not text
	Unreadable Reason = "unreadable" // a file or folder in a folder that can not be opened
	Special    Reason = "special"    // a device, socket or symbolic link in a folder
	Hidden     Reason = "hidden"     // a file or folder whose name begins with a dot
	BadRecord  Reason = "bad record" // a line or row that is not a document
	TooLarge   Reason = "too large"
)

// SkipError is one document, or one file of a folder, that can not be read. The iteration can go on behind it.
type SkipError struct {
	Reason Reason
	Path   string
	// Origin is the absolute path, as in Document, when the skipped document has a place in the input's order; empty otherwise.
	Origin string
	Line   int64 // line or row from 1; 0 means the whole file
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

	format  Format
	files   []source
	skipped []*SkipError
	folder  bool
	read    atomic.Int64
	stdin   io.Reader
	options Options
}

type source struct {
	path, origin string
	size         int64
}

// Read is how many of Bytes have been read: what progress bars show.
func (in *Input) Read() int64 { return in.read.Load() }

// Pass counts the whole input as read.
func (in *Input) Pass() { in.read.Store(in.Bytes) }

// Open finds the inputs of paths ("-" is stdin) without reading them. Folders are searched recursively.
func Open(paths []string, stdin io.Reader, o Options) ([]*Input, error) {
	if o.Format == "" {
		o.Format = Auto
	}
	if err := o.Format.Check(); err != nil {
		return nil, err
	}
	if o.MaxDocument <= 0 {
		o.MaxDocument = defaultMaxDocument
	}
	if o.TextField == "" {
		o.TextField = "text"
		if o.Tokens {
			o.TextField = "ids"
		}
	}
	var all []*Input
	seen := map[string]bool{}
	for _, path := range paths {
		inputs, err := open(path, stdin, o)
		if err != nil {
			return nil, err
		}
		for _, in := range inputs {
			if !seen[in.Name] {
				seen[in.Name] = true
				all = append(all, in)
			}
		}
	}
	return all, nil
}

func open(path string, stdin io.Reader, o Options) ([]*Input, error) {
	if path == "-" {
		f := o.Format
		switch {
		case f == Parquet:
			return nil, errors.New("standard input: Parquet needs a file, because its index is at the end")
		case f == Auto:
			f = JSONL
		}
		return []*Input{{Name: "-", format: f, stdin: stdin, options: o, files: []source{{path: "-", origin: "-"}}}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("find documents: %s: %w", path, err)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 { // before its links: those of /dev/fd lead nowhere
		return openPipe(path, o)
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	if info.IsDir() {
		return openFolder(abs, o)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("find documents: %s is neither a file, a folder nor a pipe", path)
	}
	f := formatOf(abs, o.Format)
	if o.Tokens && f == Text {
		return nil, fmt.Errorf("find documents: %s: token ids come from JSON lines or Parquet, not from plain text", path)
	}
	in := newInput(abs, f, o)
	in.add(source{filepath.Base(abs), abs, info.Size()}, info)
	in.seal()
	return []*Input{in.Input}, nil
}

// openPipe makes an input of a named pipe, or of a shell's <(command). It is read as standard input is.
func openPipe(path string, o Options) ([]*Input, error) {
	f := formatOf(path, o.Format)
	switch {
	case f == Parquet:
		return nil, fmt.Errorf("find documents: %s is a pipe: Parquet needs a file, because its index is at the end", path)
	case o.Format == Auto:
		f = JSONL
	}
	return []*Input{{Name: path, format: f, options: o, files: []source{{path: path, origin: path}}}}, nil
}

// openFolder makes one input of all text files, and one of each other file, in the order of their paths.
func openFolder(root string, o Options) ([]*Input, error) {
	text := newInput(root+string(filepath.Separator), Text, o)
	text.folder = true
	var rest []*Input
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		rel = filepath.ToSlash(rel)
		skip := func(r Reason, err error) {
			text.skipped = append(text.skipped, &SkipError{Reason: r, Path: rel, Err: err})
		}
		if err != nil {
			if path == root {
				return err
			}
			skip(Unreadable, err)
			return nil
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			skip(Hidden, errors.New("its name begins with a dot"))
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			skip(Special, fmt.Errorf("not a regular file (%s)", d.Type()))
			return nil
		}
		info, err := d.Info()
		if err != nil {
			skip(Unreadable, err)
			return nil
		}
		// Tried here, because a file that becomes readable must change the input's fingerprint.
		if err := readable(path); err != nil {
			skip(Unreadable, err)
			return nil
		}
		f := formatOf(path, o.Format)
		if f == Text {
			if o.Tokens {
				skip(Binary, errors.New("plain text where token ids are expected"))
				return nil
			}
			text.add(source{rel, path, info.Size()}, info)
			return nil
		}
		in := newInput(path, f, o)
		in.add(source{rel, path, info.Size()}, info)
		in.seal()
		rest = append(rest, in.Input)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	sort.Slice(rest, func(i, j int) bool { return rest[i].Name < rest[j].Name })
	if len(text.files) == 0 && len(text.skipped) == 0 {
		return rest, nil
	}
	text.seal()
	return append([]*Input{text.Input}, rest...), nil
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// unsealed is an input whose fingerprint is being made.
type unsealed struct {
	*Input
	sum hash.Hash
}

func newInput(name string, f Format, o Options) unsealed {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\x00%s\x00%s\x00%t\x00", f, o.TextField, o.IDField, o.Tokens)
	return unsealed{&Input{Name: name, format: f, options: o}, sum}
}

func (u unsealed) add(s source, info fs.FileInfo) {
	u.files = append(u.files, s)
	u.Bytes += s.size
	_, _ = fmt.Fprintf(u.sum, "%s\x00%d\x00%d\x00", s.path, s.size, info.ModTime().UnixNano())
}

func (u unsealed) seal() { u.Fingerprint = hex.EncodeToString(u.sum.Sum(nil)[:16]) }

func formatOf(path string, f Format) Format {
	if f != Auto {
		return f
	}
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson":
		return JSONL
	case ".parquet":
		return Parquet
	}
	return Text
}

// Documents yields the input's documents in order. A *SkipError stands for one document that can not be read, and the iteration
// goes on behind it; any other error ends it. It can be called again, save for standard input.
func (in *Input) Documents() iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		in.read.Store(0)
		for _, s := range in.skipped {
			if !yield(Document{}, s) {
				return
			}
		}
		for _, s := range in.files {
			var more bool
			switch in.format {
			case JSONL:
				more = in.jsonl(s, yield)
			case Parquet:
				more = in.parquet(s, yield)
			default:
				more = in.text(s, yield)
			}
			if !more {
				return
			}
		}
	}
}
