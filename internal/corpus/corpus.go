// Package corpus reads documents from files, compressed or not: plain text and folders of it, JSON lines, JSON, CSV,
// Parquet, Arrow IPC, datasets of Hugging Face, MDS, Megatron's pairs, files of token ids, web archives, and tars of
// samples. The format of a file is detected by its content. The order is deterministic, and memory is bounded by one
// document (Parquet and Arrow: by what the file decodes at a time).
//
// The package finds inputs and detects formats. The packages below it read each family of formats.
package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"loaderd/internal/corpus/archive"
	"loaderd/internal/corpus/columnar"
	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/jsonrecord"
	"loaderd/internal/corpus/record"
	"loaderd/internal/corpus/tokenids"
	"loaderd/internal/mds"
	"loaderd/internal/objects"
	"loaderd/internal/tokenfiles"
)

// Format is the format of a file of documents.
type Format string

// The formats. Auto detects the format by the content.
const (
	Auto  Format = "auto"
	Text  Format = "text"  // a file is a document
	JSONL Format = "jsonl" // a line is a document: a JSON object
	// an element of one array is a document, or each of the objects that follow each other, on any lines
	JSON    Format = "json"
	CSV     Format = "csv"     // a record is a document, below a header; tabs, semicolons and bars separate too
	Parquet Format = "parquet" // a row is a document
	Arrow   Format = "arrow"   // a row of an Arrow IPC file or stream is a document

	MDS      Format = "mds"      // a sample of MosaicML's shards is a document; their folder is given, or its index.json
	Megatron Format = "megatron" // a document is one of Megatron's .bin and .idx, either of which is given
	Tokens   Format = "tokens"   // token ids one behind the other: NumPy's files, those of llm.c, or without any header
	WARC     Format = "warc"     // a record of a web archive with text is a document
	Tar      Format = "tar"      // files of a tar whose names have one beginning are a document, as of WebDataset
)

// Formats are all of them, as they are asked for.
var Formats = []Format{Auto, Text, JSONL, JSON, CSV, Parquet, Arrow, MDS, Megatron, Tokens, WARC, Tar}

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

// Options select the documents of files. The zero value reads text columns named "text".
type Options struct {
	// Format of all files; empty is Auto.
	Format Format
	// TextField is the JSON field or the column of the text; empty is "text", or "ids" when Tokens is set.
	TextField string
	// IDField is the JSON field or column of the document's own id; empty reads none.
	IDField string
	// Tokens reports that TextField is a list of token ids, not text.
	Tokens bool
	// Stores read objects of object stores and web addresses; nil: neither is read.
	Stores *objects.Stores
	// MaxDocument is the largest document in bytes; larger ones are a *record.SkipError. 0 is 64 MiB.
	MaxDocument int64
	// Vocabulary is one more than the largest valid token id; a document with a larger id is a *record.SkipError. 0
	// checks none.
	Vocabulary int
	// Cut determines where documents end in files of token ids without boundaries.
	Cut tokenfiles.Cut
	// Encoding of text files, by a name that Encodings takes; empty is UTF-8, or UTF-16 where the file begins with its
	// byte order mark.
	Encoding string
	// CSV describes how fields of tables are written.
	CSV csvtable.Options
	// TokenType is the type of ids in files of token ids without a header, and in a column of bytes. The zero value is
	// for none.
	TokenType tokenfiles.Type
	// Split is the part of a dataset of Hugging Face that is read, "all" for all parts. Where it is empty, a dataset
	// with several parts is an error.
	Split string
	// Meta are values that are passed on with documents.
	Meta []record.Meta
	// Survey permits formats of token ids where Tokens is not set, to report their contents.
	Survey bool
	// Late delays the check that files of a folder are text until they are read, where Format is Text: each is opened
	// once. The folder's fingerprint is then independent of which files can be read.
	Late bool
}

const defaultMaxDocument = 64 << 20

// Input is what is published, and resumed, as one: a file, or all plain text files of a folder.
type Input struct {
	// Name is the absolute path, with a trailing slash for a folder, or "-" for standard input. Of a pipe it is the
	// path as given.
	Name string
	// Fingerprint changes when the sizes or times of the files, or the options, do; empty for standard input and pipes,
	// which can be read only once.
	Fingerprint string
	// Bytes of the files on disk; 0 for standard input and pipes.
	Bytes int64
	// Part is the part of a dataset that the input belongs to, empty for none.
	Part string

	format  Format // Auto: is detected when the input is read
	reading Format // of the file that is read
	files   []source
	skipped []*record.SkipError
	folder  bool
	read    atomic.Int64
	stdin   io.Reader
	options Options

	problem error // why its format is not known; Documents yields it

	from, began, at Place // requested, used, and of the current entry
}

