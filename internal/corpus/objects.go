package corpus

import (
	"context"
	"fmt"
	"strings"

	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
)

// addressHint returns what to do about an unsupported address; ok is false for a path that is not an address.
func addressHint(path string) (hint string, ok bool) {
	scheme, rest, found := strings.Cut(path, "://")
	switch {
	case !found || scheme == "" || strings.ContainsAny(scheme, `/\ `):
		return "", false
	case scheme == "file":
		return "pass only the path: " + rest, true
	}
	return "addresses of this kind are not supported (" + strings.Join(objects.Schemes, "://, ") +
		":// are): pipe it, PROGRAM | loaderd publish -", true
}

// openObjects returns the inputs of the objects of a pattern, in their order. Each object whose name implies a format
// is an input. All others, possibly many small texts, are one input.
func openObjects(ctx context.Context, pattern string, o Options) ([]*Input, error) {
	found, err := o.Stores.List(ctx, pattern)
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	others := newInput(objects.RedactAddress(pattern), o.Format, o)
	others.folder = len(found) > 1
	var all []*Input
	for _, x := range found {
		in, err := newObjectInput(x, o)
		if err != nil {
			return nil, err
		}
		if promise, _ := formatOfName(in.files[0].name()); promise == "" && others.folder {
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

// OpenObject returns the input of a single object. Its format is detected when it is read, unless the options specify
// it.
func OpenObject(x objects.Object, o Options) (*Input, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return newObjectInput(x, o)
}

func newObjectInput(x objects.Object, o Options) (*Input, error) {
	_, err := o.checkFormat(o.Format)
	if err == nil && o.Format != Parquet {
		err = checkPipeFormat(o.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", x.URL, err)
	}
	in := newInput(x.URL, o.Format, o)
	file := record.File{Path: x.URL, UserPath: x.URL, Origin: x.URL}
	in.addVersion(source{File: file, size: x.Size, object: &x}, x.Version)
	in.finish()
	return in.Input, nil
}

// IsTemporary reports whether a read error means that a store cannot be reached, and not a problem of the content.
func IsTemporary(err error) bool { return objects.IsTemporary(err) }

// name returns the name whose extension implies a format. For a web address it omits the hash of its query.
func (s source) name() string {
	if s.object == nil {
		return s.Origin
	}
	name, _, _ := strings.Cut(s.Origin, "#")
	return name
}
