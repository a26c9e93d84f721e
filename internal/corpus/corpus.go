// Package corpus reads documents from files, compressed or not: plain text and folders of it, JSON lines, JSON, CSV,
// Parquet, Arrow IPC, datasets of Hugging Face, MDS, Megatron's pairs, files of token ids, web archives, and tars of
// samples. It detects the format of a file by its content. The order is deterministic. Memory is bounded by one
// document, for Arrow by the unit that the file decodes at a time, for Parquet by a page or 256 MiB of row groups that
// are decoded together, and for JSON lines by one long line or some blocks of 1 MiB per processor.
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
	// an array element is a document, or each of several concatenated objects, on any lines
	JSON    Format = "json"
	CSV     Format = "csv"     // a record after the header is a document; separators: comma, tab, semicolon, bar
	Parquet Format = "parquet" // a row is a document
	Arrow   Format = "arrow"   // a row of an Arrow IPC file or stream is a document

	MDS      Format = "mds"      // a sample of MosaicML's shards is a document; the path is their folder or index.json
	Megatron Format = "megatron" // a document of a pair of Megatron files; the path is the .bin or the .idx
	Tokens   Format = "tokens"   // consecutive token ids: NumPy's files, those of llm.c, or without any header
	WARC     Format = "warc"     // a record of a web archive with text is a document
	Tar      Format = "tar"      // consecutive files of a tar with the same key are a document, as in WebDataset
)

// Formats has all formats, as users name them.
var Formats = []Format{Auto, Text, JSONL, JSON, CSV, Parquet, Arrow, MDS, Megatron, Tokens, WARC, Tar}

// Check returns an error for an unknown format.
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

// Options select the documents of files. The zero value reads text from fields and columns named "text".
type Options struct {
	// Format of all files; empty is Auto.
	Format Format
	// TextField is the JSON field or the column of the text; empty is "text", or "ids" when Tokens is set.
	TextField string
	// IDField is the JSON field or column of the document's own id; empty reads none.
	IDField string
	// Tokens reports that TextField is a list of token ids, not text.
	Tokens bool
	// Stores read objects of object stores and web addresses. If nil, neither is read.
	Stores *objects.Stores
	// MaxDocument is the maximum size of a document in bytes. A larger one is a *record.SkipError. 0 means 64 MiB.
	MaxDocument int64
	// Vocabulary is one more than the largest valid token id. A document with a larger id is a *record.SkipError. 0
	// disables the check.
	Vocabulary int
	// Boundaries determines where documents end in files of token ids without boundaries.
	Boundaries tokenfiles.Boundaries
	// Encoding of text files, by a name that Encodings accepts. If empty, it is UTF-8, or UTF-16 if the file starts with
	// its byte order mark.
	Encoding string
	// CSV describes how fields of tables are written.
	CSV csvtable.Options
	// TokenType is the type of ids in files of token ids without a header, and in a column of bytes. The zero value is
	// no type.
	TokenType tokenfiles.Type
	// Split is the part of a Hugging Face dataset to read, "all" for all parts. If empty, a dataset with several parts
	// is an error.
	Split string
	// Meta are values that are passed on with documents.
	Meta []record.Meta
	// Inspect permits formats of token ids where Tokens is not set, to report their contents.
	Inspect bool
	// DeferChecks delays the check that files of a folder are text until they are read, if Format is Text. Each file is
	// then opened only once, and the folder's fingerprint does not depend on which files can be read.
	DeferChecks bool
	// Interleaved reads ahead little of each input, because many inputs are read at the same time. Documents do not
	// depend on it.
	Interleaved bool
}

const defaultMaxDocument = 64 << 20

// Input is a unit of publishing and resuming: a file, or all plain text files of a folder.
type Input struct {
	// Name is the absolute path, with a trailing slash for a folder, or "-" for standard input. Of a pipe it is the
	// path as given.
	Name string
	// Fingerprint changes if the sizes or times of the files, or the options, change. It is empty for standard input and
	// pipes, which can be read only once.
	Fingerprint string
	// Bytes is the size of the files on disk; 0 for standard input and pipes.
	Bytes int64
	// Split is the part of a dataset to which the input belongs, empty for none.
	Split string

	format        Format // Auto: detected when the input is read
	currentFormat Format // format of the current file
	files         []source
	skipped       []*record.SkipError
	folder        bool
	bytesRead     atomic.Int64
	stdin         io.Reader
	options       Options

	openErr error // why its format is unknown; Documents yields it

	start, actualStart, position Position // requested, used, and of the current entry
	progress                     progress
}

// source is a file of an input.
type source struct {
	record.File
	size       int64
	pipe       bool
	bin        string              // Megatron: the absolute path of the ids
	companions tokenids.Companions // companions of a token file
	shard      *mds.Shard          // MDS
	object     *objects.Object     // location in a store
	ids        *objects.Object     // Megatron in a store: the ids
	root       string              // the folder that must contain a file named by a manifest; otherwise empty
}

// open opens a file.
func (s source) open() (*os.File, error) {
	if s.root == "" {
		return os.Open(s.Origin)
	}
	name, err := filepath.Rel(s.root, s.Origin)
	if err != nil {
		return nil, err
	}
	return os.OpenInRoot(s.root, name)
}

// Format returns the format of the input's files, Auto if it is detected when they are read.
func (in *Input) Format() Format { return in.format }

