package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
	"loaderd/internal/corpus/tokenids"
	"loaderd/internal/mds"
	"loaderd/internal/tokenfiles"
	"loaderd/internal/warc"
)

// headBytes is how much of a file is read to detect its format.
const headBytes = 64 << 10

// nulSearchBytes is how much of that is searched for a NUL byte, which text does not have.
const nulSearchBytes = 8000

// errParquetPipe is returned because the index of a Parquet file is at its end, and a pipe must be read completely
// first.
var errParquetPipe = errors.New("a Parquet file must not be compressed as a whole, " +
	"because its index is at the end: decompress it to a file")

// checkPipeFormat returns an error for formats that need random access or several files.
func checkPipeFormat(f Format) error {
	switch f {
	case Parquet:
		return errParquetPipe
	case Megatron:
		return fmt.Errorf("%s consists of several files: pass their folder", formatNames[f])
	}
	return nil
}

// formatByExtension are the formats that extensions of names imply. Other extensions imply none, and such a file is
// usually plain text.
var formatByExtension = map[string]Format{
	".jsonl": JSONL, ".ndjson": JSONL, ".json": JSON, ".csv": CSV, ".tsv": CSV, ".parquet": Parquet, ".arrow": Arrow,
	".feather": Arrow,
	".npy":     Tokens, shardExtension: MDS, ".warc": WARC, ".wet": WARC, ".tar": Tar,
}

// formatOfName returns the format that the extension of a file's name implies, without that of a compression, empty for
// none. loose reports that the name has no extension.
func formatOfName(name string) (f Format, loose bool) {
	ending := extension(name)
	return formatByExtension[ending], ending == ""
}

// extension returns the extension of a file's name in lower case, without that of a compression.
func extension(name string) string {
	name, _ = trimCompression(strings.ToLower(filepath.Base(name)))
	return filepath.Ext(name)
}

// shardExtension is the extension of a shard of MDS.
const shardExtension = ".mds"

// trimCompression removes the extension of a compression from a name. It reports whether the name has one.
func trimCompression(name string) (trunk string, ok bool) {
	if codec := shardCodec(name); codec != "" {
		return name[:len(name)-len("."+codec)], true
	}
	return compression.TrimExtension(name)
}

// shardCodec returns the compression of an MDS shard that its content does not show, by its name; empty for any other
// file.
func shardCodec(name string) string {
	for _, codec := range compression.Unsigned() {
		if strings.HasSuffix(strings.ToLower(name), shardExtension+"."+codec) {
			return codec
		}
	}
	return ""
}

// detectFile detects the format of a file. In a folder, a *record.SkipError is a file to skip.
func detectFile(s source, o Options) (Format, error) {
	if o.Format == Auto && shardCodec(s.name()) == compression.Snappy {
		return o.checkFormat(MDS) // its name is sufficient, because it can only be decompressed as a whole
	}
	r, err := newOpener(o).open(context.Background(), s)
	if err != nil {
		return "", err
	}
	defer r.Close() // read only
	most := headBytes
	if o.Format == Text {
		most = nulSearchBytes
	}
	h, err := readHead(r, most, false)
	if err != nil {
		return "", err
	}
	if o.Format == Text && isBinary(h.data) {
		return "", &record.SkipError{Reason: record.Binary, Err: binaryError(h.data)}
	}
	if o.Format != Auto {
		return o.checkFormat(o.Format)
	}
	f, err := h.detectFormat(s, o)
	if err == nil && f == Parquet && !r.IsRaw() {
		return "", errParquetPipe
	}
	return f, err
}

// detectStream detects the format of data that can be read only once. It returns a reader of all of it.
func (in *Input) detectStream(s source, r *compression.Reader) (Format, io.Reader, error) {
	h, err := readHead(r, headBytes, true)
	if err != nil {
		return "", nil, err
	}
	f, err := h.detectFormat(s, in.options)
	if ranges := s.object != nil && r.IsRaw(); err == nil && !(f == Parquet && ranges) {
		err = checkPipeFormat(f)
	}
	return f, io.MultiReader(bytes.NewReader(h.data), r), err
}

// head is the beginning of a file.
type head struct {
	data    []byte
	isWhole bool // it is the whole file
}

// readHead reads the beginning, at most most bytes. For a pipe, whose writer may be slow, it reads until the first
// line is complete.
func readHead(r io.Reader, most int, pipe bool) (head, error) {
	h := head{data: make([]byte, 0, most)}
	for len(h.data) < most {
		n, err := r.Read(h.data[len(h.data):most])
		h.data = h.data[:len(h.data)+n]
		if err == io.EOF {
			h.isWhole = true
			break
		}
		if compression.IsDamage(err) && len(h.data) > 0 {
			break // the reader of the format may skip the damage
		}
		if err != nil {
			return head{}, err
		}
		if pipe && bytes.IndexByte(bytes.TrimLeft(h.data, " \t\r\n"), '\n') >= 0 {
			break
		}
	}
	return h, nil
}

