package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"loaderd/internal/corpus/record"
	"loaderd/internal/mds"
	"loaderd/internal/objects"
	"loaderd/internal/tokenfiles"
)

// Listing is a listing of objects, some of which are read together: a Megatron index with its ids, and MDS shards with
// their index. An object that is appended to a listing does not change the documents of earlier ones, unless it is
// their index.
type Listing struct {
	options Options
	objects []objects.Object
	at      map[string]int         // index in objects, by name
	indexes map[string]*shardIndex // of MDS, by folder; nil for a file of that name that is none
	pairs   map[string]bool        // whether an object is a Megatron index, by its URL
}

// shardIndex is the MDS index of a folder, with its shards by the names of their files.
type shardIndex struct {
	folder string // with a slash
	shards map[string]mds.Shard
}

// NewListing returns a listing of objects.
func NewListing(all []objects.Object, o Options) (*Listing, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Listing{options: o, objects: all, at: map[string]int{}, indexes: map[string]*shardIndex{},
		pairs: map[string]bool{}}
	for i, x := range all {
		l.at[objectName(x)] = i
	}
	return l, nil
}

// objectName returns the address of an object without the hash of its query.
func objectName(x objects.Object) string {
	name, _, _ := strings.Cut(x.URL, "#")
	return name
}

// is reports whether files of a format are looked for.
func (l *Listing) is(f Format) bool { return l.options.Format == Auto || l.options.Format == f }

// Check returns an error if a Megatron index or an MDS index names an object that is not in the listing.
func (l *Listing) Check(ctx context.Context) error {
	for _, x := range l.objects {
		name := objectName(x)
		switch {
		case path.Base(name) == mds.IndexName && l.is(MDS):
			index, err := l.readIndex(ctx, name)
			if err != nil {
				return err
			}
			if missing := l.missingShard(index); missing != "" {
				return fmt.Errorf("find documents: %s names the shard %s, which is not among the objects: upload it, or list the "+
					"shards without %s", x.URL, missing, mds.IndexName)
			}
		case strings.HasSuffix(name, ".idx") && l.is(Megatron):
			if _, ok := l.at[idsOf(name)]; ok {
				continue
			}
			ok, err := l.isMegatron(ctx, x)
			if err != nil {
				return err
			}
			if ok {
				return fmt.Errorf("find documents: the ids of the index %s: %s is not among the objects", x.URL,
					path.Base(idsOf(name)))
			}
		}
	}
	return nil
}

// idsOf returns the name of the ids of a Megatron index.
func idsOf(name string) string { return strings.TrimSuffix(name, ".idx") + ".bin" }

// missingShard returns the first name of a shard that is not in the listing.
func (l *Listing) missingShard(index *shardIndex) string {
	if index == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(index.shards)) {
		s := index.shards[name]
		_, found := l.at[index.folder+s.Raw.Name]
		if s.Zip != nil && !found {
			_, found = l.at[index.folder+s.Zip.Name]
		}
		if !found {
			return s.Raw.Name
		}
	}
	return ""
}

// Open returns the input of an object by its position in the listing. It returns nil for an object that has no
// documents other than those of earlier or later ones: an index, the ids of an index, or another copy of a shard.
func (l *Listing) Open(ctx context.Context, i int) (*Input, error) {
	x := l.objects[i]
	name := objectName(x)
	if l.is(MDS) {
		if in, ok, err := l.openShard(ctx, x, name, i); ok || err != nil {
			return in, err
		}
	}
	if l.is(Megatron) {
		if index, found := strings.CutSuffix(name, ".bin"); found {
			if at, listed := l.at[index+".idx"]; listed {
				if ok, err := l.isMegatron(ctx, l.objects[at]); ok || err != nil {
					return nil, err
				}
			}
		}
		if at, listed := l.at[idsOf(name)]; listed && strings.HasSuffix(name, ".idx") {
			ok, err := l.isMegatron(ctx, x)
			if err != nil {
				return nil, err
			}
			if ok {
				return l.openPair(x, l.objects[at])
			}
		}
	}
	return newObjectInput(x, l.options)
}

// openPair returns the input of a Megatron index and its ids.
func (l *Listing) openPair(index, ids objects.Object) (*Input, error) {
	if _, err := l.options.checkFormat(Megatron); err != nil {
		return nil, fmt.Errorf("read %s: %w", index.URL, err)
	}
	in := newInput(index.URL, Megatron, l.options)
	in.addVersion(source{File: objectFile(index), size: index.Size, object: &index, ids: &ids}, index.Version)
	in.Bytes += ids.Size
	_, _ = fmt.Fprintf(in.sum, "%d\x00%s\x00", ids.Size, ids.Version)
	in.finish()
	return in.Input, nil
}

