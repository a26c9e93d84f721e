package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"loaderd/internal/corpus/hubcache"
	"loaderd/internal/corpus/record"
	"loaderd/internal/corpus/tokenids"
)

// openFolder returns one input for all text files, and one for each other file, in the order of their paths.
func openFolder(given, root string, o Options) ([]*Input, error) {
	w := folderWalk{given: given, root: root, options: o, text: newInput(root+string(filepath.Separator), Text, o)}
	w.text.folder = true
	if err := filepath.WalkDir(root, w.visit); err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	slices.SortFunc(w.inputs, func(a, b walkedInput) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.place, b.place))
	})
	var all []*Input
	if len(w.text.files) > 0 || len(w.text.skipped) > 0 {
		w.text.finish()
		all = append(all, w.text.Input)
	}
	for _, p := range w.inputs {
		all = append(all, p.Input)
	}
	return all, nil
}

// folderWalk collects the inputs of a folder.
type folderWalk struct {
	given   string // the folder's path as the user wrote it
	root    string // absolute
	options Options
	text    inputBuilder // of all text files
	inputs  []walkedInput
}

// walkedInput is an input of a folder with its sort keys: the name of its file or dataset, and its position in the
// dataset.
type walkedInput struct {
	*Input
	name  string
	place int
}

func (w *folderWalk) skip(rel string, r record.Reason, err error) {
	w.text.skipped = append(w.text.skipped, &record.SkipError{Reason: r, Path: rel, Err: err})
}

// visit is a filepath.WalkDirFunc.
func (w *folderWalk) visit(name string, d fs.DirEntry, err error) error {
	rel, relErr := filepath.Rel(w.root, name)
	if relErr != nil {
		return relErr
	}
	rel = filepath.ToSlash(rel)
	switch {
	case err != nil && name == w.root:
		return err
	case err != nil:
		w.skip(rel, record.Unreadable, err)
		return nil
	case name != w.root && strings.HasPrefix(d.Name(), "."):
		w.skip(rel, record.Hidden, errors.New("its name begins with a dot"))
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	case d.IsDir():
		return w.visitFolder(name, rel)
	}
	return w.visitFile(name, rel, d)
}

// visitFolder decides whether to walk a folder. A dataset is read as a whole.
func (w *folderWalk) visitFolder(name, rel string) error {
	if filepath.Base(name) != hubcache.Snapshots && name != w.root && hubcache.IsRepository(filepath.Dir(name)) {
		return fs.SkipDir // blobs are read through the links of a snapshot
	}
	if err := hubcache.CheckSnapshots(name); err != nil {
		return err
	}
	inputs, ok, err := openDataset(path.Join(w.given, rel), name, strings.TrimPrefix(rel, "."), w.options)
	if err != nil || !ok {
		return err
	}
	for i, in := range inputs {
		w.inputs = append(w.inputs, walkedInput{in, name, i})
	}
	return fs.SkipDir
}

func (w *folderWalk) visitFile(name, rel string, d fs.DirEntry) error {
	link := d.Type()&fs.ModeSymlink != 0 && hubcache.IsLink(name)
	if !d.Type().IsRegular() && !link {
		w.skip(rel, record.Special, fmt.Errorf("not a regular file (%s)", d.Type()))
		return nil
	}
	info, err := d.Info()
	if link {
		info, err = os.Stat(name)
	}
	if err != nil {
		w.skip(rel, record.Unreadable, err)
		return nil
	}
	if w.options.isCompanionFile(name) {
		return nil
	}
	s := source{File: record.File{Path: rel, UserPath: path.Join(w.given, rel), Origin: name}, size: info.Size()}
	if w.options.isDeferred() {
		w.text.add(s, info)
		return nil
	}
	// It is opened here, because a file that becomes readable must change the input's fingerprint.
	f, err := detectFile(s, w.options)
	var refused *record.SkipError
	switch {
	case errors.As(err, &refused):
		w.skip(rel, refused.Reason, refused.Err)
		return nil
	case isUnreadable(err):
		w.skip(rel, record.Unreadable, err)
		return nil
	case err != nil:
		w.inputs = append(w.inputs, walkedInput{newFailedInput(s, info, w.options, err), name, 0})
		return nil
	case f == Text:
		w.text.add(s, info)
		return nil
	}
	in, err := newFileInput(s, f, info, w.options)
	if err != nil {
		return err
	}
	w.inputs = append(w.inputs, walkedInput{in, name, 0})
	return nil
}

// isUnreadable reports whether a file of a folder is skipped because of an error.
func isUnreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
}

// isCompanionFile reports whether another file of the folder is read in place of this one, or together with it: ids
// with their Megatron index, companions with their token file, an MDS shard in place of its compressed copy.
func (o Options) isCompanionFile(name string) bool {
	is := func(f Format) bool { return o.Format == Auto || o.Format == f }
	return strings.HasSuffix(name, ".bin") && is(Megatron) && megatronIndexOf(name) != name ||
		is(Tokens) && tokenids.IsCompanion(name) ||
		is(MDS) && extension(name) == shardExtension && hasRawShard(name)
}