// checkFormat returns an error for formats that cannot hold the requested kind of documents, text or token ids.
func (o Options) checkFormat(f Format) (Format, error) {
	switch {
	case o.Tokens && (f == Text || f == CSV || f == WARC):
		err := fmt.Errorf(
			"token ids are read from JSON, Parquet or Arrow, or from files of ids, not from %s", formatNames[f])
		return "", &record.SkipError{Reason: record.Binary, Err: err}
	case !o.Tokens && !o.Inspect && (f == Megatron || f == Tokens):
		return "", errNoTokenizer
	}
	return f, nil
}

// errNoTokenizer is returned because token ids have no meaning without their tokenizer.
var errNoTokenizer = errors.New("it contains token ids: set their tokenizer with --tokenizer (its name or " +
	"file) or --tokenizer-fingerprint")

var formatNames = map[Format]string{Text: "plain text", JSONL: "JSON lines", JSON: "JSON", CSV: "CSV",
	Parquet: "Parquet",
	Arrow:   "Arrow IPC data",
	MDS:     "a shard of MDS", Megatron: "a Megatron index", Tokens: "token ids", WARC: "a web archive",
	Tar: "a tar archive"}

// detectFormat returns the format of a file. Content that does not match the extension of the file's name is an error,
// and so is content of no format.
func (h head) detectFormat(s source, o Options) (Format, error) {
	promise, loose := formatOfName(s.name())
	if err := tokenids.CheckMask(s.name()); err != nil && promise == Tokens {
		return "", err
	}
	if promise == MDS && !mds.LooksLikeShard(h.data) {
		promise = "" // other programs use the extension, too
	}
	data := bytes.TrimLeft(h.data, "\ufeff")
	is := h.detect(data, promise, loose || s.pipe, o)
	switch {
	case promise != "" && normalizeJSON(promise) != normalizeJSON(is):
		return h.resolveMismatch(data, promise, is, o)
	case is == "":
		return "", &record.SkipError{Reason: record.Binary, Err: binaryError(h.data)}
	}
	if promise == JSON || promise == CSV {
		if err := h.checkTextColumn(s, data, is, o); err != nil {
			return "", &record.SkipError{Reason: record.NoText, Err: err}
		}
	}
	return o.checkFormat(is)
}

// normalizeJSON returns JSONL for JSON too, because the extension of either permits both.
func normalizeJSON(f Format) Format {
	if f == JSON {
		return JSONL
	}
	return f
}

// detect returns the format of content, given the format that its name implies, or none. It returns "" for no format.
func (h head) detect(data []byte, promise Format, loose bool, o Options) Format {
	if promise == MDS {
		return MDS
	}
	if f := h.magicFormat(); f != "" {
		return f
	}
	if o.TokenType.Size > 0 && (promise == "" || promise == Tokens) {
		return Tokens
	}
	if isBinary(data) && !(promise == JSONL && looksLikeObject(bytes.TrimLeft(data, " \t\r\n"))) {
		return ""
	}
	return h.textFormat(data, promise, loose, o)
}

// resolveMismatch returns the error for content that does not match the extension of its name. An empty file of JSON or
// CSV has that format.
func (h head) resolveMismatch(data []byte, promise, is Format, o Options) (Format, error) {
	empty := len(bytes.TrimSpace(data)) == 0
	if is == "" && promise == Tokens && len(data) > 0 {
		return "", tokenids.ErrNoHeader
	}
	if empty && (promise == JSON || promise == JSONL || promise == CSV) {
		return o.checkFormat(promise)
	}
	var what string
	switch {
	case empty:
		what = "it is empty"
	case is != "":
		what = "it looks like " + formatNames[is]
	case isBinary(data):
		what = binaryKind(h.data)
	default:
		what = fmt.Sprintf("it begins with %q", record.Truncate(string(firstLine(data))))
	}
	err := fmt.Errorf("its name promises %s, but %s: rename it, or set its format with --format", formatNames[promise],
		what)
	if promise == JSON || promise == CSV {
		return "", &record.SkipError{Reason: record.NoText, Err: err} // such files are common in folders
	}
	return "", err
}

// magicFormat detects the formats that start with a magic number.
func (h head) magicFormat() Format {
	switch {
	case bytes.HasPrefix(h.data, []byte("PAR1")):
		return Parquet
	case columnfile.IsArrow(h.data):
		return Arrow
	case tokenfiles.IsMegatron(h.data):
		return Megatron
	case bytes.HasPrefix(h.data, []byte(tokenfiles.NPYMagic)), tokenfiles.IsLLMC(h.data):
		return Tokens
	case isTar(h.data):
		return Tar
	case bytes.HasPrefix(h.data, []byte(warc.Magic)):
		return WARC
	}
	return ""
}

// isTar reports whether data starts with the header of a file in a tar.
func isTar(data []byte) bool { return len(data) > 262 && string(data[257:262]) == "ustar" }

// isBinary reports whether data is not text.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), nulSearchBytes)], 0) >= 0
}

func binaryError(data []byte) error {
	return fmt.Errorf("%s, and its format is not supported: omit it (token ids without a header need --token-type)",
		binaryKind(data))
}