// isMegatron reports whether an object is a Megatron index. It reads its first bytes once.
func (l *Listing) isMegatron(ctx context.Context, x objects.Object) (bool, error) {
	if is, known := l.pairs[x.URL]; known {
		return is, nil
	}
	head, err := l.readHead(ctx, x, int64(len(tokenfiles.MegatronMagic)))
	if err != nil {
		return false, err
	}
	l.pairs[x.URL] = tokenfiles.IsMegatron(head)
	return l.pairs[x.URL], nil
}

// readHead reads the first bytes of an object.
func (l *Listing) readHead(ctx context.Context, x objects.Object, most int64) ([]byte, error) {
	r, err := l.options.Stores.OpenHead(ctx, x, most)
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	head, err := io.ReadAll(io.LimitReader(r, most))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	return head, nil
}

// openShard returns the input of a shard of MDS, with its entry in the index of a folder above it, if one is listed.
// ok is false for any other object. Of a raw and a compressed copy, the one that is listed first is read.
func (l *Listing) openShard(ctx context.Context, x objects.Object, name string, i int) (in *Input, ok bool, _ error) {
	index, err := l.indexOf(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if index == nil {
		raw, compressed := trimCompression(name)
		if first, listed := l.at[raw]; compressed && listed && extension(name) == shardExtension {
			return nil, first < i, nil
		}
		return nil, false, nil
	}
	rest := strings.TrimPrefix(name, index.folder)
	shard, listed := index.shards[rest]
	switch {
	case !listed && (extension(name) == shardExtension || !strings.Contains(rest, "/")):
		return nil, true, nil // the index, and what is not part of the data set
	case !listed:
		return nil, false, nil
	}
	file, other := shard.Raw, shard.Zip
	if rest != shard.Raw.Name {
		file, other = *shard.Zip, &shard.Raw
	} else {
		shard.Zip = nil // the raw shard is read
	}
	if other != nil {
		if at, found := l.at[index.folder+other.Name]; found && at < i {
			return nil, true, nil
		}
	}
	o := l.options
	o.Format = MDS
	if in, err = newObjectInput(x, o); err != nil {
		return nil, false, err
	}
	in.files[0].shard = &shard
	if file.Bytes != x.Size {
		in.openErr = fmt.Errorf("read %s: it has %d bytes, %s states %d: it is cut off, or belongs to another index", x.URL,
			x.Size, mds.IndexName, file.Bytes)
	}
	return in, true, nil
}

// indexOf returns the MDS index of the uppermost folder that has one and contains an object, or nil.
func (l *Listing) indexOf(ctx context.Context, name string) (*shardIndex, error) {
	_, begin, _ := strings.Cut(name, "://")
	for at := len(name) - len(begin); ; {
		n := strings.IndexByte(name[at:], '/')
		if n < 0 {
			return nil, nil
		}
		at += n + 1
		if _, listed := l.at[name[:at]+mds.IndexName]; !listed {
			continue
		}
		if index, err := l.readIndex(ctx, name[:at]+mds.IndexName); index != nil || err != nil {
			return index, err
		}
	}
}

// readIndex reads the MDS index with a name, once. It returns nil if the object is something else.
func (l *Listing) readIndex(ctx context.Context, name string) (*shardIndex, error) {
	folder := strings.TrimSuffix(name, mds.IndexName)
	if index, known := l.indexes[folder]; known {
		return index, nil
	}
	x := l.objects[l.at[name]]
	head, err := l.readHead(ctx, x, headBytes)
	if err != nil {
		return nil, err
	}
	if !mds.LooksLikeIndex(head) {
		l.indexes[folder] = nil
		return nil, nil
	}
	r, err := l.options.Stores.Open(ctx, x, 0)
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	read, err := mds.ReadIndex(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", x.URL, err)
	}
	index := &shardIndex{folder, map[string]mds.Shard{}}
	for _, s := range read.Shards {
		index.shards[s.Raw.Name] = s
		if s.Zip != nil {
			index.shards[s.Zip.Name] = s
		}
	}
	l.indexes[folder] = index
	return index, nil
}

// objectFile names an object.
func objectFile(x objects.Object) record.File {
	return record.File{Path: x.URL, UserPath: x.URL, Origin: x.URL}
}
