package corpus

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	found, err := listWithPair(ctx, pattern, o)
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	listing, err := NewListing(found, o)
	if err == nil {
		err = listing.Check(ctx)
	}
	if err != nil {
		return nil, err
	}
	others := newInput(objects.RedactAddress(pattern), o.Format, o)
	others.folder = len(found) > 1
	var all []*Input
	for i, x := range found {
		in, err := listing.Open(ctx, i)
		if err != nil {
			return nil, err
		}
		if in == nil {
			continue
		}
		promise, _ := formatOfName(in.files[0].name())
		if promise == "" && others.folder && in.format != Megatron && in.files[0].shard == nil {
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

// listWithPair lists the objects of a pattern. For the name of one file of a Megatron pair, or their common name, it
// lists both.
func listWithPair(ctx context.Context, pattern string, o Options) ([]objects.Object, error) {
	if (o.Format != Auto && o.Format != Megatron) || strings.ContainsAny(pattern, `#?*[{\`) {
		return o.Stores.List(ctx, pattern)
	}
	trunk := strings.TrimSuffix(strings.TrimSuffix(pattern, ".bin"), ".idx")
	if trunk == pattern {
		found, err := o.Stores.List(ctx, pattern)
		if !objects.IsKind(err, objects.NotFound) {
			return found, err
		}
		pair, pairErr := listPair(ctx, trunk, "", o)
		if isAbsent(pairErr) {
			return found, err
		}
		return pair, pairErr
	}
	found, err := listPair(ctx, trunk, pattern, o)
	if objects.IsKind(err, objects.NotFound) || err == nil && !isWeb(pattern) &&
		!slices.ContainsFunc(found, func(x objects.Object) bool { return x.URL == pattern }) {
		return o.Stores.List(ctx, pattern)
	}
	return found, err
}

// listPair lists the files of a Megatron pair, with one listing, or with a request for each file of a web server, which
// has no listings. A file other than the required one need not exist there.
func listPair(ctx context.Context, trunk, required string, o Options) (all []objects.Object, err error) {
	if !isWeb(trunk) {
		return o.Stores.List(ctx, trunk+".{bin,idx}")
	}
	for _, extension := range []string{".bin", ".idx"} {
		found, foundErr := o.Stores.List(ctx, trunk+extension)
		if foundErr != nil && (!isAbsent(foundErr) || trunk+extension == required) {
			return nil, foundErr
		}
		if all = append(all, found...); foundErr != nil {
			err = foundErr
		}
	}
	if len(all) > 0 {
		err = nil
	}
	return all, err
}

func isWeb(address string) bool { return strings.HasPrefix(address, "http") }

// isAbsent reports that an object does not exist, as far as this client may know.
func isAbsent(err error) bool {
	return objects.IsKind(err, objects.NotFound) || objects.IsKind(err, objects.Denied)
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
	in.addVersion(source{File: objectFile(x), size: x.Size, object: &x}, x.Version)
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