func binaryKind(data []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if kind == "application/octet-stream" || strings.HasPrefix(kind, "text/") {
		return "it looks like a binary file (it has a NUL byte)"
	}
	return "it looks like a binary file (" + kind + ")"
}

// textFormat detects the formats that are text.
func (h head) textFormat(data []byte, promise Format, loose bool, o Options) Format {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	switch promise {
	case CSV:
		if h.jsonFormat(trimmed) != "" && jsonvalue.Valid(firstLine(trimmed)) {
			return JSONL
		}
		return CSV
	case "":
		return h.guessTextFormat(trimmed, loose, o)
	}
	return h.jsonFormat(trimmed)
}

// guessTextFormat returns the format of a file whose name implies none. It is plain text unless the content is clearly
// of another format.
func (h head) guessTextFormat(data []byte, loose bool, o Options) Format {
	first, rest := firstLine(data), afterLine(data)
	_, err := o.columns().Parse(bytes.Clone(first))
	switch {
	case loose && looksLikeObject(data):
		return h.jsonFormat(data)
	case err == nil && o.isDocument(firstLine(rest)):
		return JSONL
	case loose && h.hasObjectLine(data):
		return JSONL
	case csvtable.IsTable(data, o.columns(), o.CSV):
		return CSV
	}
	return Text
}

// looksLikeObject reports whether data starts like an object, or like a list of objects.
func looksLikeObject(data []byte) bool {
	rest, list := bytes.CutPrefix(data, []byte("["))
	if list {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	rest, ok := bytes.CutPrefix(rest, []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && (len(rest) == 0 || rest[0] == '"' || rest[0] == '}')
}

// jsonFormat distinguishes JSON lines, JSON on any lines, and other data.
func (h head) jsonFormat(data []byte) Format {
	if len(data) == 0 {
		return ""
	}
	first, rest := firstLine(data), bytes.TrimSpace(afterLine(data))
	whole := h.isWhole || len(first) < len(data)
	switch {
	case data[0] == '{' && (!whole || jsonvalue.Valid(first) || h.hasObjectLine(afterLine(data))):
		return JSONL
	case data[0] == '[' && whole && jsonvalue.Valid(first) && len(rest) > 0:
		return JSONL // lists, which are not valid as lines; reading reports them
	case data[0] == '{' || data[0] == '[':
		return JSON
	case h.hasObjectLine(data):
		return JSONL
	}
	return ""
}

// hasObjectLine reports whether any line is a JSON object.
func (h head) hasObjectLine(data []byte) bool {
	for len(data) > 0 {
		line := firstLine(data)
		if len(line) > 0 && line[0] == '{' && jsonvalue.Valid(line) {
			return true
		}
		data = afterLine(data)
	}
	return false
}

// checkTextColumn returns an error if a file lacks the field or column of the text.
func (h head) checkTextColumn(s source, data []byte, f Format, o Options) error {
	if f == CSV {
		_, err := csvtable.ColumnNames(data, o.columns(), o.CSV)
		return err
	}
	v := jsonvalue.NewReader(bytes.NewReader(data), headBytes, f == JSON)
	var first []string
	for {
		raw, _, err := v.Next()
		var fields jsonvalue.Object
		if err == nil {
			fields, err = jsonvalue.ReadObject(raw)
		}
		switch {
		case err == nil:
			if o.columns().HasDocument(fields) {
				return nil
			}
			if first == nil {
				first = fields.Names()
			}
		case first == nil && !h.isWhole && s.object == nil && !s.pipe:
			return o.checkLongFirstValue(s, f)
		case first == nil:
			return nil // reading the file reports the error, with its line
		default:
			return o.columns().MissingTextError(first)
		}
	}
}

// checkLongFirstValue is checkTextColumn for a first value that is longer than the head. It reads the names of that
// value's fields from the file, in bounded memory.
func (o Options) checkLongFirstValue(s source, f Format) error {
	file, err := newOpener(Options{}).open(context.Background(), s)
	if err != nil {
		return err
	}
	defer file.Close() // read only
	v := jsonvalue.NewReader(file, headBytes, f == JSON)
	var names []string
	found := false
	err = v.EachName(func(name string) bool {
		if len(names) <= record.MaxListed {
			names = append(names, name)
		}
		found = o.columns().HasDocument(jsonvalue.Object{{Name: name, Value: []byte(`null`)}})
		return !found
	})
	var large *jsonvalue.SizeError
	if found || len(names) == 0 || err != nil && !errors.As(err, &large) {
		return nil // reading the file reports the error, with its line
	}
	return o.columns().MissingTextError(names)
}

func (o Options) isDocument(line []byte) bool {
	fields, err := jsonvalue.ReadObject(bytes.Clone(line))
	return err == nil && o.columns().HasDocument(fields)
}

func firstLine(data []byte) []byte {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return bytes.TrimSpace(bytes.TrimLeft(line, "\ufeff"))
}

func afterLine(data []byte) []byte {
	_, rest, _ := bytes.Cut(data, []byte("\n"))
	return rest
}
