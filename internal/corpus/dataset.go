package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"loaderd/internal/corpus/hubcache"
	"loaderd/internal/corpus/record"
	"loaderd/internal/corpus/tokenids"
	"loaderd/internal/mds"
	"loaderd/internal/tokenfiles"
)

// File names in dataset folders.
const (
	stateName   = "state.json"        // dataset of one part, saved by Hugging Face's library
	splitsName  = "dataset_dict.json" // dataset of several parts, saved by Hugging Face's library
	infoName    = "dataset_info.json"
	allSplits   = "all"
	maxManifest = 64 << 20 // maximum bytes of such a file
)

// openDataset returns the inputs of a folder that is one dataset: saved by Hugging Face's library, or shards of MDS. ok
// is false for any other folder. given is the folder as the user wrote it, dir its absolute path, and base its path
// in documents.
func openDataset(given, dir, base string, o Options) (inputs []*Input, ok bool, err error) {
	if o.Format != Auto && o.Format != Arrow && o.Format != MDS {
		return nil, false, nil
	}
	var state struct {
		Files []struct {
			Name string `json:"filename"`
		} `json:"_data_files"`
		Indices []any  `json:"_indices_data_files"`
		Split   string `json:"_split"`
	}
	folder := datasetFolder{given, dir, base}
	if found, err := folder.readManifest(splitsName, nil); found || err != nil {
		inputs, err := folder.openSplits(o)
		return inputs, true, err
	}
	if found, err := folder.readManifest(stateName, &state); err != nil {
		return nil, true, err
	} else if found && len(state.Files) > 0 {
		if len(state.Indices) > 0 {
			return nil, true, fmt.Errorf(
				"read %s: the dataset is a selection of its files' rows: save it again with a newer version of datasets", dir)
		}
		if o.hasSplit() && state.Split != "" && state.Split != o.Split {
			return nil, true, folder.missingSplitError(o, []string{state.Split})
		}
		for _, f := range state.Files {
			in, err := folder.openMember(f.Name, Arrow, nil, o)
			if err != nil {
				return nil, true, err
			}
			in.Split = state.Split
			inputs = append(inputs, in)
		}
		return inputs, true, nil
	}
	head, err := folder.readHead(mds.IndexName)
	if err != nil || !mds.LooksLikeIndex(head) {
		return nil, false, err
	}
	inputs, err = folder.openShards(o)
	return inputs, true, err
}

// datasetFolder names a folder: as the user wrote it, absolute, and for paths of documents.
type datasetFolder struct{ given, dir, base string }

// readManifest decodes a file of the folder into v. found is false if the file does not exist, or if it is not JSON.
func (f datasetFolder) readManifest(name string, v any) (found bool, err error) {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return false, nil // unreadable: not a manifest
	}
	defer file.Close() // read only
	if v == nil {
		return true, nil
	}
	data, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return json.Unmarshal(data, v) == nil, nil
}

// readHead returns the beginning of a file of the folder, empty for none.
func (f datasetFolder) readHead(name string) ([]byte, error) {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return nil, nil // unreadable: not a manifest
	}
	defer file.Close() // read only
	h, err := readHead(file, headBytes, false)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return h.data, nil
}

// hasSplit reports whether one part of a dataset is selected.
func (o Options) hasSplit() bool { return o.Split != "" && o.Split != allSplits }

// missingSplitError returns the error of a dataset without the selected part.
func (f datasetFolder) missingSplitError(o Options, splits []string) error {
	return fmt.Errorf("find documents: dataset %s has no part %q; it has %s", f.dir, o.Split, record.ListNames(splits))
}

// checkSplit returns an error if a part is selected and the input belongs to no part of a dataset.
func (in *Input) checkSplit() error {
	if !in.options.hasSplit() || in.Split != "" || len(in.files) == 0 {
		return nil
	}
	return fmt.Errorf("find documents: --split %s: %s has no splits, which only saved datasets of Hugging Face have: "+
		"leave --split out",
		in.options.Split, in.files[0].Origin)
}

// openSplits returns the inputs of the selected parts of a dataset with several parts.
func (f datasetFolder) openSplits(o Options) (all []*Input, err error) {
	var parts struct {
		Splits []string `json:"splits"`
	}
	if ok, err := f.readManifest(splitsName, &parts); err != nil || !ok || len(parts.Splits) == 0 {
		return nil, errors.Join(err, fmt.Errorf("read %s: it does not list the dataset's parts",
			filepath.Join(f.dir, splitsName)))
	}
	splits := parts.Splits
	switch {
	case o.Split == allSplits:
	case o.Split != "" && !slices.Contains(splits, o.Split):
		return nil, f.missingSplitError(o, splits)
	case o.Split != "":
		splits = []string{o.Split}
	case len(splits) > 1:
		return nil, fmt.Errorf("find documents: dataset %s has the parts %s: select one or all with --split",
			f.dir, record.ListNames(splits))
	}
	o.Split = allSplits // the dataset's names are used, not those in its parts
	for _, name := range splits {
		if _, err := f.checkMember(name); err != nil {
			return nil, fmt.Errorf("read %s: the part %q: %w", filepath.Join(f.dir, splitsName), name, err)
		}
		inputs, ok, err := openDataset(path.Join(f.given, name), filepath.Join(f.dir, name), path.Join(f.base, name), o)
		if err == nil && !ok {
			err = fmt.Errorf("find documents: dataset %s has no files of the part %q", f.dir, name)
		}
		if err != nil {
			return nil, err
		}
		for _, in := range inputs {
			in.Split = name
		}
		all = append(all, inputs...)
	}
	return all, nil
}

