package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/hubcache"
	"loaderd/internal/corpus/record"
	"loaderd/internal/mds"
	"loaderd/internal/objects"
)

// Open finds the inputs of paths ("-" is stdin) and detects the format of each file. Folders are searched
// recursively. Addresses of stores may be patterns; the formats of their objects are detected when they are read. A
// file with a damaged beginning or of no format is an input whose Documents yield that error, so that the other
// inputs can be read.
func Open(ctx context.Context, paths []string, stdin io.Reader, o Options) ([]*Input, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var all []*Input
	seen := map[string]bool{}
	for _, path := range paths {
		inputs, err := open(ctx, path, stdin, o)
		if err != nil {
			return nil, err
		}
		for _, in := range inputs {
			if err := in.checkSplit(); err != nil {
				return nil, err
			}
			if !seen[in.Name] {
				seen[in.Name] = true
				all = append(all, in)
			}
		}
	}
	return all, nil
}

// withDefaults returns the options with defaults for unset fields.
func (o Options) withDefaults() (Options, error) {
	if o.Format == "" {
		o.Format = Auto
	}
	if err := o.Format.Check(); err != nil {
		return o, err
	}
	if _, err := FindEncoding(o.Encoding); err != nil {
		return o, err
	}
	if o.MaxDocument <= 0 {
		o.MaxDocument = defaultMaxDocument
	}
	o.TextField = o.textField()
	return o, o.CheckColumns()
}

// CheckColumns returns an error if a column has two purposes, because one of them would be ignored silently.
func (o Options) CheckColumns() error { return o.columns().Check() }

// textField returns the field or column of the document.
func (o Options) textField() string {
	switch {
	case o.TextField != "":
		return o.TextField
	case o.Tokens:
		return "ids"
	}
	return "text"
}

func open(ctx context.Context, path string, stdin io.Reader, o Options) ([]*Input, error) {
	if o.Stores != nil && objects.IsRemote(path) {
		return openObjects(ctx, path, o)
	}
	if path == "-" {
		return openPipe(source{File: record.File{Path: "-", UserPath: "-", Origin: "-"}, pipe: true}, stdin, o)
	}
	path = megatronIndexOf(path)
	info, err := os.Stat(path)
	if err != nil {
		if hint, ok := addressHint(path); ok {
			return nil, fmt.Errorf("find documents: %s: %s", path, hint)
		}
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("find documents: %s: %w", path, err)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 { // before links are resolved: those of /dev/fd have no target path
		return openPipe(source{File: record.File{Path: path, UserPath: path, Origin: path}, pipe: true}, nil, o)
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = hubcache.Resolve(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	given := filepath.ToSlash(filepath.Clean(path))
	if info.IsDir() {
		return openFolder(given, abs, o)
	}
	if filepath.Base(abs) == mds.IndexName {
		if inputs, ok, err := openDataset(filepath.ToSlash(filepath.Dir(given)), filepath.Dir(abs), "", o); ok || err != nil {
			return inputs, err
		}
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("find documents: %s is neither a file, a folder nor a pipe", path)
	}
	s := source{File: record.File{Path: filepath.Base(abs), UserPath: given, Origin: abs}, size: info.Size()}
	f, err := detectFile(s, o)
	var refused *record.SkipError
	if errors.As(err, &refused) {
		err = refused.Err
	}
	if err != nil {
		return []*Input{newFailedInput(s, info, o, err)}, nil
	}
	in, err := newFileInput(s, f, info, o)
	if err != nil {
		return nil, err
	}
	return []*Input{in}, nil
}

// newFailedInput returns the input of a file that cannot be read.
func newFailedInput(s source, info fs.FileInfo, o Options, err error) *Input {
	in := newInput(s.Origin, o.Format, o)
	in.add(s, info)
	in.finish()
	in.openErr = fmt.Errorf("read %s: %w", s.Origin, err)
	return in.Input
}

// newFileInput returns the input of a file, or of a Megatron index with its ids.
func newFileInput(s source, f Format, info fs.FileInfo, o Options) (*Input, error) {
	in := newInput(s.Origin, f, o)
	switch f {
	case Megatron:
		if err := in.addPair(s, info); err != nil {
			return nil, err
		}
	case Tokens:
		if err := in.addTokens(s, info); err != nil {
			return nil, err
		}
	default:
		in.add(s, info)
	}
	in.finish()
	return in.Input, nil
}

// openPipe returns the input of standard input, of a named pipe, or of a shell's <(command). Its format is detected
// when it is read.
func openPipe(s source, stdin io.Reader, o Options) ([]*Input, error) {
	if err := checkPipeFormat(o.Format); err != nil {
		return nil, fmt.Errorf("find documents: %s: %w", s.Path, err)
	}
	return []*Input{{Name: s.Path, format: o.Format, stdin: stdin, options: o, files: []source{s}}}, nil
}

// isDeferred reports that files of folders are opened only when they are read.
func (o Options) isDeferred() bool { return o.DeferChecks && o.Format == Text }

// inputBuilder builds an input and computes its fingerprint from its files.
type inputBuilder struct {
	*Input
	sum hash.Hash
}

func newInput(name string, f Format, o Options) inputBuilder {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\x00%s\x00%s\x00%t\x00", f, o.TextField, o.IDField, o.Tokens)
	if o.CSV != (csvtable.Options{}) || o.Encoding != "" {
		_, _ = fmt.Fprintf(sum, "%v\x00%s\x00", o.CSV, o.Encoding)
	}
	if len(o.Meta) > 0 {
		_, _ = fmt.Fprintf(sum, "%v\x00", o.Meta)
	}
	if f == Tokens || f == MDS && o.TokenType.Size > 0 {
		_, _ = fmt.Fprintf(sum, "%s\x00%v\x00", o.TokenType.Name, o.Boundaries)
	}
	return inputBuilder{&Input{Name: name, format: f, options: o}, sum}
}

func (u inputBuilder) add(s source, info fs.FileInfo) {
	u.addVersion(s, info.ModTime().UnixNano())
}

// addVersion adds a file with a known version.
func (u inputBuilder) addVersion(s source, version any) {
	u.files = append(u.files, s)
	u.Bytes += s.size
	_, _ = fmt.Fprintf(u.sum, "%s\x00%d\x00%v\x00", s.Path, s.size, version)
}

func (u inputBuilder) finish() { u.Fingerprint = hex.EncodeToString(u.sum.Sum(nil)[:16]) }