// Tokens reports whether its documents are token ids.
func (in *Input) Tokens() bool {
	return in.options.Tokens || in.format == Megatron || in.format == Tokens
}

// Files returns how many files the input has.
func (in *Input) Files() int { return len(in.files) }

// BytesRead returns how many of Bytes have been read, for progress bars.
func (in *Input) BytesRead() int64 { return in.bytesRead.Load() }

// isDeferred reports that its files were not opened when they were found.
func (in *Input) isDeferred() bool { return in.folder && in.options.isDeferred() }

// MarkRead counts the whole input as read.
func (in *Input) MarkRead() { in.bytesRead.Store(in.Bytes) }

// Documents yields the input's documents in order. A *record.SkipError means that one document cannot be read, and
// the iteration continues. Any other error ends it. Documents can be called again, except for standard input and
// pipes. The end of ctx ends the wait for a pipe or standard input with ctx's error.
func (in *Input) Documents(ctx context.Context) iter.Seq2[record.Document, error] {
	return func(yield func(record.Document, error) bool) {
		yield = in.toUTF8(in.options.limitVocabulary(yield))
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		yield = cancelAtEnd(cancel, yield)
		in.bytesRead.Store(0)
		in.progress = progress{}
		yield = in.progress.countTexts(yield)
		in.setStart(Position{})
		if in.openErr != nil {
			yield(record.Document{}, in.openErr)
			return
		}
		files := in.skipFiles()
		entries := in.actualStart.Entries
		yield = countEntries(&entries, yield)
		for _, s := range in.skipped {
			if len(files) == len(in.files) && !yield(record.Document{}, s) {
				return
			}
		}
		for i, s := range files {
			if len(in.files) > 1 {
				in.position = Position{Entries: entries, Offset: int64(len(in.files) - len(files) + i)}
			}
			if !in.readFile(ctx, s, yield) {
				return
			}
			in.progress.endFile(s.size)
		}
	}
}

// cancelAtEnd returns a yield that calls cancel when the iteration ends early. Concurrent readers of a file then end
// their pending reads.
func cancelAtEnd(cancel context.CancelFunc, yield record.Yield) record.Yield {
	return func(d record.Document, err error) (more bool) {
		defer func() {
			if !more {
				cancel()
			}
		}()
		return yield(d, err)
	}
}

// countEntries returns a yield that counts its calls.
func countEntries(n *int64, yield record.Yield) record.Yield {
	return func(d record.Document, err error) bool {
		*n++
		return yield(d, err)
	}
}

// readFile yields the documents of a file.
func (in *Input) readFile(ctx context.Context, s source, yield record.Yield) (more bool) {
	switch in.format {
	case Parquet:
		return in.parquetDocuments(ctx, s, yield)
	case Megatron:
		return in.megatronDocuments(ctx, s, yield)
	}
	r, err := in.opener().open(ctx, s)
	if err != nil {
		if in.isDeferred() && isUnreadable(err) {
			return yield(record.Document{}, &record.SkipError{Reason: record.Unreadable, Path: s.Path, Err: err})
		}
		return s.Fail(yield, err)
	}
	defer func() {
		if err := r.Close(); err != nil && more {
			more = s.Fail(yield, err)
		}
	}()
	return in.readBody(ctx, s, r, yield) && yieldTrailing(s, r, yield)
}

// yieldTrailing yields a *record.SkipError for bytes after the end of compressed data.
func yieldTrailing(s source, r *compression.Reader, yield record.Yield) bool {
	n := r.TrailingBytes()
	if n == 0 {
		return true
	}
	err := fmt.Errorf("%d bytes after the end of the gzip data are not gzip data", n)
	return yield(record.Document{}, &record.SkipError{Reason: record.Trailing, Path: s.Path, Err: err})
}

// readBody yields the documents of an open file.
func (in *Input) readBody(ctx context.Context, s source, r *compression.Reader, yield record.Yield) bool {
	format, err := in.format, error(nil)
	body := io.Reader(r)
	if format == Auto {
		if format, body, err = in.detectStream(s, r); err != nil {
			var refused *record.SkipError
			if errors.As(err, &refused) && in.folder { // one of many objects, like a file of a folder
				return yield(record.Document{}, &record.SkipError{
					Reason: refused.Reason, Path: s.Path, Err: refused.Err,
				})
			}
			return s.Fail(yield, err)
		}
	}
	in.currentFormat = format
	in.progress.compressed = !r.IsRaw()
	switch format {
	case Parquet: // opened again, because r is at its beginning only
		return in.parquetDocuments(ctx, s, yield)
	case JSONL:
		return in.lineDocuments(ctx, s, r, body, yield)
	case JSON:
		return jsonrecord.ValueDocuments(s.File, body, in.options.columns(), yield)
	case CSV:
		return in.tableSource(ctx, s).Documents(body, yield)
	case Arrow:
		return columnar.ArrowDocuments(s.File, body, in.options.columns(), yield)
	case Tokens:
		return in.tokenSource(s).Documents(body, yield)
	case MDS:
		return in.shardDocuments(ctx, s, r, body, yield)
	case WARC:
		return in.warcDocuments(ctx, s, r, body, yield)
	case Tar:
		return archive.TarDocuments(s.File, body, in.options.columns(), yield)
	}
	return in.textDocument(s, body, yield)
}
