package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// Open finds the inputs of paths ("-" is stdin) and looks at the beginning of each file. Folders are searched recursively.
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
		return openPipe(source{path: "-", given: "-", origin: "-", pipe: true}, stdin, o)
	}
	info, err := os.Stat(path)
	if err != nil {
		if remote, ok := remoteHint(path); ok {
			return nil, fmt.Errorf("find documents: %s: %s", path, remote)
		}
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("find documents: %s: %w", path, err)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 { // before its links: those of /dev/fd lead nowhere
		return openPipe(source{path: path, given: path, origin: path, pipe: true}, nil, o)
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	given := filepath.ToSlash(filepath.Clean(path))
	if info.IsDir() {
		return openFolder(given, abs, o)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("find documents: %s is neither a file, a folder nor a pipe", path)
	}
	s := source{path: filepath.Base(abs), given: given, origin: abs, size: info.Size()}
	f, err := lookAt(s, o)
	var refused *SkipError
	if errors.As(err, &refused) {
		err = refused.Err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", abs, err)
	}
	in := newInput(abs, f, o)
	in.add(s, info)
	in.finish()
	return []*Input{in.Input}, nil
}

// remoteHint says how to publish what a URL names; ok is false for a path that is none.
func remoteHint(path string) (hint string, ok bool) {
	scheme, rest, found := strings.Cut(path, "://")
	if !found || scheme == "" || strings.ContainsAny(scheme, `/\ `) {
		return "", false
	}
	fetch := ""
	switch scheme {
	case "file":
		return "give the path alone: " + rest, true
	case "s3":
		fetch = "aws s3 cp " + path + " -"
	case "gs":
		fetch = "gcloud storage cat " + path
	case "http", "https":
		fetch = "curl -sSfL " + path
	default:
		return "only files, folders, pipes and standard input are read: pipe it, PROGRAM | loaderd publish -", true
	}
	return "only files, folders, pipes and standard input are read: pipe it, such as " + fetch + " | loaderd publish -", true
}

// openPipe makes an input of standard input, of a named pipe, or of a shell's <(command). Its content is looked at when it is read.
func openPipe(s source, stdin io.Reader, o Options) ([]*Input, error) {
	if o.Format == Parquet {
		return nil, fmt.Errorf("find documents: %s: %w", s.path, errParquetPipe)
	}
	return []*Input{{Name: s.path, format: o.Format, stdin: stdin, options: o, files: []source{s}}}, nil
}

// openFolder makes one input of all text files, and one of each other file, in the order of their paths.
func openFolder(given, root string, o Options) ([]*Input, error) {
	text := newInput(root+string(filepath.Separator), Text, o)
	text.folder = true
	var rest []*Input
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, name)
		if relErr != nil {
			return relErr
		}
		rel = filepath.ToSlash(rel)
		skip := func(r Reason, err error) {
			text.skipped = append(text.skipped, &SkipError{Reason: r, Path: rel, Err: err})
		}
		if err != nil {
			if name == root {
				return err
			}
			skip(Unreadable, err)
			return nil
		}
		if name != root && strings.HasPrefix(d.Name(), ".") {
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
		s := source{path: rel, given: path.Join(given, rel), origin: name, size: info.Size()}
		// Opened here, because a file that becomes readable must change the input's fingerprint.
		f, err := lookAt(s, o)
		var refused *SkipError
		switch {
		case errors.As(err, &refused):
			skip(refused.Reason, refused.Err)
			return nil
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			skip(Unreadable, err)
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case f == Text:
			text.add(s, info)
			return nil
		}
		in := newInput(name, f, o)
		in.add(s, info)
		in.finish()
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
	text.finish()
	return append([]*Input{text.Input}, rest...), nil
}

// inputBuilder makes an input and, from its files, its fingerprint.
type inputBuilder struct {
	*Input
	sum hash.Hash
}

func newInput(name string, f Format, o Options) inputBuilder {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\x00%s\x00%s\x00%t\x00", f, o.TextField, o.IDField, o.Tokens)
	return inputBuilder{&Input{Name: name, format: f, options: o}, sum}
}

func (u inputBuilder) add(s source, info fs.FileInfo) {
	u.files = append(u.files, s)
	u.Bytes += s.size
	_, _ = fmt.Fprintf(u.sum, "%s\x00%d\x00%d\x00", s.path, s.size, info.ModTime().UnixNano())
}

func (u inputBuilder) finish() { u.Fingerprint = hex.EncodeToString(u.sum.Sum(nil)[:16]) }
