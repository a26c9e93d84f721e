package corpus

import (
	"context"
	"fmt"
	"strings"

	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
)

// addressHint says what to do with an address that is not read; ok is false for a path that is none.
func addressHint(path string) (hint string, ok bool) {
	scheme, rest, found := strings.Cut(path, "://")
	switch {
	case !found || scheme == "" || strings.ContainsAny(scheme, `/\ `):
		return "", false
	case scheme == "file":
		return "give the path alone: " + rest, true
	}
	return "addresses of this kind are not read (" + strings.Join(objects.Schemes, "://, ") +
		":// are): pipe it, PROGRAM | loaderd publish -", true
}

// openObjects makes inputs of the objects of a pattern, in their order: one of each whose name promises a format, and
// one of all others, which may be many small texts.
func openObjects(ctx context.Context, pattern string, o Options) ([]*Input, error) {
	found, err := o.Stores.List(ctx, pattern)
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	others := newInput(objects.Name(pattern), o.Format, o)
	others.folder = len(found) > 1
	var all []*Input
	for _, x := range found {
		in, err := ofObject(x, o)
		if err != nil {
			return nil, err
		}
		if promise, _ := promised(in.files[0].name()); promise == "" && others.folder {
			if len(others.files) == 0 {
				all = append(all, others.Input)
			}
			others.addVersion(in.files[0], x.Version)
			continue
		}
		in.folder = others.folder
		all = append(all, in)
	}
	others.finish()
	return all, nil
}

// Object makes an input of an object alone. What it holds is looked at when it is read, unless the options say it.
func Object(x objects.Object, o Options) (*Input, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	return ofObject(x, o)
}

func ofObject(x objects.Object, o Options) (*Input, error) {
	_, err := o.check(o.Format)
	if err == nil && o.Format != Parquet {
		err = ofPipe(o.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", x.URL, err)
	}
	in := newInput(x.URL, o.Format, o)
	file := record.File{Path: x.URL, Given: x.URL, Origin: x.URL}
	in.addVersion(source{File: file, size: x.Size, object: &x}, x.Version)
	in.finish()
	return in.Input, nil
}

// Passes reports whether an error of reading is that a store cannot be reached, which is not one of what it holds.
func Passes(err error) bool { return objects.Passes(err) }

// name is what tells of a promise of the file's format: of a web address without the hash of its query.
func (s source) name() string {
	if s.object == nil {
		return s.Origin
	}
	name, _, _ := strings.Cut(s.Origin, "#")
	return name
}