// source is a file of an input.
type source struct {
	record.File
	size       int64
	pipe       bool
	bin        string              // Megatron: the absolute path of the ids
	companions tokenids.Companions // of token ids
	shard      *mds.Shard          // MDS
	object     *objects.Object     // where it is in a store
	within     string              // the folder that a file named by a manifest must be in; else empty
}

// open opens a file.
func (s source) open() (*os.File, error) {
	if s.within == "" {
		return os.Open(s.Origin)
	}
	name, err := filepath.Rel(s.within, s.Origin)
	if err != nil {
		return nil, err
	}
	return os.OpenInRoot(s.within, name)
}

// Format is what the input's files hold, Auto where that is looked up when they are read.
func (in *Input) Format() Format { return in.format }

// Tokens says whether its documents are token ids.
func (in *Input) Tokens() bool {
	return in.options.Tokens || in.format == Megatron || in.format == Tokens
}

// Files is how many files the input has.
func (in *Input) Files() int { return len(in.files) }

// Read is how many of Bytes have been read: what progress bars show.
func (in *Input) Read() int64 { return in.read.Load() }

// late says that its files were not looked at when they were found.
func (in *Input) late() bool { return in.folder && in.options.late() }

// Pass counts the whole input as read.
func (in *Input) Pass() { in.read.Store(in.Bytes) }

// Documents yields the input's documents in order. After a *record.SkipError, of one document that cannot be read, the
// iteration continues; any other error ends it. It can be called again, except for standard input and pipes. The end of
// ctx ends the wait for a pipe or standard input with ctx's error.
func (in *Input) Documents(ctx context.Context) iter.Seq2[record.Document, error] {
	return func(yield func(record.Document, error) bool) {
		yield = in.utf8(in.options.known(yield))
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		in.read.Store(0)
		in.begin(Place{})
		if in.problem != nil {
			yield(record.Document{}, in.problem)
			return
		}
		for _, s := range in.skipped {
			if !yield(record.Document{}, s) {
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
func (in *Input) file(ctx context.Context, s source, yield record.Yield) (more bool) {
	switch in.format {
	case Parquet:
		return in.parquet(ctx, s, yield)
	case Megatron:
		return in.megatron(s, yield)
	}
	r, err := in.opener().open(ctx, s)
	if err != nil {
		if in.late() && isUnreadable(err) {
			return yield(record.Document{}, &record.SkipError{Reason: record.Unreadable, Path: s.Path, Err: err})
		}
		return s.Fail(yield, err)
	}
	defer func() {
		if err := r.Close(); err != nil && more {
			more = s.Fail(yield, err)
		}
	}()
	return in.body(ctx, s, r, yield) && trailing(s, r, yield)
}

// trailing yields a *record.SkipError for bytes after the end of compressed data.
func trailing(s source, r *compression.Reader, yield record.Yield) bool {
	n := r.Trailing()
	if n == 0 {
		return true
	}
	err := fmt.Errorf("%d bytes behind the end of the gzip data are not gzip data", n)
	return yield(record.Document{}, &record.SkipError{Reason: record.Trailing, Path: s.Path, Err: err})
}

// body yields the documents of a file that is open.
func (in *Input) body(ctx context.Context, s source, r *compression.Reader, yield record.Yield) bool {
	format, err := in.format, error(nil)
	body := io.Reader(r)
	if format == Auto {
		if format, body, err = in.lookThrough(s, r); err != nil {
			var refused *record.SkipError
			if errors.As(err, &refused) && in.folder { // one of many objects, as of a folder's files
				return yield(record.Document{}, &record.SkipError{
					Reason: refused.Reason, Path: s.Path, Err: refused.Err,
				})
			}
			return s.Fail(yield, err)
		}
	}
	in.reading = format
	switch format {
	case Parquet: // what was read of it is its beginning alone
		return in.parquet(ctx, s, yield)
	case JSONL:
		return in.jsonl(ctx, s, r, body, yield)
	case JSON:
		return jsonrecord.ValueDocuments(s.File, body, in.options.columns(), yield)
	case CSV:
		return in.csv(ctx, s).Documents(body, yield)
	case Arrow:
		return columnar.ArrowDocuments(s.File, body, in.options.columns(), yield)
	case Tokens:
		return in.tokens(s).Documents(body, yield)
	case MDS:
		m := columnar.MDS{
			File: s.File, Columns: in.options.columns(), Shard: s.shard, TokenType: in.options.TokenType,
		}
		return m.Documents(body, yield)
	case WARC:
		return archive.WARCDocuments(s.File, r, body, in.options.columns(), yield)
	case Tar:
		return archive.TarDocuments(s.File, body, in.options.columns(), yield)
	}
	return in.text(s, body, yield)
}