// openMember returns the input of a file that the folder's manifest names.
func (f datasetFolder) openMember(name string, format Format, shard *mds.Shard, o Options) (*Input, error) {
	within, err := f.checkMember(filepath.FromSlash(name))
	if err != nil {
		return nil, fmt.Errorf("read %s: the file %q: %w", f.dir, name, err)
	}
	origin := filepath.Join(f.dir, filepath.FromSlash(name))
	info, err := os.Stat(origin)
	if err != nil {
		return nil, fmt.Errorf("find documents: a file listed in %s: %w", f.dir, err)
	}
	in := newInput(origin, format, o)
	in.add(source{
		File: record.File{Path: path.Join(f.base, name), UserPath: path.Join(f.given, name), Origin: origin},
		size: info.Size(), shard: shard, root: within,
	}, info)
	in.finish()
	return in.Input, nil
}

// checkMember returns an error for a name in a manifest that leads out of the folder, directly or through symbolic
// links. It returns the folder in which the file must be opened. That is none for a file of a snapshot of the hub's
// cache, which is a link to a blob.
func (f datasetFolder) checkMember(name string) (dir string, err error) {
	if !filepath.IsLocal(name) {
		return "", errors.New("it is not in the folder")
	}
	if hubcache.IsLink(filepath.Join(f.dir, name)) {
		return "", nil
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return "", err
	}
	defer root.Close() // read only
	if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return f.dir, nil
}

// openShards returns the inputs of an MDS index, one per file.
func (f datasetFolder) openShards(o Options) (inputs []*Input, err error) {
	file, err := os.Open(filepath.Join(f.dir, mds.IndexName))
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	defer file.Close() // read only
	index, err := mds.ReadIndex(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	for i := range index.Shards {
		s := &index.Shards[i]
		name := s.Raw.Name
		if _, err := os.Stat(filepath.Join(f.dir, filepath.FromSlash(name))); err != nil && s.Zip != nil {
			name = s.Zip.Name
		} else {
			s.Zip = nil // the uncompressed shard is read
		}
		in, err := f.openMember(name, MDS, s, o)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// megatronIndexOf returns the Megatron index of a path: the path itself, the index next to the ids, or the path with
// the extension of an index. It returns the path itself if no index exists.
func megatronIndexOf(name string) string {
	for _, idx := range []string{strings.TrimSuffix(name, ".bin") + ".idx", name + ".idx"} {
		if idx != name && isMegatron(idx) {
			if _, err := os.Stat(name); err == nil && !strings.HasSuffix(name, ".bin") {
				continue // not the index of a pair
			}
			return idx
		}
	}
	return name
}

// isMegatron reports whether a file is a Megatron index.
func isMegatron(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	head := make([]byte, len(tokenfiles.MegatronMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && tokenfiles.IsMegatron(head)
}

// addPair adds a Megatron index and the ids next to it to the files of an input.
func (u inputBuilder) addPair(s source, info os.FileInfo) error {
	s.bin = strings.TrimSuffix(s.Origin, ".idx") + ".bin"
	ids, err := os.Stat(s.bin)
	if err != nil {
		return fmt.Errorf("find documents: the ids of the index %s: %w", s.Origin, err)
	}
	u.add(s, info)
	u.Bytes += ids.Size()
	_, _ = fmt.Fprintf(u.sum, "%d\x00%d\x00", ids.Size(), ids.ModTime().UnixNano())
	return nil
}

// addTokens adds a file of token ids and its companions to the files of an input.
func (u inputBuilder) addTokens(s source, info os.FileInfo) error {
	s.companions = tokenids.FindCompanions(s.Origin)
	u.add(s, info)
	for _, name := range []string{s.companions.Mask, s.companions.Bounds} {
		if name == "" {
			continue
		}
		c, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("find documents: the companion of %s: %w", s.Origin, err)
		}
		_, _ = fmt.Fprintf(u.sum, "%s\x00%d\x00%d\x00", filepath.Base(name), c.Size(), c.ModTime().UnixNano())
	}
	return nil
}

// hasRawShard reports whether the folder of a compressed shard without an index has the uncompressed shard too, which
// is read instead.
func hasRawShard(name string) bool {
	raw, compressed := trimCompression(name)
	if !compressed {
		return false
	}
	_, err := os.Stat(raw)
	return err == nil
}
